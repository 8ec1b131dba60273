"""The memory meter: how many bytes of new tensors live, at most and now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.trace.memory import ExtraMemory

N = 1000


def reused(x: torch.Tensor) -> torch.Tensor:
    buffer = torch.empty_like(x)
    for _ in range(5):
        buffer.copy_(x)
    return x


def one_behind(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        buffer = torch.empty_like(x)  # the old one lives until the new one is there
        buffer.copy_(x)
    return x


def let_go(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        buffer = torch.empty_like(x)
        del buffer
    return x


@pytest.mark.parametrize(
    ("fn", "tensors"),
    [
        (lambda x: x, 0),
        (lambda x: x.add_(1), 0),
        (lambda x: x[10:20], 0),
        (lambda x: x.tensor_split(3)[1].add_(x[:333]), 0),
        (lambda x: x.clone(), 1),
        (lambda x: x + 1, 1),
        (lambda x: (x + 1) * 2, 2),
        (lambda x: torch.cat([x, x]), 2),
        (lambda x: torch.stack([x] * 4).sum(0), 5),
        (lambda x: x.double(), 2),
        (reused, 1),
        (let_go, 1),
        (one_behind, 2),
    ],
)
def test_memory_is_what_lives_at_one_time(fn: Callable[[torch.Tensor], Any], tensors: int) -> None:
    """Would catch a sum of all that was ever made, a view that counts, a tensor that never dies."""
    x = torch.ones(N)
    with ExtraMemory() as extra:
        kept = fn(x)
    assert extra.peak == tensors * N * 4, kept


def test_what_was_there_before_does_not_count() -> None:
    """Would catch a captured tensor that is taken for a new one."""
    before = torch.ones(N)
    with ExtraMemory() as extra:
        before.view(10, -1)[3] += before[:100]
    assert extra.peak == 0


def test_now_is_what_still_lives() -> None:
    """Would catch a `now` that is the peak, that keeps what has died, or that stops with the block."""
    with ExtraMemory() as extra:
        kept = torch.ones(N)
        passing = kept * 2 + 1
        assert extra.now == 2 * N * 4
        del passing
        assert extra.now == N * 4
    assert (extra.now, extra.peak) == (N * 4, 3 * N * 4)
    del kept
    assert (extra.now, extra.peak) == (0, 3 * N * 4)


def test_a_view_keeps_its_whole_storage_and_a_copy_does_not() -> None:
    """Would catch a shard that looks small while the whole weight lives behind it."""
    for cut, kept in ((lambda w: w[:10], N), (lambda w: w[:10].clone(), 10)):
        with ExtraMemory() as extra:
            shard = cut(torch.ones(N))
        assert extra.now == kept * 4, shard.shape


def test_modules_and_their_parameters_count() -> None:
    """Would catch layers that are built without being seen: their parameters come from torch's factories."""
    with ExtraMemory() as extra:
        layer = torch.nn.Linear(10, 20)
    assert extra.now == (10 * 20 + 20) * 4, layer
    with ExtraMemory() as extra:
        layer(torch.ones(3, 10))
    assert extra.now == 0 and extra.peak == (3 * 10 + 3 * 20) * 4


def test_each_rank_has_its_own_meter() -> None:
    """Would catch a meter that needs the notebook's process, or counts what the recorder keeps for itself."""

    def experiment() -> tuple[int, int]:
        x = torch.ones(N)
        with ml.ExtraMemory() as extra:
            arriving = x.new_empty(N * (1 + dist.get_rank()))
            dist.all_reduce(x)
            dist.barrier()
        return extra.peak, extra.now if arriving.numel() else 0

    run = ml.launch(experiment, ranks=3)
    ml.shutdown()
    assert run.values == [(N * 4 * (1 + rank),) * 2 for rank in range(3)]
