"""Exercise 12.2: which axes stand inside a host, so that the least crosses the network."""

from __future__ import annotations

import itertools
from math import prod

import torch.distributed as dist

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Sizes = dict[str, int]


def my_network(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """The least bytes that a rank sends to other hosts, over all orders of the axes."""
    best = sum(nbytes.values())
    for order in itertools.permutations(sizes):
        stride, crossing = 1, 0
        for axis in order:  # the innermost first
            stride *= sizes[axis]
            if stride > host and sizes[axis] > 1:
                crossing += nbytes[axis]
        best = min(best, crossing)
    return best


def by_sets(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Right: any set of axes whose product fits a host can stand inside."""
    axes = [axis for axis in sizes if sizes[axis] > 1]
    total = sum(nbytes[axis] for axis in axes)
    inside = [
        sum(nbytes[axis] for axis in chosen)
        for count in range(len(axes) + 1)
        for chosen in itertools.combinations(axes, count)
        if prod(sizes[axis] for axis in chosen) <= host
    ]
    return total - max(inside)


def one_by_one(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Right: each axis goes inside or outside."""

    def least(axes: list[str], room: int) -> int:
        if not axes:
            return 0
        first, rest = axes[0], axes[1:]
        outside = nbytes[first] * (sizes[first] > 1) + least(rest, room)
        return min(outside, least(rest, room // sizes[first])) if sizes[first] <= room else outside

    return least(list(sizes), host)


def _crossing(order: list[str], sizes: Sizes, nbytes: Sizes, host: int) -> int:
    stride, crossing = 1, 0
    for axis in order:
        stride *= sizes[axis]
        crossing += nbytes[axis] * (stride > host and sizes[axis] > 1)
    return crossing


def as_given(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: the axes in the order in which they were named, the last inside."""
    return _crossing(list(sizes)[::-1], sizes, nbytes, host)


def smallest_inside(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: the smallest groups inside."""
    return _crossing(sorted(sizes, key=lambda axis: sizes[axis]), sizes, nbytes, host)


def heaviest_first(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: the heaviest axis inside, then the next."""
    return _crossing(sorted(sizes, key=lambda axis: -nbytes[axis]), sizes, nbytes, host)


def lightest_first(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: the other way round."""
    return _crossing(sorted(sizes, key=lambda axis: nbytes[axis]), sizes, nbytes, host)


def each_by_itself(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: every axis that fits a host alone is inside it."""
    return sum(nbytes[axis] for axis in sizes if sizes[axis] > host)


def in_the_worst_order(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: the worst order."""
    orders = itertools.permutations(sizes)
    return max(_crossing(list(order), sizes, nbytes, host) for order in orders)


def asks_the_others(sizes: Sizes, nbytes: Sizes, host: int) -> int:
    """Wrong: right, but nobody else is needed."""
    dist.barrier()
    return my_network(sizes, nbytes, host)


WORK: dict[str, tuple[Sizes, Sizes, int]] = {
    "guided": ({"cfg": 2, "ring": 2, "ulysses": 4}, {"cfg": 1, "ring": 300, "ulysses": 200}, 8),
    "knapsack": ({"tensor": 8, "ulysses": 4, "ring": 2}, {"tensor": 150, "ulysses": 100, "ring": 90}, 8),
    "wide": ({"tensor": 4, "pipeline": 2, "data": 2}, {"tensor": 500, "pipeline": 20, "data": 0}, 4),
    "inside": ({"ulysses": 8, "cfg": 1, "ring": 1}, {"ulysses": 70, "cfg": 0, "ring": 0}, 8),
    "small": ({"ring": 2, "cfg": 2, "tensor": 2}, {"ring": 50, "cfg": 1, "tensor": 40}, 2),
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Sizes, Sizes, int]:
    sizes, nbytes, host = next(case for name, case in WORK.items() if trial.sizes.get(name))
    return dict(sizes), {axis: count * (seed % 3 + 1) for axis, count in nbytes.items()}, host


def _one_card(given: list[tuple[Sizes, Sizes, int]]) -> list[int]:
    return [by_sets(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """The axes, the host, and both numbers."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, int) or seen == wanted:
        return ""
    sizes, nbytes, host = attempt.given[0]
    axes = ", ".join(f"{axis} {size} ({nbytes[axis]} B)" for axis, size in sizes.items())
    best = "some order sends less" if seen > wanted else "no order sends so little"
    return f"Hosts of {host} cards, {axes}: the answer is {seen} B, and {best} over the network: {wanted} B."


EXERCISE = Exercise(
    name="12.2",
    title="Who stands next to whom",
    statement="""
Write `my_network(sizes, nbytes, host)`. `sizes` gives the degree of each axis of a mesh, `nbytes` what a rank
sends on it, `host` how many cards a host has. The axes can stand in any order: the ranks of the innermost one
have neighbouring numbers, and a host holds `host` neighbours.

Return the least bytes that a rank sends over the network, over all orders. A group that does not lie in one
host counts with all its bytes; an axis of size 1 sends nothing. All numbers are powers of two or bytes.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=tuple(Trial(2, sizes={name: 1}) for name in WORK),
    hints=(
        "The axes inside a host are those whose degrees multiply to what a host holds, or less. Which of "
        "them "
        "save most?",
        "Draw the ranks in a row and cut it into hosts. The innermost axis joins neighbours; the next "
        "one joins "
        "ranks as far apart as the first axis is long.",
        """
    best = sum(nbytes.values())
    for order in itertools.permutations(sizes):    # the innermost first
        stride, crossing = 1, 0
        for axis in order:
            stride *= ...
            if ...:                                # does this group leave its host?
                crossing += ...
        best = min(best, crossing)
    return best
""",
    ),
    solution=my_network,
    explanation="""
It is a knapsack: a host has room for a product of degrees, and each axis saves its bytes. The heaviest axis
first is a good rule and not always the best one: tensor 8 with 150 bytes fills a host of 8, while Ulysses 4
and ring 2 fill it as well and save 190. Usually one axis is much heavier than the others (tensor parallel),
and one much lighter (CFG, data, pipeline), and the rule of thumb holds.
""",
    right=(by_sets, one_by_one),
    wrong=(
        Wrong(as_given, r"some order sends less over the network"),
        Wrong(smallest_inside, r"some order sends less over the network"),
        Wrong(
            heaviest_first,
            r"tensor 8 \(\d+ B\), ulysses 4 .*: the answer is \d+ B, and some order sends less",
        ),
        Wrong(lightest_first, r"some order sends less over the network"),
        Wrong(each_by_itself, r"no order sends so little over the network"),
        Wrong(in_the_worst_order, r"some order sends less over the network"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
