r"""How many bytes expert parallel sends: exact from a routing table, and what to expect from an even router.

A layer's exchange has these parts, in this order:

    expert_counts     how many tokens come, int64, so that room can be made
    expert_dispatch   the tokens, (n, hidden)
    expert_weights    only with once_per_rank: a float32 weight for each token and each expert of its rank
    expert_combine    the results, (n, hidden), back to where the tokens came from

`expert_parallel` is their sum. `routes` is by rank, then by token, the experts that take it: what a layer's
`last_dispatch.routes` holds on each rank. `itemsize` is the bytes of one element of a token. What stays on
its rank is not sent. Every copied expert's tokens are dealt as `placement.deal` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb

from mindlab.predict import sources
from mindlab.predict.chunks import split
from mindlab.predict.placement import Holders, deal, experts_of, holders
from mindlab.predict.quantity import Quantity, exact
from mindlab.predict.sent import counted
from mindlab.predict.shapes import check_whole

Routes = Sequence[Sequence[Sequence[int]]]
Copies = Mapping[int, int] | None
_COUNT, _WEIGHT = 8, 4  # bytes of an int64 and of a float32


def expert_dispatch(
    routes: Routes,
    experts: int,
    hidden: int,
    *,
    itemsize: int,
    copies: Copies = None,
    once_per_rank: bool = False,
) -> Quantity:
    r"""Bytes of tokens that each rank sends to the experts: a vector for each token and expert elsewhere.

    With `once_per_rank` a vector for each token and rank elsewhere, however many of its experts live there.

    >>> expert_dispatch([[[0, 1], [2, 3]], [[2, 3]]], experts=4, hidden=8, itemsize=4).per_rank
    (64, 0)
    >>> expert_dispatch([[[0, 1], [2, 3]], []], 4, 8, itemsize=4, once_per_rank=True).per_rank
    (32, 0)
    """
    rows = _rows(routes, experts, copies, once_per_rank)
    sent = [sum(row) - row[rank] for rank, row in enumerate(rows)]
    return _vectors("expert_dispatch", sent, hidden, itemsize, r"h\,e \sum_{d \ne r} n_{rd}")


def expert_combine(
    routes: Routes,
    experts: int,
    hidden: int,
    *,
    itemsize: int,
    copies: Copies = None,
    once_per_rank: bool = False,
) -> Quantity:
    r"""Bytes of results that each rank sends back: one vector for each that came from elsewhere.

    As many as were dispatched, in all; a single rank sends back what it got, not what it sent.

    >>> expert_combine([[[0, 1], [2, 3]], [[2, 3]]], experts=4, hidden=8, itemsize=4).per_rank
    (0, 64)
    """
    rows = _rows(routes, experts, copies, once_per_rank)
    sent = [sum(row[rank] for row in rows) - rows[rank][rank] for rank in range(len(rows))]
    return _vectors("expert_combine", sent, hidden, itemsize, r"h\,e \sum_{s \ne r} n_{sr}")


def expert_counts(
    experts: int, ranks: int, *, copies: Copies = None, once_per_rank: bool = False
) -> Quantity:
    r"""Bytes of counts that each rank sends: 8 for each expert held elsewhere.

    With `once_per_rank` 8 for each other rank: the weights then tell the rest.

    >>> expert_counts(6, 4).per_rank, expert_counts(6, 4, once_per_rank=True).value
    ((32, 32, 40, 40), 24)
    """
    held = holders(experts, ranks, copies)
    if once_per_rank:
        return counted("expert_counts", [_COUNT * (ranks - 1)] * ranks, "8(p-1)", sources.COUNTED_BY_HAND)
    total = sum(map(len, held))
    by_rank = [_COUNT * (total - len(experts_of(held, rank))) for rank in range(ranks)]
    return counted("expert_counts", by_rank, r"8 \sum_{d \ne r} E_d", sources.COUNTED_BY_HAND)


def expert_weights(routes: Routes, experts: int, *, copies: Copies = None) -> Quantity:
    r"""Bytes of weights that each rank sends with `once_per_rank`: 4 for each token and expert of its rank.

    >>> expert_weights([[[0, 1], [2, 3]], [[2, 3]]], experts=4).per_rank
    (8, 0)
    """
    held = holders(experts, len(routes), copies)
    widths = [len(experts_of(held, rank)) for rank in range(len(routes))]
    by_rank = [
        _WEIGHT * sum(n * width for to, (n, width) in enumerate(zip(row, widths, strict=True)) if to != rank)
        for rank, row in enumerate(_rows(routes, experts, copies, True))
    ]
    return counted("expert_weights", by_rank, r"4 \sum_{d \ne r} n_{rd} E_d", sources.COUNTED_BY_HAND)


def expert_parallel(
    routes: Routes,
    experts: int,
    hidden: int,
    *,
    itemsize: int,
    copies: Copies = None,
    once_per_rank: bool = False,
) -> Quantity:
    r"""Bytes that each rank sends in one layer: counts, tokens (with their weights), results.

    >>> expert_parallel([[[0, 1], [2, 3]], [[2, 3]]], experts=4, hidden=8, itemsize=4).by_rank(2)
    (80, 80)
    """
    both = [
        form(routes, experts, hidden, itemsize=itemsize, copies=copies, once_per_rank=once_per_rank)
        for form in (expert_dispatch, expert_combine)
    ]
    counts = expert_counts(experts, len(routes), copies=copies, once_per_rank=once_per_rank)
    total, formula = both[0] + both[1] + counts, rf"{_THERE_AND_BACK} + 8 \sum_{{d \ne r}} E_d"
    if once_per_rank:
        total = total + expert_weights(routes, experts, copies=copies)
        formula = rf"{_THERE_AND_BACK} + 4 \sum_{{d \ne r}} n_{{rd}} E_d + 8(p-1)"
    by_rank = [int(value) for value in total.by_rank(len(routes))]
    return counted("expert_parallel", by_rank, formula, sources.COUNTED_BY_HAND)


def expert_dispatch_expected(
    tokens: int,
    hidden: int,
    experts: int,
    top_k: int,
    ranks: int,
    *,
    itemsize: int,
    once_per_rank: bool = False,
) -> Quantity:
    r"""Bytes of tokens that a rank sends on average if all experts are equally likely: (p-1)/p k T h e.

    `tokens` is the number on each rank, T. With `once_per_rank` k becomes the expected number of ranks that a
    token goes to, `expert_destinations`. The combine sends as many. Not the mean of a real router, whose
    experts are not equally likely.

    >>> expert_dispatch_expected(64, 32, experts=8, top_k=2, ranks=4, itemsize=4).value
    12288
    """
    check_whole(0, tokens=tokens)
    check_whole(1, hidden=hidden, itemsize=itemsize, ranks=ranks)
    spread = _destinations(experts, ranks, top_k)  # refuses what cannot be
    reached = spread if once_per_rank else Fraction(top_k)
    value = reached * (ranks - 1) / ranks * tokens * hidden * itemsize
    copied = rf"p\left(1-{_MISSED}\right)" if once_per_rank else "k"
    formula = rf"\frac{{p-1}}{{p}}\,{copied}\,T\,h\,e"
    return Quantity(exact(value), "B", formula, sources.GSHARD, name="expert_dispatch_expected", ranks=ranks)


def expert_destinations(experts: int, groups: int, top_k: int) -> Quantity:
    r"""On how many of `groups` (ranks, or hosts) the k different experts of a token lie, on average.

    All sets of k experts equally likely; experts are dealt to the groups as torch.tensor_split deals.
    k divided by this is what `once_per_rank` saves.

    >>> round(expert_destinations(256, 8, 8).value, 2)
    5.29
    """
    return Quantity(
        exact(_destinations(experts, groups, top_k)),
        "ranks",
        rf"p\left(1-{_MISSED}\right)",
        sources.DEEPSEEK_V3,
        name="expert_destinations",
        ranks=groups,
    )


_THERE_AND_BACK = r"h\,e \sum_{d \ne r} (n_{rd} + n_{dr})"
_MISSED = r"\binom{E-E/p}{k} / \binom{E}{k}"


def _destinations(experts: int, groups: int, top_k: int) -> Fraction:
    """The sum over groups of the chance that a token has an expert there."""
    check_whole(1, experts=experts, groups=groups, top_k=top_k)
    if top_k > experts:
        raise ValueError(f"top_k={top_k} is more than the {experts} experts: choose 1 to {experts}")
    every = comb(experts, top_k)
    met = (1 - Fraction(comb(experts - own, top_k), every) for own in split(experts, groups))
    return sum(met, Fraction(0))


def _rows(routes: Routes, experts: int, copies: Copies, once_per_rank: bool) -> list[list[int]]:
    """How many vectors rank s sends to rank d: [s][d], what stays included."""
    held: Holders = holders(experts, len(routes), copies)
    rows = [[0] * len(routes) for _ in routes]
    for rank, route in enumerate(routes):
        for chosen in deal(route, held, rank):
            for to in set(chosen) if once_per_rank else chosen:
                rows[rank][to] += 1
    return rows


def _vectors(name: str, sent: list[int], hidden: int, itemsize: int, formula: str) -> Quantity:
    check_whole(1, hidden=hidden, itemsize=itemsize)
    return counted(name, [n * hidden * itemsize for n in sent], formula, sources.COUNTED_BY_HAND)
