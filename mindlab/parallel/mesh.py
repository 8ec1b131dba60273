"""Ranks as a torch DeviceMesh with named axes, and which piece of a sequence lies where on it.

An axis is a way to split the work; each rank has a place on every axis, and a group on it: the ranks that
differ from it only there. The last axis is inside: its groups are ranks with neighbouring numbers, which
share a host's fast links.

Hybrid attention has the axes "ring" and "ulysses", in either order. The sequence is cut twice:

    first by ring     R parts, contiguous or zigzag (chunks i and 2R-1-i of 2R, joined)
    then by ulysses   each part, in the order in which it lies in memory, into U pieces (torch.tensor_split)

The rank at ring place i and ulysses place j has piece j of part i. With 8 positions on 2 x 2 ranks, zigzag,
part 0 is 0 1 6 7, part 1 is 2 3 4 5:

    rank                  0         1         2         3
    ulysses inside     (0, 0)    (0, 1)    (1, 0)    (1, 1)     (ring place, ulysses place)
      contiguous         0 1       2 3       4 5       6 7
      zigzag             0 1       6 7       2 3       4 5
    ring inside        (0, 0)    (1, 0)    (0, 1)    (1, 1)
      contiguous         0 1       4 5       2 3       6 7
      zigzag             0 1       2 3       6 7       4 5

The order of the axes changes which rank stands at a place, not what a place holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from mindlab.parallel.shards import chunk_sizes, join_sequence, sequence_sizes, split_sequence
from mindlab.predict.meshes import check_product, hybrid_axes, places
from mindlab.ranks.backends import device

HYBRID = ("ring", "ulysses")


def hybrid_mesh(*, ring: int, ulysses: int, inside: str = "ulysses") -> DeviceMesh:
    """All ranks as a mesh of two axes, "ring" and "ulysses"; `inside` names the inner one.

    Every rank calls it, for it makes the groups. Raises ValueError where ring x ulysses is not the number of
    ranks, with what would be.

    >>> groups = lambda: dist.get_process_group_ranks(hybrid_mesh(ring=2, ulysses=2).get_group("ring"))
    >>> ml.launch(groups, ranks=4).values
    [[0, 2], [1, 3], [0, 2], [1, 3]]
    """
    return device_mesh(hybrid_axes(ring, ulysses, inside))


def device_mesh(axes: Mapping[str, int]) -> DeviceMesh:
    """All ranks as a mesh of these axes, the outermost first: torch's `init_device_mesh`, refusals first.

    The axes are orthogonal, their sizes multiply. Give functions the whole mesh: each looks at its own axes
    only. `mesh.get_group("cfg")` is this rank's group on an axis, for functions that take a group.

    >>> def group():
    ...     mesh = device_mesh({"cfg": 2, "ring": 1, "ulysses": 2})
    ...     return dist.get_process_group_ranks(mesh.get_group("cfg"))
    >>> ml.launch(group, ranks=4).values
    [[0, 2], [1, 3], [0, 2], [1, 3]]
    """
    check_product(axes, torch.distributed.get_world_size())
    return init_device_mesh(device().type, tuple(axes.values()), mesh_dim_names=tuple(axes))


def own_shard(x: torch.Tensor, mesh: DeviceMesh, *, layout: str = "contiguous", dim: int = 1) -> torch.Tensor:
    """This rank's shard of a whole sequence: piece j of part i, from its places on the mesh. May be a view.

    >>> x = torch.arange(8)
    >>> own = lambda: own_shard(x, hybrid_mesh(ring=2, ulysses=2), layout="zigzag", dim=0).tolist()
    >>> ml.launch(own, ranks=4).values
    [[0, 1], [6, 7], [2, 3], [4, 5]]
    """
    (i, ring), (j, ulysses) = (place_on(mesh, name) for name in HYBRID)
    return split_sequence(x, ring, layout=layout, dim=dim)[i].tensor_split(ulysses, dim)[j]


def split_hybrid(
    x: torch.Tensor,
    *,
    ring: int,
    ulysses: int,
    inside: str = "ulysses",
    layout: str = "contiguous",
    dim: int = 1,
) -> list[torch.Tensor]:
    """Every rank's shard of a whole sequence, by rank.

    >>> shards = split_hybrid(torch.arange(8), ring=2, ulysses=2, inside="ring", dim=0)
    >>> [shard.tolist() for shard in shards]
    [[0, 1], [4, 5], [2, 3], [6, 7]]
    """
    axes = hybrid_axes(ring, ulysses, inside)
    parts = split_sequence(x, ring, layout=layout, dim=dim)
    pieces = [part.tensor_split(ulysses, dim) for part in parts]
    return [pieces[at["ring"]][at["ulysses"]] for at in places(axes)]


def join_hybrid(
    shards: Sequence[torch.Tensor],
    *,
    ring: int,
    ulysses: int,
    inside: str = "ulysses",
    layout: str = "contiguous",
    dim: int = 1,
) -> torch.Tensor:
    """The whole sequence from every rank's shard, by rank: what `split_hybrid` cut.

    Pieces of a part may have any lengths. Raises ValueError for another number of shards than ranks, and for
    zigzag parts of lengths that `split_sequence` does not give.

    >>> shards = split_hybrid(torch.arange(9), ring=2, ulysses=2, layout="zigzag", dim=0)
    >>> join_hybrid(shards, ring=2, ulysses=2, layout="zigzag", dim=0).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    axes = hybrid_axes(ring, ulysses, inside)
    if len(shards) != ring * ulysses:
        raise ValueError(f"{len(shards)} shards for ring={ring} x ulysses={ulysses}: give one a rank")
    at = {(place["ring"], place["ulysses"]): shard for place, shard in zip(places(axes), shards, strict=True)}
    parts = [torch.cat([at[i, j] for j in range(ulysses)], dim) for i in range(ring)]
    return join_sequence(parts, layout=layout, dim=dim)


def hybrid_sizes(length: int, *, ring: int, ulysses: int, layout: str = "contiguous") -> list[list[int]]:
    """How long each shard is: a row for each ring place, in it a number for each ulysses place.

    >>> hybrid_sizes(9, ring=2, ulysses=2)
    [[3, 2], [2, 2]]
    """
    return [chunk_sizes(part, ulysses) for part in sequence_sizes(length, ring, layout=layout)]


def place_on(mesh: DeviceMesh, axis: str) -> tuple[int, int]:
    """This rank's place on an axis, and the axis's size.

    Raises ValueError for a mesh without this axis, or without this rank.
    """
    if not isinstance(mesh, DeviceMesh):
        raise ValueError(f"mesh is a {type(mesh).__name__}: make one with hybrid_mesh or device_mesh")
    names = mesh.mesh_dim_names or ()
    if axis not in names:
        listed = ", ".join(names) if names else "no names"
        raise ValueError(
            f"the mesh has no axis {axis!r}, it has {listed}: make it with hybrid_mesh(ring=…, ulysses=…), "
            'or name two of its axes "ring" and "ulysses"'
        )
    if mesh.get_coordinate() is None:
        raise ValueError(f"rank {torch.distributed.get_rank()} is not on the mesh: let only its ranks call")
    return mesh.get_local_rank(axis), mesh.size(names.index(axis))
