"""Hybrid attention: one card's result on every rank of every mesh, each axis's bytes, and clear refusals."""

from __future__ import annotations

import doctest
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from attention_data import apart
from hybrid_runs import Case, per_axis, shard_of, shards_of

import mindlab as ml
from mindlab.errors import MindlabError
from mindlab.parallel import hybrid, mesh
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import device_mesh, hybrid_mesh, join_hybrid, own_shard, split_hybrid
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.predict.flops import ring_pairs
from mindlab.predict.meshes import axis_groups, hybrid_axes, places

SPLITS = [(p // u, u) for p in (1, 2, 3, 4, 6, 8) for u in range(1, p + 1) if p % u == 0]
MESHES = [(*split, inside) for split in SPLITS for inside in ("ulysses", "ring")]


def cases(ulysses: int) -> list[Case]:
    """Causal and not, both layouts, lengths below p and not divided by it, all kinds of grouped heads."""
    kinds = [kv for kv in (1, 2, 3, 24) if kv % ulysses == 0 or ulysses % kv == 0]
    ways = [(False, "contiguous"), (True, "contiguous"), (True, "zigzag"), (False, "zigzag")]
    found = [
        Case(29 + 4 * n, kv, *way, told=n % 2 == 0, overlap=n % 3 > 0)
        for n, kv in enumerate(kinds)
        for way in ways
    ]
    return found + [Case(length, kinds[0], True, layout) for length in (1, 5) for _, layout in ways[1:3]]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8])
def test_one_card_on_every_rank(ranks: int) -> None:
    """Would catch the axes swapped, a mask on the wrong positions, another rank's heads, a part's order."""
    meshes = [made for made in MESHES if made[0] * made[1] == ranks]

    def all_meshes() -> list[list[torch.Tensor]]:
        return [shards_of(cases(made[1]), *made) for made in meshes]

    run = ml.launch(all_meshes, ranks=ranks)
    for m, (ring, ulysses, inside) in enumerate(meshes):
        for n, case in enumerate(cases(ulysses)):
            right = split_hybrid(case.right(), ring=ring, ulysses=ulysses, inside=inside, layout=case.layout)
            for rank, shard in enumerate(right):
                out = run.values[rank][m][n]
                assert out.dtype == case.dtype, (meshes[m], case, rank)
                # Float32 sums merged in another order than on one card: nothing else differs.
                assert apart(out, shard) <= 1e-5, (meshes[m], case, rank)


@pytest.mark.parametrize(("dtype", "close"), [(torch.bfloat16, 2e-2), (torch.float16, 4e-3)], ids=str)
def test_half_precision(dtype: torch.dtype, close: float) -> None:
    """Would catch partial results merged in half precision; `close` is the inputs' own rounding, 2^-8, 2^-11
    of values up to 4, as for the ring and Ulysses alone."""
    listed = [Case(31, kv, causal, layout, dtype=dtype) for kv in (2, 24)
              for causal, layout in ((False, "contiguous"), (True, "zigzag"))]  # fmt: skip
    run = ml.launch(shards_of, listed, 3, 2, "ulysses", ranks=6)
    for n, case in enumerate(listed):
        for rank, shard in enumerate(split_hybrid(case.right(), ring=3, ulysses=2, layout=case.layout)):
            out = run.values[rank][n]
            assert out.dtype == dtype and apart(out, shard) <= close, (case, rank)


@pytest.mark.parametrize("inside", ["ulysses", "ring"])
@pytest.mark.parametrize(("ring", "ulysses"), [(1, 4), (4, 1), (2, 2), (3, 2), (2, 4), (4, 2)])
def test_bytes_of_each_axis(ring: int, ulysses: int, inside: str) -> None:
    """Would catch bytes that go over the other axis, p transfers for p-1, and heads copied twice.

    Uneven lengths, exact to the byte, counted and on the wire; the axes together are all that was sent.
    """
    for case in (Case(29, 24, True, "zigzag"), Case(30, 1)):
        run = ml.launch(shards_of, [case], ring, ulysses, inside, ranks=ring * ulysses)
        shape = case.batch, case.length, case.heads, case.kv_heads, case.dim
        sizes = {"ring": ring, "ulysses": ulysses, "itemsize": 4, "layout": case.layout, "inside": inside}
        total = [0] * (ring * ulysses)
        for axis, size in hybrid_axes(ring, ulysses, inside).items():
            right = list(ml.volume.hybrid_attention(*shape, **sizes, axis=axis).by_rank(run.ranks))
            counted, wire = per_axis(run, axis, ring, ulysses, inside)
            assert counted == right and wire == right, (case, axis)
            assert (sum(right) > 0) == (size > 1)
            total = [a + b for a, b in zip(total, right, strict=True)]
        assert run.sent.tolist() == total
        assert list(ml.volume.hybrid_attention(*shape, **sizes).by_rank(run.ranks)) == total


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
def test_stated_work(layout: str) -> None:
    """Would catch a rank that works on all heads, and a zigzag that balances one axis only."""
    ring, ulysses, case = 2, 2, Case(32, 2, True, layout, heads=8)
    run = ml.launch(shards_of, [case], ring, ulysses, "ring", ranks=4)
    pairs = ring_pairs(case.length, ring, layout=layout)
    for rank, at in enumerate(places(hybrid_axes(ring, ulysses, "ring"))):
        stated = sum(work.flop for work in run.work if work.rank == rank)
        assert stated == 4 * case.batch * case.heads // ulysses * case.dim * sum(pairs[at["ring"]])


