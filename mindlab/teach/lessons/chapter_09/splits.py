"""Exercise 09.3: the split that sends least."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gcd

import torch.distributed as dist

from mindlab.predict import volume
from mindlab.predict.meshes import hybrid_splits
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Split = tuple[int, int]


def my_split(ranks: int, heads: int, kv_heads: int) -> Split:
    """(ulysses, ring): what fits and sends least; of equals the larger ulysses."""
    best, least = (1, ranks), None
    for ulysses in range(ranks, 0, -1):
        shares = kv_heads % ulysses == 0 or ulysses % kv_heads == 0
        if ranks % ulysses or heads % ulysses or not shares:
            continue
        ring, keys = ranks // ulysses, max(kv_heads, ulysses)
        swapped = ring * (ulysses - 1) * (2 * heads + 2 * keys)
        passed = (ring - 1) * 2 * keys * ranks
        if least is None or swapped + passed < least:
            best, least = (ulysses, ring), swapped + passed
    return best


def by_the_package(ranks: int, heads: int, kv_heads: int) -> Split:
    """Right: the package's splits and bytes."""
    found = [(one["ulysses"], one["ring"]) for one in hybrid_splits(ranks, heads, kv_heads)]
    return min(found, key=lambda one: bytes_of(one, heads, kv_heads))


def in_shares(ranks: int, heads: int, kv_heads: int) -> Split:
    """Right: as shares of the whole, sorted."""
    rows = []
    for ulysses in (n for n in range(1, ranks + 1) if ranks % n == 0 and heads % n == 0):
        if max(kv_heads, ulysses) % min(kv_heads, ulysses):
            continue
        ring, keys = ranks // ulysses, max(kv_heads, ulysses)
        there = (ulysses - 1) / ulysses * (2 * heads + 2 * keys) / ranks
        round_ = 2 * (ring - 1) / ring * keys / ulysses
        rows.append((round(there + round_, 9), -ulysses, ring))
    _, ulysses, ring = min(rows)
    return -ulysses, ring


def bytes_of(split: Split, heads: int, kv_heads: int) -> float:
    """Bytes of one rank, for as many positions as every split divides."""
    ulysses, ring = split
    return float(
        volume.hybrid_attention(
            1, ulysses * ring * 2, heads, kv_heads, 1, ring=ring, ulysses=ulysses, itemsize=1
        ).value
    )


def _choose(rule: Callable[[list[Split]], Split], ranks: int, heads: int, kv_heads: int) -> Split:
    return rule([(one["ulysses"], one["ring"]) for one in hybrid_splits(ranks, heads, kv_heads)])


def squarest(found: list[Split]) -> Split:
    """Wrong: both axes as equal as can be."""
    return min(found, key=lambda one: abs(one[0] - one[1]))


def common_divisor(ranks: int, heads: int, kv_heads: int) -> Split:
    """Wrong: as much Ulysses as ranks and heads have in common."""
    ulysses = gcd(ranks, heads)
    return ulysses, ranks // ulysses


def keys_not_copied(ranks: int, heads: int, kv_heads: int) -> Split:
    """Wrong: a key head that several ranks need is counted once."""

    def sent(one: Split) -> float:
        ulysses, ring = one
        swapped = ring * (ulysses - 1) * (2 * heads + 2 * kv_heads)
        return float(swapped + (ring - 1) * 2 * kv_heads * ranks)

    return _choose(lambda found: min(found, key=sent), ranks, heads, kv_heads)


