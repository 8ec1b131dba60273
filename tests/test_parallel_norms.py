"""Norms where a token, or the sequence, lies on several ranks: as one card computes them, on every rank."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import mindlab as ml
from mindlab.parallel import norms
from mindlab.parallel.norms import sharded_layer_norm, sharded_rms_norm

EPS = 1e-5


def tokens(hidden: int, offset: float = 0.0, ramp: float = 0.0, dtype: torch.dtype = torch.float32) -> Any:
    """x (2, 7, hidden), weight and bias (hidden,): the same on every rank; no weight is 1, no bias is 0."""
    draw = torch.Generator().manual_seed(hidden)
    x = torch.randn(2, 7, hidden, generator=draw) + offset + ramp * torch.arange(hidden)
    weight = 1.5 + torch.rand(hidden, generator=draw)
    bias = torch.randn(hidden, generator=draw).sign() * (0.5 + torch.rand(hidden, generator=draw))
    return x.to(dtype), weight.to(dtype), bias.to(dtype)


def on_slices(given: Any) -> dict[str, Tensor]:
    """On a rank: both norms of this rank's slice of the features, and each rank's own norm of its slice."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, weight, bias = (tensor.tensor_split(ranks, dim=-1)[rank] for tensor in given)
    return {
        "layer": sharded_layer_norm(x, weight, bias, EPS),
        "rms": sharded_rms_norm(x, weight, EPS),
        "alone": F.layer_norm(x, x.shape[-1:], weight, bias, EPS),
    }


def joined(run: ml.Run, name: str) -> Tensor:
    """The slices of all ranks side by side: so every rank is compared."""
    return torch.cat([value[name] for value in run.values], dim=-1)


def exact(given: Any) -> dict[str, Tensor]:
    """What one card computes, in float64."""
    x, weight, bias = (tensor.double() for tensor in given)
    size = x.shape[-1:]
    return {"layer": F.layer_norm(x, size, weight, bias, EPS), "rms": F.rms_norm(x, size, weight, EPS)}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_norms_of_hidden_slices(ranks: int) -> None:
    """Would catch statistics of the slice, slices weighted alike though they differ in length, a weight or
    bias left out, an empty slice (3 features, 4 or 8 ranks) that turns everything into NaN.

    1e-5: float32 of values up to 10, in another order of additions than one card's.
    """
    for hidden in (3, 27, 66):
        given = tokens(hidden)
        run = ml.launch(on_slices, given, ranks=ranks)
        for name, right in exact(given).items():
            torch.testing.assert_close(joined(run, name).double(), right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("offset", [1000.0, 10000.0])
def test_an_offset_does_not_cancel(offset: float, ranks: int) -> None:
    """Would catch E[x²] - E[x]², a mean sent as one rounded number, or one taken from x in one step.

    2e-6: some float32 roundings of values up to 7. E[x²] - E[x]² is computed beside it: off by more than
    0.001 at 1000, by more than 1 at 10000, so that this test can fail.
    """
    given = tokens(27, offset=offset)
    right = exact(given)["layer"]
    run = ml.launch(on_slices, given, ranks=ranks)
    torch.testing.assert_close(joined(run, "layer").double(), right, atol=2e-6, rtol=0)
    x, weight, bias = given
    mean, mean_square = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    one_pass = (x - mean) / (mean_square - mean.square()).clamp(min=0).add(EPS).sqrt() * weight + bias
    assert (one_pass - right).abs().max() > offset**3 * 1e-12


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_each_slice_for_itself_is_visibly_wrong(ranks: int) -> None:
    """Would catch a test input on which the wrong norm passes: on a ramp, slices' means differ widely."""
    given = tokens(27, ramp=1.0)
    run = ml.launch(on_slices, given, ranks=ranks)
    right = exact(given)["layer"]
    torch.testing.assert_close(joined(run, "layer").double(), right, atol=1e-5, rtol=1e-5)
    assert (joined(run, "alone") - right).abs().max() > 1


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype: torch.dtype, ranks: int) -> None:
    """Would catch statistics in bfloat16, an output of another dtype, squares that overflow float16.

    One rounding of the result at the end: half a step of the dtype, 2^-8 of the value in bfloat16 (less than
    2e-2 of values up to 10), 2^-11 in float16. Squares of 300 are above float16's 65504.
    """
    given = tokens(27, offset=300.0 if dtype == torch.float16 else 2.0, dtype=dtype)
    run = ml.launch(on_slices, given, ranks=ranks)
    half_step = torch.finfo(dtype).eps / 2
    for name, right in exact(given).items():
        out = joined(run, name)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), right, atol=max(half_step, 1e-13), rtol=1.01 * half_step)