def test_the_ends_are_the_parts() -> None:
    """Would catch a mesh with one axis of size 1 that does other than the strategy which is left."""
    case = Case(22, 4, True, "contiguous", heads=8)

    def both() -> list[torch.Tensor]:
        flat, tall = hybrid_mesh(ring=1, ulysses=4), hybrid_mesh(ring=4, ulysses=1)
        shards = [own_shard(x, flat) for x in case.whole()]
        alone = [ulysses_attention(*shards, causal=True), ring_attention(*shards, causal=True)]
        return [shard_of(case, flat), shard_of(case, tall), *alone]

    for flat, tall, by_heads, by_ring in ml.launch(both, ranks=4).values:
        assert torch.equal(flat, by_heads) and torch.equal(tall, by_ring)


@pytest.mark.parametrize("told", [True, False])
def test_lengths_as_they_come(told: bool) -> None:
    """Would catch a place computed from p and S, and lengths exchanged on one axis only. Empty shards too."""
    table, case = [[1, 6], [0, 3], [9, 2]], Case(21, 2, True, heads=4)

    def own() -> torch.Tensor:
        made = hybrid_mesh(ring=3, ulysses=2, inside="ring")
        at = 2 * made.get_local_rank("ring") + made.get_local_rank("ulysses")
        shards = [x.split([length for row in table for length in row], 1)[at] for x in case.whole()]
        return hybrid_attention(*shards, made, causal=True, sizes=table if told else None)

    run = ml.launch(own, ranks=6)
    assert apart(join_hybrid(run.values, ring=3, ulysses=2, inside="ring"), case.right()) <= 1e-5
    asked = [0] * 6
    for event in run.events:
        asked[event.rank] += sum(nbytes for _, nbytes in event.sends) if event.dtype == "int64" else 0
    # one number to each of the others on either axis, and nothing where they are told
    assert asked == [0 if told else 8 * (1 + 2)] * 6


def test_the_layout_that_is_written_down() -> None:
    """Would catch a table in the documentation that is not what the code does, on ranks and on paper."""
    text = (mesh.__doc__ or "").splitlines()
    rows = {name: [line for line in text if line.strip().startswith(name)] for name in ("contig", "zig")}

    def own(inside: str, layout: str) -> list[int]:
        return own_shard(torch.arange(8), hybrid_mesh(ring=2, ulysses=2, inside=inside), layout=layout,
                         dim=0).tolist()  # fmt: skip

    for n, inside in enumerate(("ulysses", "ring")):
        for name, layout in (("contig", "contiguous"), ("zig", "zigzag")):
            written = [int(word) for word in rows[name][n].split()[1:]]
            paper = split_hybrid(torch.arange(8), ring=2, ulysses=2, inside=inside, layout=layout, dim=0)
            assert torch.cat(paper).tolist() == written
            assert ml.launch(own, inside, layout, ranks=4).values == [part.tolist() for part in paper]


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize(("ring", "ulysses", "inside"), MESHES)
def test_split_and_join(ring: int, ulysses: int, inside: str, layout: str) -> None:
    """Would catch a position lost, kept twice, or joined at another place, for lengths from 0 on."""
    how: dict[str, Any] = {"ring": ring, "ulysses": ulysses, "inside": inside, "layout": layout}
    for length in (0, 1, 7, 24, 29):
        x = torch.arange(2 * length).reshape(2, length)
        shards = split_hybrid(x, **how)
        table = mesh.hybrid_sizes(length, ring=ring, ulysses=ulysses, layout=layout)
        at = places(hybrid_axes(ring, ulysses, inside))
        assert [s.shape[1] for s in shards] == [table[a["ring"]][a["ulysses"]] for a in at]
        assert torch.equal(join_hybrid(shards, **how), x)
    with pytest.raises(ValueError, match=f"{len(shards) - 1} shards for ring={ring} x ulysses={ulysses}"):
        join_hybrid(shards[1:], **how)


