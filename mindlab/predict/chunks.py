"""How a tensor is cut into one chunk a rank: the rule of `torch.tensor_split`, on paper."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral


def split(length: int, parts: int) -> tuple[int, ...]:
    """The lengths of the parts: the first `length % parts` are one longer, as torch.tensor_split cuts.

    >>> split(10, 4)
    (3, 3, 2, 2)
    """
    whole, extra = divmod(length, parts)
    return tuple(whole + (part < extra) for part in range(parts))


def cut(nbytes: int, ranks: int, itemsize: int | None) -> tuple[Fraction, ...]:
    """The bytes of each rank's chunk; without `itemsize` all are D/p, also where that is no whole number."""
    check_size(nbytes, ranks, itemsize)
    if itemsize is None:
        return (Fraction(nbytes, ranks),) * ranks
    return tuple(Fraction(items * itemsize) for items in split(nbytes // itemsize, ranks))


def check_size(nbytes: int, ranks: int, itemsize: int | None = None) -> None:
    """Raises ValueError for a size, a number of ranks or an item size that cannot be."""
    if isinstance(nbytes, bool) or not isinstance(nbytes, Integral) or nbytes < 0:
        raise ValueError(f"nbytes={nbytes!r}: give the whole tensor's bytes, a whole number from 0 on")
    if isinstance(ranks, bool) or not isinstance(ranks, Integral) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: give a whole number from 1 on")
    if itemsize is None:
        return
    if isinstance(itemsize, bool) or not isinstance(itemsize, Integral) or itemsize < 1:
        raise ValueError(f"itemsize={itemsize!r}: give the bytes of one element, a whole number from 1 on")
    if nbytes % itemsize:
        nearest = nbytes // itemsize * itemsize
        raise ValueError(
            f"nbytes={nbytes} is no multiple of itemsize={itemsize}: use {nearest} or {nearest + itemsize}"
        )
