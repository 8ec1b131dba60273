"""How attention heads are dealt to ranks: whole heads only, key-value heads copied where they are too few.

The one home of these rules and of the sentences that refuse: strategies and formulas both ask here.
"""

from __future__ import annotations

from mindlab.predict.shapes import check_whole


def heads_per_rank(heads: int, ranks: int) -> int:
    """How many query heads each rank gets; raises ValueError where ranks do not divide them.

    >>> heads_per_rank(32, 4)
    8
    >>> heads_per_rank(32, 3)
    Traceback (most recent call last):
        ...
    ValueError: ranks=3 cannot split 32 heads: choose a divisor of 32 (1, 2, 4, 8, 16, 32)
    """
    check_whole(1, heads=heads, ranks=ranks)
    if heads % ranks:
        raise ValueError(f"ranks={ranks} cannot split {heads} heads: choose {_divisors(heads)}")
    return heads // ranks


def kv_heads_per_rank(kv_heads: int, ranks: int) -> int:
    """How many key-value heads each rank gets: K/p; where p is a multiple of K, one, copied to p/K ranks.

    Raises ValueError where neither divides the other.

    >>> kv_heads_per_rank(8, 4), kv_heads_per_rank(2, 4)
    (2, 1)
    """
    check_whole(1, kv_heads=kv_heads, ranks=ranks)
    if kv_heads % ranks and ranks % kv_heads:
        raise ValueError(
            f"ranks={ranks} cannot split {kv_heads} key-value heads: choose {_divisors(kv_heads)} "
            f"or a multiple of {kv_heads}, which copies each to several ranks"
        )
    return max(1, kv_heads // ranks)


def check_groups(heads: int, kv_heads: int) -> None:
    """Raises ValueError where key-value heads cannot be shared by equally many query heads each.

    >>> check_groups(8, 3)
    Traceback (most recent call last):
        ...
    ValueError: kv_heads=3 cannot be shared by 8 query heads: choose a divisor of 8 (1, 2, 4, 8)
    """
    check_whole(1, heads=heads, kv_heads=kv_heads)
    if heads % kv_heads:
        raise ValueError(
            f"kv_heads={kv_heads} cannot be shared by {heads} query heads: choose {_divisors(heads)}"
        )


def _divisors(number: int) -> str:
    listed = ", ".join(str(part) for part in range(1, number + 1) if number % part == 0)
    return f"a divisor of {number} ({listed})"
