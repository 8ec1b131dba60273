"""Binary logarithms and the binomial tree."""

from __future__ import annotations


def floor_log2(ranks: int) -> int:
    """The largest k with 2**k <= ranks."""
    return int(ranks).bit_length() - 1


def ceil_log2(ranks: int) -> int:
    """The smallest k with 2**k >= ranks."""
    return (int(ranks) - 1).bit_length()


def children(rank: int, ranks: int) -> int:
    """How many ranks `rank` sends to in a binomial tree from rank 0: rank + 2**k, for each 2**k above rank.

    >>> [children(rank, 5) for rank in range(5)]
    [3, 1, 0, 0, 0]
    """
    return sum(rank < 2**k and rank + 2**k < ranks for k in range(ceil_log2(ranks)))
