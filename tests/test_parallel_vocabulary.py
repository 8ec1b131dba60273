"""A vocabulary cut over ranks: embedding, logits, the greedy token and the log-sum-exp without all logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensor_runs import HIDDEN, VOCABULARY, B, S, error, filled, numbers
from torch import nn

import mindlab as ml
from mindlab.models.layers import Block
from mindlab.parallel import tensor

WITHIN = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # float32 sums of 24 terms; three digits of bfloat16


def ids(vocabulary: int) -> torch.Tensor:
    """Every id of the vocabulary, and some twice, in (2, …)."""
    return torch.cat([torch.arange(vocabulary), torch.zeros(vocabulary % 2, dtype=torch.int64)]).reshape(
        2, -1
    )


def both(vocabulary: int, dtype: torch.dtype) -> dict[str, Any]:
    """In a rank: embedding and logits of one table."""
    table, head = (
        filled(nn.Embedding(vocabulary, HIDDEN), dtype),
        filled(nn.Linear(HIDDEN, vocabulary), dtype),
    )
    x = numbers(B, S, HIDDEN).to(dtype)
    logits = tensor.VocabParallelLogits.from_full(head)
    return {
        "embedded": tensor.VocabParallelEmbedding.from_full(table)(ids(vocabulary)),
        "own": logits(x),
        "all": tensor.VocabParallelLogits.from_full(head, gather_output=True)(x),
        "tied": tensor.VocabParallelLogits.from_full(table, gather_output=True)(x),
        "argmax": logits.argmax(x),
        "lse": logits.log_sum_exp(x),
    }


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_cards_numbers(ranks: int, dtype: torch.dtype) -> None:
    """Would catch ids of other ranks that give a row, a rest that is dropped, ranks without any id (5 on 8),
    an argmax that counts from the rank's own first id."""
    for vocabulary in (VOCABULARY, 5, 1):
        run = ml.launch(both, vocabulary, dtype, ranks=ranks)
        table = filled(nn.Embedding(vocabulary, HIDDEN), dtype)
        head, x = filled(nn.Linear(HIDDEN, vocabulary), dtype), numbers(B, S, HIDDEN).to(dtype)
        with torch.no_grad():
            embedded, logits, tied = table(ids(vocabulary)), head(x), x @ table.weight.T
        for rank, found in enumerate(run.values):
            own = logits.tensor_split(ranks, -1)[rank]
            assert torch.equal(found["embedded"], embedded), "one row plus zeros is exact"
            assert found["own"].shape == own.shape
            assert not own.numel() or error(found["own"], own) < WITHIN[dtype]
            assert error(found["all"], logits) < WITHIN[dtype] and error(found["tied"], tied) < WITHIN[dtype]
            assert torch.equal(found["argmax"], found["all"].argmax(-1)), (vocabulary, rank)
            assert error(found["lse"], found["all"].float().logsumexp(-1)) < 1e-5
            assert found["lse"].dtype == torch.float32


@pytest.mark.parametrize("ranks", [2, 3])
def test_equal_logits_give_the_lowest_id(ranks: int) -> None:
    """Would catch the last rank that wins a tie, and a NaN that one rank hides (torch's argmax finds it)."""

    def ties(weight: torch.Tensor) -> torch.Tensor:
        head = nn.Linear(1, len(weight), bias=False)
        head.weight.data = weight[:, None]
        return tensor.VocabParallelLogits.from_full(head).argmax(torch.ones(2, 1))

    nan, inf = float("nan"), float("inf")
    for row in ([0, 3, 3, 1, 3, 2, 3], [1, 1, 1, 1, 1], [-inf] * 5, [1, 2, 1, nan, 3, nan, inf]):
        weight = torch.tensor(row, dtype=torch.float32)
        for found in ml.launch(ties, weight, ranks=ranks).values:
            assert found.tolist() == [int(weight.argmax())] * 2


@pytest.mark.parametrize("ranks", [3, 4])
def test_bytes(ranks: int) -> None:
    """Would catch logits that are gathered for a greedy token, an embedding that sends more than one sum."""

    def embed() -> None:
        tensor.VocabParallelEmbedding.from_full(nn.Embedding(VOCABULARY, HIDDEN))(torch.zeros(B, S).long())

    def greedy() -> None:
        tensor.VocabParallelLogits.from_full(nn.Linear(HIDDEN, VOCABULARY)).argmax(numbers(B, S, HIDDEN))

    def gather() -> None:
        linear = nn.Linear(HIDDEN, VOCABULARY)
        tensor.VocabParallelLogits.from_full(linear, gather_output=True)(numbers(B, S, HIDDEN))

    run = ml.launch(embed, ranks=ranks)
    exact = ml.volume.gloo_all_reduce(B * S * HIDDEN * 4, ranks, itemsize=4).by_rank(ranks)
    if run.wire is not None and run.wire.payload is not None:
        assert run.wire.payload.sum(axis=1).tolist() == list(exact)
    assert [e.op for e in run.events if e.rank == 0] == ["all_reduce"]
    run = ml.launch(greedy, ranks=ranks)
    assert run.sent.tolist() == [(ranks - 1) * B * S * 12] * ranks, "12 bytes a token to each other rank"
    run = ml.launch(gather, ranks=ranks)
    sizes = [len(part) for part in torch.arange(VOCABULARY).tensor_split(ranks)]
    assert run.sent.tolist() == [
        B * S * 4 * (VOCABULARY - sizes[(rank + 1) % ranks]) for rank in range(ranks)
    ]


