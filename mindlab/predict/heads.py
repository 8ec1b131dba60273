"""How attention heads are dealt to ranks: whole heads only, key-value heads copied where they are too few.

The one home of these rules and of the sentences that refuse: strategies and formulas both ask here.
"""

from __future__ import annotations

from mindlab.predict.shapes import check_whole


def heads_per_rank(heads: int, kv_heads: int, ranks: int) -> tuple[int, int]:
    """How many query heads and how many key-value heads each rank works on: H/p and max(1, K/p).

    Where p is a multiple of K, each key-value head lies on the p/K ranks whose queries share it. Raises
    ValueError where p does not divide H, where neither of p and K divides the other, or K does not divide H.

    >>> heads_per_rank(32, 8, 4), heads_per_rank(8, 2, 4)
    ((8, 2), (2, 1))
    >>> heads_per_rank(32, 32, 3)
    Traceback (most recent call last):
        ...
    ValueError: ranks=3 cannot split 32 heads: choose a divisor of 32 (1, 2, 4, 8, 16, 32)
    """
    check_groups(heads, kv_heads)
    check_whole(1, ranks=ranks)
    if heads % ranks or not _shares(kv_heads, ranks):
        fitting = [p for p in range(1, heads + 1) if heads % p == 0 and _shares(kv_heads, p)]
        grouped = heads != kv_heads
        what = f"{heads} heads" + (f" with {kv_heads} of keys and values" if grouped else "")
        also = f" that divides {kv_heads} or is a multiple of it" if grouped else ""
        raise ValueError(
            f"ranks={ranks} cannot split {what}: choose a divisor of {heads}{also} ({_listed(fitting)})"
        )
    return heads // ranks, max(1, kv_heads // ranks)


def kv_heads_per_rank(kv_heads: int, ranks: int) -> int:
    """How many key-value heads each rank holds: max(1, K/p).

    Raises ValueError where neither of p and K divides the other.

    >>> kv_heads_per_rank(8, 4), kv_heads_per_rank(2, 4)
    (2, 1)
    """
    check_whole(1, kv_heads=kv_heads, ranks=ranks)
    if not _shares(kv_heads, ranks):
        raise ValueError(
            f"ranks={ranks} cannot split {kv_heads} heads of keys and values: choose a divisor of {kv_heads} "
            f"({_divisors(kv_heads)}), or a multiple of it, where each lies on several ranks"
        )
    return max(1, kv_heads // ranks)


def check_groups(heads: int, kv_heads: int) -> None:
    """Raises ValueError where key-value heads cannot be shared by equally many query heads each.

    >>> check_groups(8, 3)
    Traceback (most recent call last):
        ...
    ValueError: kv_heads=3 cannot serve 8 query heads: choose a divisor of 8 (1, 2, 4, 8)
    """
    check_whole(1, heads=heads, kv_heads=kv_heads)
    if heads % kv_heads:
        raise ValueError(
            f"kv_heads={kv_heads} cannot serve {heads} query heads: "
            f"choose a divisor of {heads} ({_divisors(heads)})"
        )


def head_size(hidden: int, heads: int) -> int:
    """The length of one head, hidden / heads; raises ValueError where that is no whole number."""
    check_whole(1, hidden=hidden, heads=heads)
    if hidden % heads:
        raise ValueError(
            f"hidden={hidden} does not split into {heads} heads: "
            f"choose a divisor of {hidden} ({_divisors(hidden)}), or give head_dim"
        )
    return hidden // heads


def _shares(kv_heads: int, ranks: int) -> bool:
    return kv_heads % ranks == 0 or ranks % kv_heads == 0


def _divisors(number: int) -> str:
    return _listed([part for part in range(1, number + 1) if number % part == 0])


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