def test_the_ranks_agree_to_the_bit() -> None:
    """Would catch statistics merged in a different order on each rank: replicas would drift apart."""

    def same_slice() -> Tensor:
        draw = torch.Generator().manual_seed(1)
        mine = torch.randn(2, 7, 9, generator=draw)
        other = torch.randn(2, 7, 5 + dist.get_rank(), generator=draw) * (dist.get_rank() + 1)
        both = torch.cat([mine, other], dim=-1)
        return sharded_layer_norm(both, None, None, EPS)[..., :9]

    first, *others = ml.launch(same_slice, ranks=4).values
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("ranks", [3, 4])
def test_one_small_collective(ranks: int) -> None:
    """Would catch a second collective, or features sent instead of statistics.

    14 tokens: 1 + 3·14 float32 go to each other rank; the sums of squares are one all_reduce of 1 + 14.
    """
    given = tokens(66)
    run = ml.launch(lambda: sharded_layer_norm(given[0], None, None, EPS), ranks=ranks)
    assert [event.op for event in run.events] == ["all_gather"] * ranks
    assert run.sent.tolist() == [(ranks - 1) * 4 * (1 + 3 * 14)] * ranks
    run = ml.launch(lambda: sharded_rms_norm(given[0], None, EPS), ranks=ranks)
    assert [event.op for event in run.events] == ["all_reduce"] * ranks
    assert {event.nbytes for event in run.events} == {4 * (1 + 14)}


def test_groups() -> None:
    """Would catch statistics over all ranks where a group was named: the groups hold different tokens."""
    given = {2: tokens(27), 3: tokens(27, offset=3.0)}

    def in_group() -> Tensor:
        groups = [dist.new_group([3, 1]), dist.new_group([0, 2, 4])]
        mine = groups[dist.get_rank() % 2 == 0]
        own = given[mine.size()]
        x, weight, bias = (t.tensor_split(mine.size(), dim=-1)[dist.get_rank(mine)] for t in own)
        return torch.stack(
            [sharded_layer_norm(x, weight, bias, EPS, mine), sharded_rms_norm(x, weight, EPS, mine)]
        )

    values = ml.launch(in_group, ranks=5).values
    for members in ([1, 3], [0, 2, 4]):
        layer, rms = torch.cat([values[member] for member in members], dim=-1).double()
        right = exact(given[len(members)])
        torch.testing.assert_close(layer, right["layer"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(rms, right["rms"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_a_shard_of_the_sequence_needs_nothing(norm: Any, ranks: int) -> None:
    """Would catch the belief that sequence shards must talk for a norm: no byte moves.

    1e-6: a token's numbers are the same, but vector lengths may differ with the number of tokens.
    """
    x, weight, bias = tokens(27)

    def local() -> Tensor:
        layer = norm(27)
        layer.weight.data.copy_(weight)
        if norm is nn.LayerNorm:
            layer.bias.data.copy_(bias)
        full = layer(x).tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()]
        mine = layer(x.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()])
        torch.testing.assert_close(mine, full, atol=1e-6, rtol=0)
        return mine

    run = ml.launch(local, ranks=ranks)
    assert not run.events and torch.cat(run.values, dim=1).shape == x.shape


def test_the_input_stays_and_gradients_do_not_flow() -> None:
    """Would catch an input changed in place, and half a gradient that looks like a whole one."""
    x, weight, bias = tokens(27)

    def call() -> bool:
        leaf = x.clone().requires_grad_()
        out = sharded_layer_norm(leaf, weight, bias, EPS), sharded_rms_norm(leaf, weight, EPS)
        return torch.equal(leaf, x) and not any(one.requires_grad for one in out)

    assert all(ml.launch(call, ranks=2).values)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sharded_layer_norm(torch.ones(2, 3), torch.ones(6), None, EPS), "weight of shape .6,. does"),
        (lambda: sharded_layer_norm(torch.ones(2, 3), None, torch.ones(1), EPS), "bias of shape .1,. does"),
        (lambda: sharded_rms_norm(torch.ones(2, 3), torch.ones(6), EPS), "weight.tensor_split"),
        (lambda: sharded_rms_norm(torch.ones(2, 3, dtype=torch.int64), None, EPS), "int64 cannot be"),
        (lambda: sharded_layer_norm(torch.tensor(1.0), None, None, EPS), "without dimensions"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, sentence: str) -> None:
    """Would catch the full weight on a slice, or a bias that broadcasts in silence. Refused before anything
    is sent, so one process is enough."""
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_rank_outside_the_group_is_refused() -> None:
    """Would catch the library's way: it warns, adds nothing, and a rank outside has wrong numbers."""

    def call() -> list[str]:
        group, found = dist.new_group([2, 0]), []
        x = torch.ones(2, 3)
        for norm in (
            lambda: sharded_layer_norm(x, None, None, EPS, group),
            lambda: sharded_rms_norm(x, None, EPS, group),
        ):
            try:
                found.append(str(norm().shape))
            except ValueError as problem:
                found.append(str(problem))
        return found

    values = ml.launch(call, ranks=3).values
    assert values[0] == values[2] == ["torch.Size([2, 3])"] * 2
    assert values[1] == ["rank 1 is not in the group: let only its members call"] * 2


@pytest.mark.parametrize("function", [sharded_layer_norm, sharded_rms_norm])
def test_examples(function: Any) -> None:
    """Would catch an example that was right once."""
    scope = {**vars(norms), "ml": ml, "F": F}
    test = doctest.DocTestParser().get_doctest(function.__doc__, scope, function.__name__, None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
