"""Hybrid attention: Ulysses on one axis of a mesh, ring attention on the other. Fang & Zhao 2024 (USP).

Ulysses can use no more ranks than there are heads, and only numbers that divide them; the ring sends keys
and values once round all ranks. Together: U ranks swap heads of their part of the sequence, so that each has
1/U of the heads of the whole part; then the R parts' keys and values of these heads travel round rings of R
ranks. What each rank holds stands in `mindlab.parallel.mesh`.

The all-to-alls leave nothing to compute meanwhile, the ring's transfers run while blocks are being used:
with Ulysses inside the fast links, what waits is short, and what travels far is hidden.

More axes beside these two split other things. With guidance on a third one, where `model` calls
`hybrid_attention(q, k, v, mesh)` on a mesh {"cfg": 2, "ring": R, "ulysses": U}:

    out = cfg_parallel(model, own_shard(x, mesh), t, cond, uncond, scale, mesh.get_group("cfg"))
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from mindlab.parallel.attention import check_attention
from mindlab.parallel.linear import Group
from mindlab.parallel.mesh import HYBRID, place_on
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.shards import agreed_sizes
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads
from mindlab.predict.meshes import check_hybrid_heads


@torch.no_grad()
def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mesh: DeviceMesh,
    *,
    causal: bool = False,
    layout: str = "contiguous",
    sizes: Sequence[Sequence[int]] | None = None,
    overlap: bool = True,
) -> Tensor:
    """This rank's shard of the attention over the whole sequence: (B, S_r, H, D), in q's dtype.

    q (B, S_r, H, D), k and v (B, S_r, K, D): this rank's shard, all heads, cut as `own_shard` cuts. `mesh`
    has the axes "ring" and "ulysses", in either order; others are left alone. `layout` says how the ring's
    parts were cut: under a causal mask "zigzag" gives every rank the same work. `sizes` are all shards'
    lengths, a row for each ring place (`hybrid_sizes`); without them each rank exchanges 8 bytes with every
    other one on its two axes. With `overlap` blocks are passed on while they are used.

    Sends (2H + 2K) d b (s/p) (U-1)/U e bytes on the Ulysses axis, 2 b s (K/U) d e (R-1)/R on the ring axis;
    K is max(K, U), for with fewer key-value heads than U each goes to the ranks whose queries need it.
    Raises ValueError where U does not divide the heads, with what would do, or the mesh or sizes do not fit.

    >>> x = torch.ones(1, 5, 4, 8)
    >>> def attend():
    ...     mesh = hybrid_mesh(ring=2, ulysses=2)
    ...     return hybrid_attention(*[own_shard(x, mesh)] * 3, mesh, causal=True)
    >>> [tuple(out.shape) for out in ml.launch(attend, ranks=4).values]
    [(1, 2, 4, 8), (1, 1, 4, 8), (1, 1, 4, 8), (1, 1, 4, 8)]
    """
    _refuse(q, k, v, mesh)
    ring, ulysses = (mesh.get_group(axis) for axis in HYBRID)
    part, parts = _lengths(q, mesh, sizes)
    return attend_on_axes(q, k, v, part, parts, ulysses, ring, causal=causal, layout=layout, overlap=overlap)


def attend_on_axes(
    q: Tensor, k: Tensor, v: Tensor,
    part: list[int], parts: list[int], ulysses: Group, ring: Group,
    *, causal: bool = False, layout: str = "contiguous", overlap: bool = True,
) -> Tensor:  # fmt: skip
    """This rank's shard of the attention: to heads of the part, round the ring, and back.

    `part` are the lengths of the shards of this rank's part, `parts` those of all parts.
    """
    q, k, v = (sequence_to_heads(x, sizes=part, group=ulysses) for x in (q, k, v))
    out = ring_attention(
        q, k, v, causal=causal, layout=layout, overlap=overlap, sizes=parts, group=ring
    )  # fmt: skip
    del q, k, v
    return heads_to_sequence(out, sizes=part, group=ulysses)


def _lengths(
    q: Tensor, mesh: DeviceMesh, sizes: Sequence[Sequence[int]] | None
) -> tuple[list[int], list[int]]:
    """The lengths of the shards of this rank's part, and of all parts; given or exchanged."""
    (i, rings), (_, columns) = (place_on(mesh, axis) for axis in HYBRID)
    ring, ulysses = (mesh.get_group(axis) for axis in HYBRID)
    if sizes is None:
        part = agreed_sizes(q, group=ulysses)
        return part, agreed_sizes(q.new_empty(0, sum(part)), group=ring)
    table = [list(row) for row in sizes]
    if len(table) != rings or any(len(row) != columns or min(row) < 0 for row in table):
        raise ValueError(
            f"sizes={table} does not fit: the mesh is ring={rings} x ulysses={columns}; give a row for each "
            "ring place, in it the length of the shard at each ulysses place (hybrid_sizes makes equal ones)"
        )
    return agreed_sizes(q, table[i], ulysses), [sum(row) for row in table]


def _refuse(q: Tensor, k: Tensor, v: Tensor, mesh: DeviceMesh) -> None:
    """Raise ValueError for shapes or a mesh that do not fit, or heads that the axis cannot share."""
    (_, ring), (_, ulysses) = (place_on(mesh, axis) for axis in HYBRID)
    check_attention(q, k, v)
    if q.shape[1] != k.shape[1]:
        raise ValueError(
            f"q has {q.shape[1]} positions, k and v have {k.shape[1]}: give shards of one sequence, cut alike"
        )
    check_hybrid_heads(q.shape[2], k.shape[2], ring=ring, ulysses=ulysses)