@pytest.mark.parametrize("axes", [{"ring": 2, "ulysses": 3}, {"cfg": 2, "ulysses": 2, "ring": 2}], ids=str)
def test_groups_on_paper_are_torch_s(axes: dict[str, int]) -> None:
    """Would catch a paper mesh whose axes are numbered in another order than the real one's."""

    def groups() -> dict[str, list[int]]:
        made = device_mesh(axes)
        return {name: dist.get_process_group_ranks(made.get_group(name)) for name in axes}

    run = ml.launch(groups, ranks=8 if "cfg" in axes else 6)
    for rank, found in enumerate(run.values):
        for name, group in found.items():
            assert tuple(group) == next(g for g in axis_groups(axes)[name] if rank in g)


def refused(words: str, ranks: int, fn: Any) -> None:
    """Launch it and see that a rank's ValueError has these words."""
    with pytest.raises(MindlabError, match=words):
        ml.launch(fn, ranks=ranks)


def on(made: Any, **how: Any) -> None:
    """Hybrid attention of a few positions a rank, for what it refuses."""
    heads, kv_heads = how.pop("heads", 4), how.pop("kv_heads", 4)
    length = how.pop("length", 6)
    keys = torch.ones(1, length, kv_heads, 4)
    hybrid_attention(torch.ones(1, length, heads, 4), keys, keys, made, **how)


def test_refusals() -> None:
    """Would catch a mistake that hangs, or a sentence without what to do instead."""
    refused("ring=2 x ulysses=3 needs 6 ranks, there are 4: choose 1 x 4, 2 x 2 or 4 x 1, or launch 6", 4,
            lambda: hybrid_mesh(ring=2, ulysses=3))  # fmt: skip
    refused("inside='rings' is no axis: choose ring or ulysses", 2,
            lambda: hybrid_mesh(ring=2, ulysses=1, inside="rings"))  # fmt: skip
    refused("ulysses=0: give a whole number from 1 on", 2, lambda: hybrid_mesh(ring=2, ulysses=0))
    refused("no axis 'ring', it has dp, tp: make it with hybrid_mesh", 2,
            lambda: on(device_mesh({"dp": 1, "tp": 2})))  # fmt: skip
    refused("ulysses=3 cannot split 4 heads: with 3 ranks choose ulysses=1, ring=3", 3,
            lambda: on(hybrid_mesh(ring=1, ulysses=3)))  # fmt: skip
    refused("ulysses=4 cannot split 12 heads with 3 of .*: with 4 ranks choose ulysses=1, ring=4", 4,
            lambda: on(hybrid_mesh(ring=1, ulysses=4), heads=12, kv_heads=3))  # fmt: skip
    refused(r"sizes=\[\[6, 6\]\] does not fit: the mesh is ring=2 x ulysses=1", 2,
            lambda: on(hybrid_mesh(ring=2, ulysses=1), sizes=[[6, 6]]))  # fmt: skip
    refused(r"rank 1 has a shard of 6", 2, lambda: on(hybrid_mesh(ring=2, ulysses=1), sizes=[[6], [5]]))
    refused(r"shards of lengths \[6, 9\] are not a zigzag layout of 15: that has \[7, 8\]", 2,
            lambda: on(hybrid_mesh(ring=2, ulysses=1), layout="zigzag",
                       length=6 + 3 * dist.get_rank()))  # fmt: skip
    refused("q has 6 positions, k and v have 5", 2,
            lambda: hybrid_attention(torch.ones(1, 6, 2, 4), *[torch.ones(1, 5, 2, 4)] * 2,
                                     hybrid_mesh(ring=2, ulysses=1)))  # fmt: skip
    refused("layout='zigzack' is unknown", 2,
            lambda: on(hybrid_mesh(ring=2, ulysses=1), layout="zigzack"))  # fmt: skip


@pytest.mark.parametrize("module", [mesh, hybrid], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    """Would catch an example in the documentation that is wrong."""
    scope = {"ml": ml, "dist": dist, **vars(mesh)}
    found = doctest.testmod(module, extraglobs=scope)
    assert found.attempted and not found.failed
