"""Ranks on a mesh of named axes, on paper: where each rank stands, and which ranks form a group.

`axes` gives each axis's size by its name, the outermost first. The last one is inside: its ranks have
numbers next to each other, as in torch's DeviceMesh. Axes are orthogonal: the ranks are their product.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

from mindlab.predict.heads import check_groups, heads_per_rank
from mindlab.predict.shapes import check_whole

Groups = tuple[tuple[int, ...], ...]


def places(axes: Mapping[str, int]) -> tuple[dict[str, int], ...]:
    """Where each rank stands on each axis, by rank.

    >>> places({"ring": 2, "ulysses": 2})[1], places({"ulysses": 2, "ring": 2})[1]
    ({'ring': 0, 'ulysses': 1}, {'ulysses': 0, 'ring': 1})
    """
    check_whole(1, **axes)
    every = product(*(range(size) for size in axes.values()))
    return tuple(dict(zip(axes, place, strict=True)) for place in every)


def axis_groups(axes: Mapping[str, int]) -> dict[str, Groups]:
    """The groups of each axis: ranks that differ only in their place on it, in its order.

    >>> axis_groups({"ring": 2, "ulysses": 2})
    {'ring': ((0, 2), (1, 3)), 'ulysses': ((0, 1), (2, 3))}
    """
    return {name: _groups(places(axes), name) for name in axes}


def hybrid_axes(ring: int, ulysses: int, inside: str = "ulysses") -> dict[str, int]:
    """The two axes of hybrid attention, the outer one first; `inside` names the inner one.

    >>> hybrid_axes(2, 4), hybrid_axes(2, 4, inside="ring")
    ({'ring': 2, 'ulysses': 4}, {'ulysses': 4, 'ring': 2})
    """
    check_whole(1, ring=ring, ulysses=ulysses)
    sizes = {"ring": ring, "ulysses": ulysses}
    if inside not in sizes:
        raise ValueError(f"inside={inside!r} is no axis: choose ring or ulysses")
    outside = next(name for name in sizes if name != inside)
    return {outside: sizes[outside], inside: sizes[inside]}


def hybrid_splits(ranks: int, heads: int, kv_heads: int | None = None) -> list[dict[str, int]]:
    """Every Ulysses x Ring that fits the ranks and the heads, the largest Ulysses axis first.

    >>> hybrid_splits(6, heads=8)
    [{'ulysses': 2, 'ring': 3}, {'ulysses': 1, 'ring': 6}]
    """
    check_whole(1, ranks=ranks)
    sizes = [size for size in range(ranks, 0, -1) if ranks % size == 0]
    return [
        {"ulysses": size, "ring": ranks // size}
        for size in sizes
        if _fits(heads, heads if kv_heads is None else kv_heads, size)
    ]


def check_hybrid_heads(heads: int, kv_heads: int, *, ring: int, ulysses: int) -> None:
    """Raises ValueError where the Ulysses axis cannot split the heads, with what the same ranks could do.

    >>> check_hybrid_heads(4, 4, ring=2, ulysses=3)
    Traceback (most recent call last):
        ...
    ValueError: ulysses=3 cannot split 4 heads: with 6 ranks choose ulysses=2, ring=3 or ulysses=1, ring=6
    """
    check_groups(heads, kv_heads)
    if _fits(heads, kv_heads, ulysses):
        return
    what = f"{heads} heads" + (f" with {kv_heads} of keys and values" if kv_heads != heads else "")
    fitting = [
        f"ulysses={split['ulysses']}, ring={split['ring']}"
        for split in hybrid_splits(ring * ulysses, heads, kv_heads)
    ]
    ranks = ring * ulysses
    raise ValueError(f"ulysses={ulysses} cannot split {what}: with {ranks} ranks choose {_either(fitting)}")


def check_product(axes: Mapping[str, int], ranks: int) -> None:
    """Raises ValueError where the sizes of the axes do not multiply to the ranks.

    >>> check_product({"ring": 3, "ulysses": 2}, 4)
    Traceback (most recent call last):
        ...
    ValueError: ring=3 x ulysses=2 needs 6 ranks, there are 4: choose 1 x 4, 2 x 2 or 4 x 1, or launch 6
    """
    if not isinstance(axes, Mapping) or not all(isinstance(name, str) for name in axes):
        raise ValueError(f"a mesh of {axes!r}: give sizes by name, such as {{'ring': 2, 'ulysses': 2}}")
    if not axes:
        raise ValueError(f"a mesh without an axis for {ranks} ranks: give sizes by name, such as ring=2")
    check_whole(1, **axes)
    needed = prod(axes.values())
    if needed == ranks:
        return
    given = " x ".join(f"{name}={size}" for name, size in axes.items())
    fitting = [" x ".join(map(str, sizes)) for sizes in _factors(ranks, len(axes))]
    raise ValueError(
        f"{given} needs {needed} ranks, there are {ranks}: choose {_either(fitting)}, or launch {needed}"
    )


def _groups(standing: tuple[dict[str, int], ...], axis: str) -> Groups:
    together: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(standing):
        rest = tuple(at for name, at in place.items() if name != axis)
        together.setdefault(rest, []).append(rank)
    return tuple(map(tuple, together.values()))


def _factors(number: int, count: int) -> list[tuple[int, ...]]:
    """Every way to write a number as a product of `count` numbers."""
    if count == 1:
        return [(number,)]
    firsts = [first for first in range(1, number + 1) if number % first == 0]
    return [(first, *rest) for first in firsts for rest in _factors(number // first, count - 1)]


def _fits(heads: int, kv_heads: int, ranks: int) -> bool:
    try:
        heads_per_rank(heads, kv_heads, ranks)
    except ValueError:
        return False
    return True


def _either(choices: list[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
