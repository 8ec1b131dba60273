r"""What a guided step of a diffusion transformer sends on a mesh of four axes: cfg, tensor, ring, ulysses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mindlab.predict import sources
from mindlab.predict.gloo import gloo_all_reduce
from mindlab.predict.heads import heads_per_rank
from mindlab.predict.hybrid import hybrid_attention
from mindlab.predict.layouts import lengths
from mindlab.predict.meshes import places
from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole

COMBINED = ("cfg", "tensor", "ring", "ulysses")
"""The axes; a mesh has all four, of size 1 where nothing is split."""


def guided_step(
    axes: Mapping[str, int],
    *,
    batch: int,
    sequence: int,
    hidden: int,
    heads: int,
    layers: int,
    outputs: int,
    itemsize: int,
    axis: str | None = None,
) -> Quantity:
    r"""Bytes each rank sends in one guided step on a mesh; with `axis` those within its groups.

    `axes` gives the size of each of cfg, tensor, ring and ulysses, the outermost first. A step makes two
    passes of `layers` blocks, one where cfg is 2. Per pass: tensor two all-reduces of b s/(RU) h e a block
    (gloo's), ulysses and ring as in `hybrid_attention` with H/t heads. Once a step: cfg swaps b s/(RU) o e
    with one partner (o = `outputs` numbers a token), and the parts are gathered along ulysses, then ring.

    >>> shape = dict(batch=1, sequence=16, hidden=64, heads=4, layers=4, outputs=4, itemsize=4)
    >>> guided_step({"cfg": 2, "tensor": 1, "ring": 1, "ulysses": 1}, **shape).value
    256
    >>> guided_step({"cfg": 2, "tensor": 1, "ring": 1, "ulysses": 4}, **shape, axis="ulysses").value
    12480
    """
    _check(
        axes, axis, heads=heads, batch=batch, hidden=hidden, layers=layers, outputs=outputs, itemsize=itemsize
    )
    model = _Model(batch, sequence, hidden, heads, layers, outputs, itemsize)
    turns = {name: _turns(model, axes, name) for name in ("ulysses", "ring")}
    by_rank = []
    for at in places(axes):
        sent = _at_place(model, axes, at, turns)
        by_rank.append(sum(sent.values()) if axis is None else sent[axis])
    name = "guided_step" + (f" on the {axis} axis" if axis else "")
    return counted(name, by_rank, _FORMULAS[axis], sources.COUNTED_BY_HAND)


class _Model(NamedTuple):
    batch: int
    sequence: int
    hidden: int
    heads: int
    layers: int
    outputs: int
    itemsize: int


def _turns(model: _Model, axes: Mapping[str, int], axis: str) -> Sequence[float]:
    """Bytes of one layer's attention on an axis, by place: ring x ulysses, ulysses inside."""
    own, _ = heads_per_rank(model.heads, model.heads, axes["tensor"])
    ring, ulysses = axes["ring"], axes["ulysses"]
    shape = (model.batch, model.sequence, own, own, model.hidden // model.heads)
    whole = hybrid_attention(*shape, ring=ring, ulysses=ulysses, itemsize=model.itemsize, axis=axis)
    return whole.by_rank(ring * ulysses)


def _at_place(
    model: _Model, axes: Mapping[str, int], at: Mapping[str, int], turns: Mapping[str, Sequence[float]]
) -> dict[str, int]:
    """By axis, what the rank at a place of the mesh sends in a step."""
    parts = lengths(model.sequence, axes["ring"])
    pieces = lengths(parts[at["ring"]], axes["ulysses"])
    tokens, passes = model.batch * pieces[at["ulysses"]], (3 - axes["cfg"]) * model.layers
    where = at["ring"] * axes["ulysses"] + at["ulysses"]
    size = tokens * model.hidden * model.itemsize
    reduced = gloo_all_reduce(size, axes["tensor"], itemsize=model.itemsize).by_rank(axes["tensor"])
    row = model.batch * model.outputs * model.itemsize
    return {
        "cfg": (axes["cfg"] - 1) * tokens * model.outputs * model.itemsize,
        "tensor": 2 * passes * int(reduced[at["tensor"]]),
        "ring": passes * int(turns["ring"][where]) + _gathered(parts, at["ring"], row),
        "ulysses": passes * int(turns["ulysses"][where]) + _gathered(pieces, at["ulysses"], row),
    }


def _gathered(shards: Sequence[int], place: int, row: int) -> int:
    """Bytes that one rank passes on in a ring all-gather: all shards but its right neighbour's."""
    return row * (sum(shards) - shards[(place + 1) % len(shards)]) if len(shards) > 1 else 0


def check_axes(axes: Mapping[str, int], heads: int) -> None:
    """Raises ValueError for sizes of the four axes that no guided step of a model with these heads can use.

    >>> check_axes({"cfg": 1, "tensor": 2, "ring": 1, "ulysses": 4}, 4)
    Traceback (most recent call last):
        ...
    ValueError: tensor=2 x ulysses=4 cannot split 4 heads: choose two whose product divides 4
    """
    if axes["cfg"] > 2:
        raise ValueError(f"cfg={axes['cfg']}: a guided step has two passes, choose 1 or 2")
    if heads % (axes["tensor"] * axes["ulysses"]):
        both = f"tensor={axes['tensor']} x ulysses={axes['ulysses']}"
        raise ValueError(f"{both} cannot split {heads} heads: choose two whose product divides {heads}")


def _check(axes: Mapping[str, int], axis: str | None, *, heads: int, **given: int) -> None:
    check_whole(1, heads=heads, **given, **axes)
    if sorted(axes) != sorted(COMBINED):
        raise ValueError(f"axes={dict(axes)}: give the size of each of {', '.join(COMBINED)}, 1 for none")
    check_axes(axes, heads)
    if axis is not None and axis not in COMBINED:
        raise ValueError(f"axis={axis!r}: choose {', '.join(COMBINED)}, or None for all together")


_FORMULAS = {
    "tensor": r"\frac{8L}{c}\,\frac{t-1}{t}\,\frac{b\,s\,h\,e}{R\,U}",
    "ulysses": r"\frac{U-1}{U}\left(\frac{8L}{c}\,\frac{b\,s\,h\,e}{t\,R\,U} + \frac{b\,s\,o\,e}{R}\right)",
    "ring": r"\frac{R-1}{R}\left(\frac{4L}{c}\,\frac{b\,s\,h\,e}{t\,U} + b\,s\,o\,e\right)",
    "cfg": r"(c-1)\,\frac{b\,s\,o\,e}{R\,U}",
    None: r"\sum_{\mathrm{axes}}",
}