def any_key_heads(ranks: int, heads: int, kv_heads: int) -> Split:
    """Wrong: what fits the query heads is taken to fit the key heads."""

    def sent(one: Split) -> float:
        ulysses, ring = one
        keys = max(kv_heads, ulysses)
        return ring * (ulysses - 1) * (2 * heads + 2 * keys) + (ring - 1) * 2 * keys * ranks

    found = [(n, ranks // n) for n in range(ranks, 0, -1) if ranks % n == 0 and heads % n == 0]
    return min(found, key=sent)


def the_other_way_round(ranks: int, heads: int, kv_heads: int) -> Split:
    """Wrong: (ring, ulysses)."""
    ulysses, ring = by_the_package(ranks, heads, kv_heads)
    return ring, ulysses


def asks_the_others(ranks: int, heads: int, kv_heads: int) -> Split:
    """Wrong: right, but the ranks need not talk for it."""
    dist.barrier()
    return by_the_package(ranks, heads, kv_heads)


def _given(seed: int, rank: int, trial: Trial) -> tuple[int, int, int]:
    return trial["cards"], trial["heads"], trial["kv_heads"]


def _one_card(given: list[tuple[int, int, int]]) -> list[Split]:
    return [by_the_package(*mine) for mine in given]


def _compared(attempt: Attempt) -> str:
    """Whether the answer fits, and what it sends beside the best."""
    (ranks, heads, kv_heads), wanted = attempt.given[0], attempt.wanted[0]
    seen = attempt.values[0]
    if not isinstance(seen, (tuple, list)) or len(seen) != 2 or tuple(seen) == tuple(wanted):
        return ""
    asked = f"{ranks} ranks, {heads} heads, {kv_heads} of keys and values"
    fitting = [(one["ulysses"], one["ring"]) for one in hybrid_splits(ranks, heads, kv_heads)]
    if tuple(seen) not in fitting:
        listed = ", ".join(f"{u} x {r}" for u, r in fitting)
        return f"{asked}: ulysses={seen[0]}, ring={seen[1]} does not fit. What fits: {listed}."
    times = bytes_of(tuple(seen), heads, kv_heads) / bytes_of(wanted, heads, kv_heads)
    return f"{asked}: ulysses={seen[0]}, ring={seen[1]} fits and sends {times:.2f} times the least."


EXERCISE = Exercise(
    name="09.3",
    title="The split that sends least",
    statement="""
Write `my_split(ranks, heads, kv_heads)`. Return `(ulysses, ring)`: the split of so many ranks for which one
rank sends least in a hybrid attention. Only what fits counts: the Ulysses axis divides `heads`, and it
divides `kv_heads` or is a multiple of them. Of two that send the same take the larger Ulysses axis.

The answer must not depend on the length of the sequence, the head dimension or the dtype.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_compared,
    trials=tuple(
        Trial(2, sizes={"cards": cards, "heads": heads, "kv_heads": kv_heads})
        for cards, heads, kv_heads in (
            (8, 8, 8),
            (8, 8, 2),
            (8, 8, 1),
            (6, 8, 8),
            (12, 24, 8),
            (16, 32, 4),
            (5, 8, 8),
        )
    ),
    hints=(
        "There are few splits. Try each that fits, with the formula of section 4 without what all of them "
        "share.",
        "Write a table for 8 ranks, 8 heads, 2 key-value heads: a row for each of U = 1, 2, 4, 8, with the "
        "bytes of each axis. What happens to the keys once U is above 2?",
        """
    for ulysses in ...:                     # from large to small
        if ...:                             # does not fit
            continue
        ring, keys = ranks // ulysses, ...  # key heads that travel, copies too
        swapped = ...                       # the Ulysses axis
        passed = ...                        # the ring axis
        ...                                 # less than the best so far?
""",
    ),
    solution=my_split,
    explanation="""
$\\frac{U-1}{U}(2H+2K)\\frac{1}{UR} + \\frac{R-1}{R}\\,\\frac{2K}{U}$, with U for K where K is smaller; $b$,
$s$, $d$, $e$ stand in front of both. Multiplied with $p^2$ the first term is $R\\,(U-1)(2H+2K)$, and the
second $(R-1)\\,2Kp$: whole numbers, so equals are equal.

With many key heads Ulysses wins as far as the heads go. With few of them the ring is cheap, and in between a
mix may beat both ends.
""",
    right=(by_the_package, in_shares),
    wrong=(
        Wrong(partial(_choose, lambda found: found[0]), r"fits and sends 1\.27 times the least"),
        Wrong(partial(_choose, lambda found: found[-1]), r"ulysses=1, ring=8 fits and sends 4\.00 times"),
        Wrong(partial(_choose, squarest), r"fits and sends"),
        Wrong(common_divisor, r"fits and sends 1\.27 times the least"),
        Wrong(keys_not_copied, r"fits and sends"),
        Wrong(any_key_heads, r"does not fit\. What fits"),
        Wrong(the_other_way_round, r"ulysses=1, ring=8 fits and sends 4\.00 times"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
