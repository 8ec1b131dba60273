"""The collectives by hand: right on every rank, and on the wire exactly what the formulas say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from collective_runs import DTYPES, call, data, rounds_of, wanted

import mindlab as ml
from mindlab.predict import gloo, rounds, volume

SEVEN = [
    "ring_reduce_scatter",
    "ring_all_gather",
    "ring_all_reduce",
    "halving_doubling_all_reduce",
    "tree_broadcast",
    "direct_all_to_all",
    "bruck_all_to_all",
]


def every_size(name: str, sizes: list[int]) -> list[Any]:
    """On a rank: the collective for each size and dtype."""
    return [call(name, elements, dtype) for elements in sizes for dtype in DTYPES]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_right_on_every_rank(ranks: int) -> None:
    """Would catch a rest that is dropped, an empty chunk that hangs, an input that changes, a wrong dtype."""
    sizes = [0, 1, ranks - 1, ranks + 1, 37, 1009]
    for name in SEVEN:
        run = ml.launch(every_size, name, sizes, ranks=ranks)
        cases = [(elements, dtype) for elements in sizes for dtype in DTYPES]
        for index, (elements, dtype) in enumerate(cases):
            for rank, right in enumerate(wanted(name, ranks, elements, dtype)):
                out, untouched, fresh = run.values[rank][index]
                where = f"{name}, p={ranks}, rank {rank}, {elements} of {dtype}"
                assert torch.equal(out, right) and out.dtype == right.dtype, where
                assert untouched and (fresh or not elements), where


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("name", SEVEN)
def test_the_bytes_and_rounds_of_the_formula(name: str, ranks: int) -> None:
    """Would catch one byte or one round more or less than promised, on any rank, counted or on the wire."""
    for elements in (ranks - 1, 1009):
        run = ml.launch(call, name, elements, "float32", ranks=ranks)
        exact = getattr(volume, name)(elements * 4, ranks, itemsize=4).by_rank(ranks)
        assert run.sent.tolist() == list(exact), elements
        assert rounds_of(run) == getattr(rounds, name)(elements * 4, ranks).value, elements
        if run.wire is not None:
            assert run.wire.payload is not None, run.wire.note
            assert run.wire.payload.sum(axis=1).tolist() == list(exact), elements


def test_sixteen_ranks() -> None:
    """Would catch an algorithm that stops at eight ranks."""

    def some() -> list[Any]:
        return [call(name, 19, "int64")[0] for name in SEVEN]

    run = ml.launch(some, ranks=16)
    for index, name in enumerate(SEVEN):
        for rank, right in enumerate(wanted(name, 16, 19, "int64")):
            assert torch.equal(run.values[rank][index], right), (name, rank)
    assert run.sent.tolist() == [
        sum(getattr(volume, name)(19 * 8, 16, itemsize=8).by_rank(16)[rank] for name in SEVEN)
        for rank in range(16)
    ]


def test_groups() -> None:
    """Would catch a group's rank taken for a global one: here they differ, and run against each other."""

    def in_groups() -> list[torch.Tensor]:
        groups = [dist.new_group([4, 1, 2]), dist.new_group([3, 0])]
        mine = groups[dist.get_rank() in (0, 3)]
        return [call(name, 11, "float32", mine)[0] for name in SEVEN]

    run = ml.launch(in_groups, ranks=5)
    for members in ([1, 2, 4], [0, 3]):
        for index, name in enumerate(SEVEN):
            for place, right in enumerate(wanted(name, len(members), 11, "float32")):
                assert torch.equal(run.values[members[place]][index], right), (name, members)


def test_strangers_are_refused() -> None:
    """Would catch a rank outside the group that hangs instead of being told."""

    def outside() -> torch.Tensor | None:
        group = dist.new_group([0, 1])
        return ml.collectives.ring_all_reduce(torch.ones(2), group) if dist.get_rank() == 2 else None

    with pytest.raises(ml.MindlabError, match="not in the group"):
        ml.launch(outside, ranks=3)


def test_any_root() -> None:
    """Would catch a tree that is rooted at rank 0 whatever was asked."""

    def from_each() -> list[torch.Tensor]:
        x = torch.arange(5) + 10 * dist.get_rank()
        return [ml.collectives.tree_broadcast(x, root=root) for root in range(5)]

    for got in ml.launch(from_each, ranks=5).values:
        assert [int(x[0]) for x in got] == [0, 10, 20, 30, 40]
    with pytest.raises(ml.MindlabError, match="choose 0 to 2"):
        ml.launch(lambda: ml.collectives.tree_broadcast(torch.ones(1), root=3), ranks=3)