def test_refusals() -> None:
    """Would catch an id that no rank has and that gives zeros in silence; a table that rescales its rows."""

    def refused(kind: str) -> str:
        try:
            table = nn.Embedding(10, 4, max_norm=1.0 if kind == "norm" else None)
            split = tensor.VocabParallelEmbedding.from_full(table)
            split(torch.tensor({"high": [0, 10], "low": [-1, 3], "norm": [0]}[kind]))
        except ValueError as problem:
            return str(problem)
        return "accepted"

    assert (
        ml.launch(refused, "high", ranks=3).values
        == ["ids from 0 to 10 do not fit a vocabulary of 10: give 0 to 9"] * 3
    )
    assert all(text.startswith("ids from -1 to 3") for text in ml.launch(refused, "low", ranks=3).values)
    assert all("max_norm=1.0" in text for text in ml.launch(refused, "norm", ranks=3).values)


def test_ids_of_another_dtype_are_refused() -> None:
    """Would catch uint8, which torch takes for a mask: three ids beside three rows gave rows 0, 1, 2. And a
    refusal of no ids at all."""

    def refused(dtype: torch.dtype) -> str:
        table = tensor.VocabParallelEmbedding.from_full(filled(nn.Embedding(3, 4)))
        try:
            return str([tuple(table(torch.tensor(ids, dtype=dtype)).shape) for ids in ([2, 1, 1], [])])
        except ValueError as problem:
            return str(problem)

    for dtype in (torch.uint8, torch.int16, torch.bool, torch.float32):
        said = f"ids are {dtype}: give int32 or int64, ids.long()"
        assert ml.launch(refused, dtype, ranks=1).values == [said]
    assert ml.launch(refused, torch.int32, ranks=1).values == ["[(3, 4), (0, 4)]"]


def test_a_rank_without_rows_has_no_say() -> None:
    """Would catch the best of nothing taken for 0: larger than all logits here, under an id that is none."""

    def best() -> list[float]:
        head = nn.Linear(4, 2)
        nn.init.zeros_(head.weight)
        with torch.no_grad():
            head.bias.copy_(torch.tensor([-5.0, -3.0]))
        split = tensor.VocabParallelLogits.from_full(head)
        x = torch.ones(1, 4)
        return [split.argmax(x).item(), split.log_sum_exp(x).item()]

    wanted = torch.tensor([-5.0, -3.0]).logsumexp(0).item()
    assert ml.launch(best, ranks=4).values == [[1, pytest.approx(wanted)]] * 4


def model(split: bool, x: torch.Tensor) -> torch.Tensor:
    """Token and position embedding, two blocks, logits: on one card, or its parts on ranks."""
    tokens, positions = filled(nn.Embedding(36, HIDDEN)), filled(nn.Embedding(S, HIDDEN))
    blocks, head = [filled(Block(HIDDEN, 12)) for _ in range(2)], filled(nn.Linear(HIDDEN, 36))
    if split:
        tokens, positions = (tensor.VocabParallelEmbedding.from_full(e) for e in (tokens, positions))
        blocks = [tensor.ParallelBlock.from_full(block) for block in blocks]
        head = tensor.VocabParallelLogits.from_full(head, gather_output=True)
    hidden = tokens(x) + positions(torch.arange(S).expand_as(x))
    for block in blocks:
        hidden = block(hidden)
    return head(hidden)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_whole_model(ranks: int) -> None:
    """Would catch a layer that is right alone and wrong behind another. 6 all-reduces and 1 all-gather are
    what torch's own test of tensor parallelism expects of such a model."""
    x = torch.randint(36, (B, S), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = model(False, x)
    run = ml.launch(model, True, x, ranks=ranks)
    for rank in range(ranks):
        assert error(run.values[rank], wanted) < 1e-5, rank
        assert [e.op for e in run.events if e.rank == rank] == ["all_reduce"] * 6 + ["all_gather"]
