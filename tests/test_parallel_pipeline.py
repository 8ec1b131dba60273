"""A pipeline of stages: one card's results, its order and bytes, decoding token by token, refusals."""

from __future__ import annotations

import doctest
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mindlab as ml
from mindlab.parallel import hops, pipeline
from mindlab.parallel.pipeline import Slot, decode, run_pipeline

# The same float32 operations in the same order, on another number of threads.
CLOSE = 1e-5
HIDDEN, IDS = 24, 31


class Sums:
    """What a toy stage remembers of one prompt: the sum of its inputs, and of how many tokens."""

    def __init__(self) -> None:
        self.total: torch.Tensor | float = 0.0
        self.count = 0


class Toy(nn.Module):
    """A causal stage: to each token comes a function of the mean of all so far. Biases are not zero."""

    def __init__(self, first: bool, last: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(IDS, HIDDEN) if first else nn.Identity()
        self.linear = nn.Linear(HIDDEN, HIDDEN)
        self.logits = nn.Linear(HIDDEN, IDS) if last else nn.Identity()

    def forward(self, x: torch.Tensor, cache: Sums | None = None) -> torch.Tensor:
        """(B, S, HIDDEN) in and out; ids into the first, logits (B, S, IDS) from the last."""
        x = self.embedding(x)
        seen = cache or Sums()
        totals = x.cumsum(1) + seen.total
        counts = torch.arange(1, x.shape[1] + 1).unsqueeze(1) + seen.count
        seen.total, seen.count = totals[:, -1:], seen.count + x.shape[1]
        out: torch.Tensor = self.logits(x + self.linear(totals / counts).sin())
        return out


def toys(count: int, dtype: torch.dtype = torch.float32) -> list[Toy]:
    """The stages, the same everywhere."""
    torch.manual_seed(2)
    made = [Toy(first=not stage, last=stage == count - 1) for stage in range(count)]
    return [stage.requires_grad_(False).to(dtype) for stage in made]


def one_card(stages: list[Toy], ids: torch.Tensor) -> torch.Tensor:
    """All stages, one after the other."""
    for stage in stages:
        ids = stage(ids)
    return ids


def continued(stages: list[Toy], ids: torch.Tensor, tokens: int) -> torch.Tensor:
    """The likeliest token each time, all computed anew."""
    for _ in range(tokens):
        ids = torch.cat([ids, one_card(stages, ids)[:, -1].argmax(-1, keepdim=True)], 1)
    return ids


def batches(count: int) -> list[torch.Tensor]:
    """Micro-batches of ids (B, S) with other batches and lengths each."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(IDS, (1 + index % 3, 4 + index), generator=draw) for index in range(count)]


def forward(made: list[Toy], count: int, alone: bool = False) -> Any:
    """On a rank: its part of the pipeline; alone: without the inputs and the others' stages."""
    rank, own = dist.get_rank(), list[Any](made)
    given: list[Any] = batches(count)
    if alone:
        own = [stage if index == rank else None for index, stage in enumerate(own)]
        given = given if rank == 0 else [None] * count
    return run_pipeline(own, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_card(ranks: int, count: int, dtype: torch.dtype) -> None:
    """Would catch micro-batches in another order, a shape kept from the first one, a block left out."""
    made = toys(ranks, dtype)
    run = ml.launch(forward, made, count, alone=count == 5, ranks=ranks)
    *others, (outputs, _) = run.values
    assert all(nothing is None for nothing, _ in others)
    # bfloat16: rounded to 8 bits in each of up to eight stages; logits are below 4
    close = CLOSE if dtype == torch.float32 else 0.1
    assert len(outputs) == count
    for out, ids in zip(outputs, batches(count), strict=True):
        right = one_card(made, ids)
        assert out.dtype == dtype and out.shape == right.shape
        assert float((out - right).abs().max()) <= close
    tokens = sum(ids.numel() for ids in batches(count))
    right = ml.volume.pipeline(tokens, HIDDEN, ranks, itemsize=dtype.itemsize, microbatches=count)
    assert run.sent.tolist() == list(right.by_rank(ranks))
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == run.sent.tolist()
    traffic = run.traffic.tolist()
    assert all((traffic[s][d] > 0) == (d == s + 1) for s in range(ranks) for d in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_slots_are_on_one_clock(ranks: int) -> None:
    """Would catch clocks that do not agree: no stage begins before the one before is done."""
    run = ml.launch(forward, toys(ranks), 4, ranks=ranks)
    by_place = {(slot.stage, slot.microbatch): slot for _, slots in run.values for slot in slots}
    assert len(by_place) == 4 * ranks
    for (stage, index), slot in by_place.items():
        assert slot.rank == stage and 0 < slot.start < slot.end
        if stage:
            assert slot.start >= by_place[stage - 1, index].end
        if index:
            assert slot.start >= by_place[stage, index - 1].end
    sends = [event for event in run.events if event.op == "isend"]
    assert all(by_place[event.rank, 0].end <= event.start for event in sends)


def test_a_stage_goes_on_while_the_next_one_is_busy(tmp_path: Path) -> None:
    """Would catch a blocking send: the second stage holds its first input until the first has done all."""
    done = tmp_path / "done"

    def first(x: torch.Tensor) -> torch.Tensor:
        if int(x[0]) == 2:
            done.touch()
        return x + 1

    def second(x: torch.Tensor) -> torch.Tensor:
        deadline = time.monotonic() + 30
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert done.exists(), "the first stage waits for the second"
        return x * 10

    def experiment() -> Any:
        return run_pipeline([first, second], [torch.tensor([index, 0]) for index in range(3)])[0]

    found = ml.launch(experiment, ranks=2).values[1]
    assert [out.tolist() for out in found] == [[10, 10], [20, 10], [30, 10]]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_decode_token_by_token(ranks: int, cached: bool) -> None:
    """Would catch a cache shared by two prompts, a token given to another prompt, a wrong last token."""
    made, prompts, tokens = toys(ranks), batches(3), 5

    def run_decode() -> Any:
        return decode(made, prompts, tokens, cache=Sums if cached else None)

    run = ml.launch(run_decode, ranks=ranks)
    *others, (found, _) = run.values
    assert all(nothing is None for nothing, _ in others)
    for ids, prompt in zip(found, prompts, strict=True):
        assert torch.equal(ids, continued(made, prompt, tokens))
    rights = [
        ml.volume.pipeline_decode(*prompt.shape, tokens, HIDDEN, ranks, itemsize=4, cached=cached)
        for prompt in prompts
    ]
    assert run.sent.tolist() == [sum(sent) for sent in zip(*(q.by_rank(ranks) for q in rights), strict=True)]
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == run.sent.tolist()


def test_a_token_waits_for_the_one_before_it() -> None:
    """Would catch a token begun before the last stage knew the one before: one prompt overlaps nothing."""
    made = toys(4)

    def one_prompt() -> list[Slot]:
        return decode(made, batches(1), 4, cache=Sums)[1]

    slots = sorted(
        (slot for part in ml.launch(one_prompt, ranks=4).values for slot in part), key=lambda s: s.start
    )
    assert [(slot.step, slot.stage) for slot in slots] == [
        (step, stage) for step in range(4) for stage in range(4)
    ]
    assert all(before.end <= after.start for before, after in pairwise(slots))


def test_groups_beside_each_other() -> None:
    """Would catch a global rank taken for a group's: two pipelines at a time, on ranks 4 1 2 and 3 0."""
    lines = {size: toys(size) for size in (2, 3)}

    def two_lines() -> Any:
        groups = [dist.new_group([1, 2, 4]), dist.new_group([0, 3])]
        mine = groups[dist.get_rank() in (0, 3)]
        return run_pipeline(lines[dist.get_world_size(mine)], batches(3), mine)

    values = ml.launch(two_lines, ranks=5).values
    assert [outputs is not None for outputs, _ in values] == [False, False, False, True, True]
    for rank in (3, 4):
        for out, ids in zip(values[rank][0], batches(3), strict=True):
            assert float((out - one_card(lines[2 if rank == 3 else 3], ids)).abs().max()) <= CLOSE
    assert [slots[0].stage for _, slots in values] == [0, 0, 1, 1, 2]


def test_beside_the_library_s_own_schedule() -> None:
    """Would catch results that differ from torch's GPipe schedule on the same stages."""

    def both() -> Any:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        torch.manual_seed(0)
        parts = [nn.Linear(6, 6).requires_grad_(False) for _ in range(2)]
        x, rank = torch.randn(8, 6), dist.get_rank()
        ours, _ = run_pipeline(parts, list(x.chunk(4)))
        stage = PipelineStage(parts[rank], rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=4)
        theirs = schedule.step(*([x] if rank == 0 else []))
        return None if ours is None else float((torch.cat(ours) - theirs).abs().max())

    assert ml.launch(both, ranks=2).values[1] <= 1e-6  # one addition in another order


def test_a_hop_of_any_shape() -> None:
    """Would catch a scalar or an empty tensor that hangs, dims out of order, gaps sent as data."""
    shapes: list[tuple[int, ...]] = [(), (3,), (2, 0, 4), (1, 2, 3, 1, 2, 2)]
    made = [
        (torch.arange(torch.Size(shape).numel()).reshape(shape) + 1).to(dtype)
        for dtype in hops.DTYPES
        for shape in shapes
    ]
    given = [x.mT if x.ndim > 2 else x for x in made]

    def hop() -> list[torch.Tensor]:
        if dist.get_rank() == 0:
            for x in given:
                hops.finish(hops.send(x, 1))
            return []
        return [hops.receive(0, torch.device("cpu")) for _ in given]

    found = ml.launch(hop, ranks=2).values[1]
    for arrived, x in zip(found, given, strict=True):
        assert arrived.dtype == x.dtype and torch.equal(arrived, x)


def test_refusals() -> None:
    """Would catch a rank without a stage that leaves the others waiting, stages left out."""

    def call(what: str) -> None:
        x, same = torch.ones(2), lambda x: x
        calls: dict[str, Any] = {
            "count": lambda: run_pipeline([same] * 3, [x]),
            "stage": lambda: run_pipeline([same, None], [x]),
            "empty": lambda: run_pipeline([same] * 2, []),
            "input": lambda: run_pipeline([same] * 2, [None]),
            "prompts": lambda: decode([same] * 2, [], 2),
            "dtype": lambda: run_pipeline([lambda x: x > 0, same], [x]),
        }
        calls[what]()

    words = {
        "count": "3 stages on 2 ranks: give one a rank",
        "stage": r"stages\[1\] is None on rank 1: it needs its own stage",
        "empty": "microbatches is empty: give one at least",
        "input": r"microbatches\[0\] is None on the first rank",
        "prompts": "prompts is empty",
        "dtype": r"\(2,\) of torch.bool cannot be passed on: give up to 6 dims of float32",
    }
    for what, match in words.items():
        with pytest.raises(ml.MindlabError, match=match):
            ml.launch(call, what, ranks=2)


def test_none_and_one_new_token() -> None:
    """Would catch a token that is sent back and never taken; and the way back over a group of its own."""
    made, prompts = toys(3), batches(2)

    def run_decode(tokens: int) -> Any:
        back = dist.new_group(list(range(3)))
        return decode(made, prompts, tokens, cache=Sums, back=back)[0]

    for tokens in (0, 1, 3):
        found = ml.launch(run_decode, tokens, ranks=3).values[-1]
        for ids, prompt in zip(found, prompts, strict=True):
            assert torch.equal(ids, continued(made, prompt, tokens))


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(pipeline, extraglobs={**vars(pipeline), "ml": ml, "torch": torch})
    assert found.failed == 0 and found.attempted
