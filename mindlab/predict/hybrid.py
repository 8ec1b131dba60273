r"""What hybrid attention sends: Ulysses on one axis of a mesh, ring attention on the other.

Neither part knows the other. On the Ulysses axis the ranks of one ring place swap heads of their part of the
sequence, s/R long. On the ring axis travel the keys and values of a rank's own heads, 1/U of them all.
"""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.heads import kv_heads_per_rank
from mindlab.predict.layouts import lengths
from mindlab.predict.meshes import check_hybrid_heads, hybrid_axes, places
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole
from mindlab.predict.strategies import ring_attention, ulysses_attention


def hybrid_attention(
    batch: int,
    sequence: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    ring: int,
    ulysses: int,
    itemsize: int,
    axis: str | None = None,
    layout: str = "contiguous",
    inside: str = "ulysses",
) -> Quantity:
    r"""Bytes each rank sends in hybrid attention on ring x ulysses ranks; with `axis` those on one axis.

    Ulysses axis: (U-1)/U of (2H + 2K) d b e s/(UR). Ring axis: (R-1)/R of 2 b s d e K/U. K < U becomes U in
    both. `layout` (contiguous, zigzag) and `inside`, the inner axis, matter only where ranks differ. Raises
    ValueError where the Ulysses axis does not divide the heads. Fang & Zhao 2024.

    >>> whole = dict(batch=1, sequence=512, heads=8, kv_heads=8, head_dim=64, ring=2, ulysses=2, itemsize=4)
    >>> hybrid_attention(**whole, axis="ulysses").value, hybrid_attention(**whole, axis="ring").value
    (524288, 524288)
    >>> hybrid_attention(**whole).value
    1048576
    """
    axes = hybrid_axes(ring, ulysses, inside)
    _check(axis, layout, batch=batch, head_dim=head_dim, itemsize=itemsize)
    check_hybrid_heads(heads, kv_heads, ring=ring, ulysses=ulysses)
    shape = heads, kv_heads, head_dim, ulysses
    parts = [
        ulysses_attention(batch, part, *shape, itemsize=itemsize) for part in lengths(sequence, ring, layout)
    ]
    held = kv_heads_per_rank(kv_heads, ulysses)
    passed = ring_attention(batch, sequence, held, head_dim, ring, itemsize=itemsize, layout=layout)
    name = "hybrid_attention" + (f" on the {axis} axis" if axis else "")
    by_rank = _by_rank(axes, axis, parts, passed)
    return counted(name, by_rank, _formula(kv_heads, ulysses, axis), sources.FANG)


def _by_rank(axes: dict[str, int], axis: str | None, parts: list[Quantity], passed: Quantity) -> list[int]:
    """Each rank's bytes, from those within each part of the sequence and those round the rings."""
    swapped = [part.by_rank(axes["ulysses"]) for part in parts]
    found = []
    for at in places(axes):
        each = {
            "ulysses": swapped[at["ring"]][at["ulysses"]],
            "ring": passed.by_rank(axes["ring"])[at["ring"]],
        }
        found.append(int(sum(each.values()) if axis is None else each[axis]))
    return found


def _formula(kv_heads: int, ulysses: int, axis: str | None) -> str:
    copied = "U" if kv_heads < ulysses else "K"
    held = "" if kv_heads < ulysses else r"\,\frac{K}{U}"
    terms = {
        "ulysses": rf"\frac{{U-1}}{{U}}\,(2H+2{copied})\,d\,b\,\frac{{s}}{{U\,R}}\,e",
        "ring": rf"\frac{{R-1}}{{R}}\,2\,b\,s{held}\,d\,e",
    }
    return terms[axis] if axis else " + ".join(terms.values())


def _check(axis: str | None, layout: str, **given: int) -> None:
    check_whole(1, **given)
    if axis not in (None, "ring", "ulysses"):
        raise ValueError(f"axis={axis!r}: choose ring or ulysses, or None for both together")
    if layout not in ("contiguous", "zigzag"):
        raise ValueError(f"layout={layout!r} is unknown: choose one of contiguous, zigzag")
