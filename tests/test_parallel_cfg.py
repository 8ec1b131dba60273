"""Guidance on two groups: the serial step on every rank, its bytes, another strategy inside, refusals."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mindlab as ml
from mindlab.models.digits import DigitsModel, guided, load_digits, sample
from mindlab.models.layers import MLP
from mindlab.parallel import cfg
from mindlab.parallel.cfg import branch, cfg_fused, cfg_parallel, combined
from mindlab.parallel.tensor import ParallelBlock, ParallelMLP
from mindlab.parallel.ulysses import attend_by_heads
from mindlab.predict import branches

SCALE = 7.5  # 0.5 would hide branches that are swapped
# The same float32 numbers combined by the same expression; a split model rounds its sums in another order,
# which guidance enlarges 14 times.
CLOSE = 1e-5


class Conditioned(nn.Module):
    """An MLP of x, t and a condition, features last; weights of size 1, biases not zero, not symmetric."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.mlp: nn.Module = MLP(16, 24)
        self.calls = 0

    def forward(self, x: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """(B, S, 16) from (B, S, 16), t (B,) or () and a condition (B, 16)."""
        self.calls += 1
        when = t.view(-1, 1, 1) if t.ndim else t
        out: torch.Tensor = self.mlp(x + condition.unsqueeze(1) * when)
        return out


def inputs(dtype: torch.dtype = torch.float32, one_time: bool = False) -> tuple[Any, ...]:
    """x (2, 5, 16), t, cond and uncond (2, 16): the same on every rank."""
    draw = torch.Generator().manual_seed(9)
    x, cond, uncond = (torch.randn(*shape, generator=draw) for shape in ((2, 5, 16), (2, 16), (2, 16)))
    t = torch.tensor(0.7) if one_time else torch.tensor([0.3, 0.9])
    return tuple(tensor.to(dtype) for tensor in (x, t, cond, uncond))


def by_hand(dtype: torch.dtype = torch.float32, one_time: bool = False) -> torch.Tensor:
    """The definition, in the model's dtype: two calls one after the other."""
    x, t, cond, uncond = inputs(dtype, one_time)
    model = Conditioned().to(dtype)
    with torch.no_grad():
        without, with_it = model(x, t, uncond), model(x, t, cond)
    return (1 - SCALE) * without.double() + SCALE * with_it.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_serial_step_on_every_rank(ranks: int, dtype: torch.dtype) -> None:
    """Would catch branches swapped, a rank that keeps its own prediction, cond + s (cond - uncond)."""

    def step() -> tuple[torch.Tensor, torch.Tensor, int]:
        model = Conditioned().to(dtype)
        out = cfg_parallel(model, *inputs(dtype), SCALE)
        calls = model.calls
        return out, guided(model, *inputs(dtype), SCALE), calls

    run = ml.launch(step, ranks=ranks)
    # bfloat16 rounds the difference, its multiple and the sum to 8 bits, at values of up to 12
    close = CLOSE if dtype == torch.float32 else 0.15
    for rank, (out, serial, calls) in enumerate(run.values):
        assert out.dtype == dtype and torch.equal(out, serial), rank
        assert float((out.double() - by_hand(dtype)).abs().max()) <= close, rank
        assert calls == 1
    right = ml.volume.cfg_parallel(2 * 5 * 16, ranks, itemsize=dtype.itemsize)
    assert run.sent.tolist() == list(right.by_rank(ranks)) == [160 * dtype.itemsize] * ranks
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == run.sent.tolist()
    traffic = run.traffic.tolist()
    assert all((traffic[s][d] > 0) == (abs(s - d) == ranks // 2) for s in range(ranks) for d in range(ranks))


@pytest.mark.parametrize("scale", [0, 0.5, 1, 7.5, -2.0])
def test_scales(scale: float) -> None:
    """Would catch a scale that is off by one: 0 is without the condition, 1 is with it."""

    def step() -> torch.Tensor:
        return cfg_parallel(Conditioned(), *inputs(), scale)

    x, t, cond, uncond = inputs()
    model = Conditioned()
    right = guided(model, x, t, cond, uncond, scale).detach()
    for out in ml.launch(step, ranks=2).values:
        assert float((out - right).abs().max()) <= CLOSE
        assert float((cfg_fused(model, x, t, cond, uncond, scale) - out).abs().max()) <= CLOSE
    plain = {0: uncond, 1: cond}
    if scale in plain:
        assert torch.allclose(right, model(x, t, plain[int(scale)]), atol=CLOSE)
    assert combined(torch.tensor(0.0), torch.tensor(1.0), scale) == scale


@pytest.mark.parametrize("one_time", [False, True])
def test_fused_is_one_call(one_time: bool) -> None:
    """Would catch two calls, halves in the wrong order, times of one half used for the other."""
    model = Conditioned()
    out = cfg_fused(model, *inputs(one_time=one_time), SCALE)
    assert model.calls == 1
    assert float((out - by_hand(one_time=one_time)).abs().max()) <= CLOSE


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_whole_denoising_run(ranks: int) -> None:
    """Would catch an error that grows from step to step, and ranks whose pictures drift apart."""
    torch.manual_seed(4)
    digits, labels = DigitsModel(hidden=32, layers=2), [3, 7, 1]

    def denoise() -> list[torch.Tensor]:
        ways = cfg_parallel, guided, cfg_fused
        return [sample(digits, labels, scale=SCALE, steps=5, guide=guide) for guide in ways]

    run = ml.launch(denoise, ranks=ranks)
    for parallel, serial, fused in run.values:
        assert torch.equal(parallel, serial) and torch.equal(parallel, run.values[0][0])
        # a batch twice as large may round its sums in another order: 14 times that, in each of five steps
        assert float((fused - serial).abs().max()) <= 1e-4
    assert run.sent.tolist() == [int(ml.volume.cfg_parallel(3 * 64, ranks, itemsize=4, steps=5))] * ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_digits_that_ship(ranks: int) -> None:
    """Would catch pictures of a trained model that differ by how their two predictions were made."""
    digits, labels = load_digits(), list(range(10))

    def denoise() -> list[torch.Tensor]:
        return [sample(digits, labels, guide=guide) for guide in (cfg_parallel, cfg_fused)]

    serial = sample(digits, labels)
    for parallel, fused in ml.launch(denoise, ranks=ranks).values:
        assert float((parallel - serial).abs().max()) <= CLOSE
        assert float((fused - serial).abs().max()) <= CLOSE


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_tensor_parallel_inside_each_half(ranks: int) -> None:
    """Would catch an all-reduce over both halves, which adds up two different branches."""

    def step() -> torch.Tensor:
        half = dist.new_subgroups(ranks // 2)[0]
        model = Conditioned()
        model.mlp = ParallelMLP.from_full(model.mlp, half)  # type: ignore[arg-type]
        return cfg_parallel(model, *inputs(), SCALE)

    for out in ml.launch(step, ranks=ranks).values:
        assert float((out - by_hand()).abs().max()) <= CLOSE


def test_a_split_diffusion_model_inside_each_half() -> None:
    """Would catch a half whose ranks disagree on a real model: blocks cut by heads, 2 x 2 ranks."""
    torch.manual_seed(4)
    digits = DigitsModel(hidden=32, layers=2)

    def denoise() -> torch.Tensor:
        half = dist.new_subgroups(2)[0]
        digits.blocks = nn.ModuleList(ParallelBlock.from_full(block, half) for block in digits.blocks)
        return sample(digits, [3, 7], scale=SCALE, steps=3, guide=cfg_parallel)

    serial = sample(digits, [3, 7], scale=SCALE, steps=3)
    for pictures in ml.launch(denoise, ranks=4).values:
        assert float((pictures - serial).abs().max()) <= 1e-4  # sums in another order, 14 times, three steps


def test_shards_of_the_sequence_inside_each_half() -> None:
    """Would catch a partner with another shard: each half splits the sequence (5 = 3 + 2) by Ulysses."""

    def attend(x: torch.Tensor, t: torch.Tensor, condition: torch.Tensor, group: Any) -> torch.Tensor:
        heads = (x + condition.unsqueeze(1) * t.view(-1, 1, 1)).unflatten(-1, (4, 4))
        return attend_by_heads(heads, heads * 2, heads.sin(), [3, 2], group=group).flatten(2)

    def step() -> torch.Tensor:
        half = dist.new_subgroups(2)[0]
        x, *rest = inputs()
        mine = x.split([3, 2], dim=1)[dist.get_rank(half)]
        return cfg_parallel(lambda *given: attend(*given, half), mine, *rest, SCALE)

    def alone(x: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        heads = (x + condition.unsqueeze(1) * t.view(-1, 1, 1)).unflatten(-1, (4, 4)).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(heads, heads * 2, heads.sin())
        return attended.transpose(1, 2).flatten(2)

    right = guided(alone, *inputs(), SCALE).split([3, 2], dim=1)
    for rank, out in enumerate(ml.launch(step, ranks=4).values):
        assert float((out - right[rank % 2]).abs().max()) <= CLOSE, rank


def test_groups_beside_each_other() -> None:
    """Would catch a global rank taken for a group's: two pictures at a time, on 2 and on 4 ranks."""

    def step() -> tuple[torch.Tensor, int]:
        groups = [dist.new_group([0, 3]), dist.new_group([1, 2, 4, 5])]
        mine = groups[dist.get_rank() in (1, 2, 4, 5)]
        return cfg_parallel(Conditioned(), *inputs(), SCALE, mine), branch(mine)

    found = ml.launch(step, ranks=6).values
    assert [side for _, side in found] == [0, 0, 0, 1, 1, 1]
    assert all(float((out - by_hand()).abs().max()) <= CLOSE for out, _ in found)


@pytest.mark.parametrize(
    ("wrong", "error"), [("own", 1.0), ("swapped", 1.0), ("cond first", 0.1), ("unseeded", 1.0)]
)
def test_wrong_ways_are_far_off(wrong: str, error: float) -> None:
    """Would catch inputs so tame that a wrong combination looks right: all of these must be seen."""
    x, t, cond, uncond = inputs()
    with torch.no_grad():
        model = Conditioned()
        eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
        made = {
            "own": eps_c,
            "swapped": combined(eps_c, eps_u, SCALE),
            "cond first": eps_c + SCALE * (eps_c - eps_u),
            "unseeded": combined(eps_u, model(x + 1, t, cond), SCALE),
        }[wrong]
        assert float((made - by_hand()).abs().max()) > error
        if wrong == "swapped":
            gap = (2 * SCALE - 1) * (eps_c - eps_u).abs()
            assert torch.allclose((made - by_hand()).abs(), gap.double(), atol=1e-4)


def test_refusals() -> None:
    """Would catch a third rank, or a third branch, left out in silence; a batch made of what does not fit."""

    def call(what: str) -> None:
        x, t, cond, uncond = inputs()
        model = Conditioned()
        calls: dict[str, Any] = {
            "ranks": lambda: cfg_parallel(model, x, t, cond, uncond, SCALE),
            "third": lambda: cfg_parallel(model, x, t, [cond, cond], uncond, SCALE),  # type: ignore[arg-type]
            "scales": lambda: cfg_fused(model, x, t, cond, uncond, [1.0, 2.0]),  # type: ignore[arg-type]
            "none": lambda: cfg_fused(model, x, t, cond, None, SCALE),  # type: ignore[arg-type]
            "lengths": lambda: cfg_fused(model, x, t, cond, uncond[:, :3], SCALE),
            "batch": lambda: cfg_fused(model, x, t, cond[:1], uncond[:1], SCALE),
            "times": lambda: cfg_fused(model, x, t[:1].repeat(3), cond, uncond, SCALE),
            "model": lambda: cfg_fused(lambda x, t, c: x[:1], x, t, cond, uncond, SCALE),
            "spread": lambda: cfg_fused(lambda x, t, c: x[..., :1], x, t, cond, uncond, SCALE),
        }
        calls[what]()

    words = {
        "ranks": "ranks=3 cannot be halved for two branches: choose 2 or 4",
        "third": "cond is a list of 2: give one tensor. There are two branches",
        "scales": r"scale=\[1.0, 2.0\]: give one number",
        "none": "uncond is a NoneType: give one tensor",
        "lengths": r"cond \(2, 16\) torch.float32 and uncond \(2, 3\) .* cannot lie in one batch: pad",
        "batch": r"conditions \(1, 16\) do not fit x \(2, 5, 16\): give one for each of the 2",
        "times": r"t \(3,\) does not fit x \(2, 5, 16\): give one value, or 2",
        "model": r"the model gave \(1, 5, 16\) for x \(4, 5, 16\)",
        "spread": r"the model gave \(4, 5, 1\) for x \(4, 5, 16\)",
    }
    for what, match in words.items():
        with pytest.raises(ml.MindlabError, match=match):
            ml.launch(call, what, ranks=3)
    with pytest.raises(
        ml.MindlabError, match=r"ranks=1 cannot be halved .* choose 2; one rank alone takes cfg_fused"
    ):
        ml.launch(call, "ranks", ranks=1)


def test_bytes_and_the_limit_of_two() -> None:
    """Would catch a volume that grows with p, and a speed-up that does."""
    assert ml.volume.cfg_parallel(4 * 64 * 64, 2, itemsize=4) == 65_536
    assert ml.volume.cfg_parallel(10, 8, itemsize=2, steps=20) == 400
    assert branches.cfg_speedup(2.0, 1.0) == 1.5 and branches.cfg_speedup(1, 1, 1) == 1
    for call, words in (
        (lambda: ml.volume.cfg_parallel(4, 3, itemsize=4), "ranks=3 cannot be halved"),
        (lambda: ml.volume.cfg_parallel(-1, 2, itemsize=4), "elements=-1"),
        (lambda: branches.cfg_speedup(0, 1), "unconditional=0"),
        (lambda: branches.cfg_speedup(1, 1, -1), "exchange=-1"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("module", [cfg, branches], ids=lambda module: module.__name__)
def test_examples(module: Any) -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(module, extraglobs={**vars(module), "ml": ml, "torch": torch})
    assert found.failed == 0 and found.attempted
