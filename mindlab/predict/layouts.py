"""Which positions of a sequence each rank holds, on paper.

contiguous   one piece a rank, in the order of ranks, cut as torch.tensor_split cuts
zigzag       2p pieces, rank r holds pieces r and 2p-1-r: an early one and a late one
striped      token i is on rank i mod p
"""

from __future__ import annotations

from itertools import accumulate

from mindlab.predict.chunks import split
from mindlab.predict.shapes import check_whole

LAYOUTS = ("contiguous", "zigzag", "striped")


def positions(sequence: int, ranks: int, layout: str = "contiguous") -> tuple[tuple[range, ...], ...]:
    """The positions of each rank, as ranges in ascending order; raises ValueError for an unknown layout.

    >>> positions(8, 2, "zigzag")
    ((range(0, 2), range(6, 8)), (range(2, 4), range(4, 6)))
    """
    check_whole(0, sequence=sequence)
    check_whole(1, ranks=ranks)
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} is unknown: choose one of {', '.join(LAYOUTS)}")
    if layout == "striped":
        return tuple((range(rank, sequence, ranks),) for rank in range(ranks))
    if layout == "contiguous":
        return tuple((piece,) for piece in _pieces(sequence, ranks))
    pieces = _pieces(sequence, 2 * ranks)
    return tuple((pieces[rank], pieces[2 * ranks - 1 - rank]) for rank in range(ranks))


def lengths(sequence: int, ranks: int, layout: str = "contiguous") -> tuple[int, ...]:
    """How many positions each rank holds.

    >>> lengths(10, 4), lengths(10, 4, "zigzag")
    ((3, 3, 2, 2), (3, 3, 2, 2))
    """
    return tuple(sum(map(len, held)) for held in positions(sequence, ranks, layout))


def pairs_up_to(queries: int, keys: int, shift: int) -> int:
    """How many (i, j) with i < queries, j < keys and j <= i + shift: what a causal mask lets through.

    >>> pairs_up_to(4, 4, 0), pairs_up_to(2, 5, 3), pairs_up_to(2, 5, 5)
    (10, 9, 10)
    """

    def up_to(count: int) -> int:
        """Keys seen by the queries that see 1, 2, … `count`, but none more than there are."""
        full = max(0, count)
        short = min(full, keys)
        return short * (short + 1) // 2 + (full - short) * keys

    return up_to(shift + queries) - up_to(shift)


def _pieces(sequence: int, parts: int) -> list[range]:
    ends = list(accumulate(split(sequence, parts)))
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]
