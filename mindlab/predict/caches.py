"""Which rank holds which position of a cache that is sharded by position, on paper.

Positions are dealt in blocks, in turn: block j lies on rank j mod p. With blocks of one position that is
round-robin: as a sequence grows every rank gets its share at once. With blocks of ceil(capacity / p) each
rank has one piece, and the first ranks fill up before the last one has anything to read.
"""

from __future__ import annotations

from mindlab.predict.shapes import check_whole


def holder(position: int, ranks: int, block: int = 1) -> int:
    """The rank that holds a position.

    >>> [holder(i, 3) for i in range(5)], [holder(i, 3, block=2) for i in range(5)]
    ([0, 1, 2, 0, 1], [0, 0, 1, 1, 2])
    """
    check_whole(0, position=position)
    check_whole(1, ranks=ranks, block=block)
    return position // block % ranks


def held(length: int, ranks: int, block: int = 1) -> tuple[int, ...]:
    """How many of the first `length` positions each rank holds.

    >>> held(5, 3), held(5, 3, block=2), held(2, 3)
    ((2, 2, 1), (2, 2, 1), (1, 1, 0))
    """
    check_whole(0, length=length)
    check_whole(1, ranks=ranks, block=block)
    rounds, rest = divmod(length, block * ranks)
    return tuple(rounds * block + min(block, max(0, rest - rank * block)) for rank in range(ranks))


def held_positions(start: int, end: int, rank: int, ranks: int, block: int = 1) -> list[int]:
    """The positions from `start` up to but not including `end` that a rank holds, in order.

    They lie in its shard in this order, so the first of them is at held(start)[rank].

    >>> held_positions(0, 9, 1, 3, block=2)
    [2, 3, 8]
    """
    check_whole(0, start=start, end=end, rank=rank)
    check_whole(rank + 1, ranks=ranks)
    return [position for position in range(start, end) if holder(position, ranks, block) == rank]


def one_piece(capacity: int, ranks: int) -> int:
    """The block that gives each rank one piece of a cache for `capacity` positions.

    >>> one_piece(10, 4), held(10, 4, one_piece(10, 4))
    (3, (3, 3, 3, 1))
    """
    check_whole(1, capacity=capacity, ranks=ranks)
    return -(-capacity // ranks)
