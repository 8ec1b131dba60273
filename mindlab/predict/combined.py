r"""What a guided step of a diffusion transformer sends on a mesh of four axes: cfg, tensor, ring, ulysses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    _check(axes, axis, batch=batch, hidden=hidden, layers=layers, outputs=outputs, itemsize=itemsize)
    sizes = {name: axes[name] for name in COMBINED}
    own_heads, _ = heads_per_rank(heads, heads, sizes["tensor"])
    shape = (batch, sequence, own_heads, own_heads, hidden // heads)
    passes = (3 - sizes["cfg"]) * layers
    turns = {
        name: hybrid_attention(
            *shape, ring=sizes["ring"], ulysses=sizes["ulysses"], itemsize=itemsize, axis=name
        ).by_rank(sizes["ring"] * sizes["ulysses"])
        for name in ("ulysses", "ring")
    }
    parts = lengths(sequence, sizes["ring"])
    by_rank = []
    for at in places(axes):
        pieces = lengths(parts[at["ring"]], sizes["ulysses"])
        tokens = batch * pieces[at["ulysses"]]
        where = at["ring"] * sizes["ulysses"] + at["ulysses"]
        sent = {name: passes * int(turn[where]) for name, turn in turns.items()}
        reduced = gloo_all_reduce(tokens * hidden * itemsize, sizes["tensor"], itemsize=itemsize)
        sent["tensor"] = 2 * passes * int(reduced.by_rank(sizes["tensor"])[at["tensor"]])
        sent["cfg"] = (sizes["cfg"] - 1) * tokens * outputs * itemsize
        row = batch * outputs * itemsize
        for name, shards in (("ulysses", pieces), ("ring", parts)):
            sent[name] += _gathered(shards, at[name], row)
        by_rank.append(sum(sent.values()) if axis is None else sent[axis])
    name = "guided_step" + (f" on the {axis} axis" if axis else "")
    return counted(name, by_rank, _FORMULAS[axis], sources.COUNTED_BY_HAND)


def _gathered(shards: Sequence[int], place: int, row: int) -> int:
    """Bytes that one rank passes on in a ring all-gather: all shards but its right neighbour's."""
    return row * (sum(shards) - shards[(place + 1) % len(shards)]) if len(shards) > 1 else 0


def _check(axes: Mapping[str, int], axis: str | None, **given: int) -> None:
    check_whole(1, **given, **axes)
    if sorted(axes) != sorted(COMBINED):
        raise ValueError(f"axes={dict(axes)}: give the size of each of {', '.join(COMBINED)}, 1 for none")
    if axes["cfg"] > 2:
        raise ValueError(f"cfg={axes['cfg']}: a guided step has two passes")
    if axis is not None and axis not in COMBINED:
        raise ValueError(f"axis={axis!r}: choose {', '.join(COMBINED)}, or None for all together")


_FORMULAS = {
    "tensor": r"\frac{8L}{c}\,\frac{t-1}{t}\,\frac{b\,s\,h\,e}{R\,U}",
    "ulysses": r"\frac{U-1}{U}\left(\frac{8L}{c}\,\frac{b\,s\,h\,e}{t\,R\,U} + \frac{b\,s\,o\,e}{R}\right)",
    "ring": r"\frac{R-1}{R}\left(\frac{4L}{c}\,\frac{b\,s\,h\,e}{t\,U} + b\,s\,o\,e\right)",
    "cfg": r"(c-1)\,\frac{b\,s\,o\,e}{R\,U}",
    None: r"\sum_{\mathrm{axes}}",
}