def test_shapes() -> None:
    """Would catch a shape that is flattened, a strided tensor sent as it lies, a gradient that comes."""

    def shaped() -> dict[str, Any]:
        rank, c = dist.get_rank(), ml.collectives
        x = (torch.arange(20.0).reshape(4, 5) * (rank + 1)).t()  # 5 x 4, strided
        leaf = torch.ones(3, requires_grad=True)
        return {
            "all_reduce": c.ring_all_reduce(x),
            "doubling": c.halving_doubling_all_reduce(x),
            "scatter": c.ring_reduce_scatter(x),
            "gather": c.ring_all_gather(x[:, :2]),
            "to_all": (c.direct_all_to_all(x), c.bruck_all_to_all(x)),
            "broadcast": c.tree_broadcast(x),
            "scalar": c.ring_all_reduce(torch.tensor(2.0)),
            "leaf": c.ring_all_reduce(leaf),
        }

    x = torch.arange(20.0).reshape(4, 5).t()
    for rank, got in enumerate(ml.launch(shaped, ranks=3).values):
        rows = [p.tensor_split(3)[rank] for p in (x, 2 * x, 3 * x)]
        assert torch.equal(got["all_reduce"], 6 * x) and torch.equal(got["doubling"], 6 * x)
        assert torch.equal(got["scatter"], (6 * x).tensor_split(3)[rank])
        assert torch.equal(got["gather"], torch.cat([x[:, :2], 2 * x[:, :2], 3 * x[:, :2]]))
        assert all(torch.equal(one, torch.cat(rows)) for one in got["to_all"])
        assert torch.equal(got["broadcast"], x) and got["scalar"] == 6 and not got["leaf"].requires_grad


def test_chunks_of_given_sizes() -> None:
    """Would catch a reduce-scatter that cuts as tensor_split all the same, or hangs at an empty chunk."""
    sizes = [1, 0, 4]

    def scattered() -> torch.Tensor:
        x = torch.arange(10.0).reshape(5, 2) * (dist.get_rank() + 1)
        return ml.collectives.ring_reduce_scatter(x, sizes=sizes)

    run = ml.launch(scattered, ranks=3)
    whole = 6 * torch.arange(10.0).reshape(5, 2)
    for got, right in zip(run.values, whole.split(sizes), strict=True):
        assert torch.equal(got, right)
    assert run.sent.tolist() == [8 * (5 - size) for size in sizes]
    for wrong in ([1, 4], [1, 1, 1], [6, 0, -1]):
        with pytest.raises(ml.MindlabError, match="does not fit"):
            ml.launch(
                lambda wrong: ml.collectives.ring_reduce_scatter(torch.ones(5), sizes=wrong), wrong, ranks=3
            )


def test_uneven_shards_need_their_sizes() -> None:
    """Would catch sizes that do not fit and leave a tail unwritten."""
    with pytest.raises(ml.MindlabError, match="rank 1 has 2 rows"):
        ml.launch(lambda: ml.collectives.ring_all_gather(torch.ones(2), sizes=[2, 1, 2]), ranks=3)
    with pytest.raises(ml.MindlabError, match="cannot be cut"):
        ml.launch(lambda: ml.collectives.direct_all_to_all(torch.tensor(1.0)), ranks=3)


def test_ranks_agree_to_the_bit() -> None:
    """Would catch partners that add in different orders: sums of bfloat16 then differ between ranks."""

    def rounded() -> list[torch.Tensor]:
        x = torch.randn(257, generator=torch.Generator().manual_seed(dist.get_rank())).bfloat16()
        return [ml.collectives.ring_all_reduce(x), ml.collectives.halving_doubling_all_reduce(x)]

    run = ml.launch(rounded, ranks=5)
    one_card = torch.stack([torch.randn(257, generator=torch.Generator().manual_seed(r)) for r in range(5)])
    for index in range(2):
        assert all(torch.equal(values[index], run.values[0][index]) for values in run.values)
        ml.check_close(
            [values[index] for values in run.values], one_card.bfloat16().float().sum(0).bfloat16()
        )


def test_the_library_sends_what_we_say_it_sends() -> None:
    """Would catch a gloo that no longer does what `volume.gloo_…` claims: the wire is asked."""
    elements, ranks = 48, 4

    def one(which: str) -> None:
        x = torch.ones(elements)
        shard, shards = torch.ones(elements // ranks), list(torch.ones(ranks, elements // ranks))
        root = dist.get_rank() == 0
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        {
            "gloo_all_reduce": lambda: dist.all_reduce(x[:43]),
            "gloo_reduce": lambda: dist.reduce(x[:43], 0),
            "gloo_reduce_scatter": lambda: scatter(shard, x),
            "gloo_all_gather": lambda: dist.all_gather(shards, shard),
            "gloo_all_to_all": lambda: dist.all_to_all_single(torch.empty(elements), x),
            "gloo_broadcast": lambda: dist.broadcast(x, 0),
            "gloo_gather": lambda: dist.gather(shard, shards if root else None, 0),
            "gloo_scatter": lambda: dist.scatter(shard, shards if root else None, 0),
        }[which]()

    for which in (name for name in dir(gloo) if name.startswith("gloo_")):
        run = ml.launch(one, which, ranks=ranks, backend="gloo")
        if run.wire is None or run.wire.payload is None:
            pytest.skip(run.why_no_wire or "the payload cannot be told")
        nbytes = 4 * (43 if which in ("gloo_all_reduce", "gloo_reduce") else elements)
        exact = getattr(gloo, which)(nbytes, ranks, itemsize=4).by_rank(ranks)
        assert run.wire.payload.sum(axis=1).tolist() == list(exact), which


def test_data_differs_by_rank() -> None:
    """Would catch inputs that are equal on all ranks, with which many a wrong algorithm is right."""
    assert not torch.equal(data(0, 37, "int64"), data(1, 37, "int64"))
