"""Lengths and counts of a shape: whole numbers, refused by name where they are not."""

from __future__ import annotations

from numbers import Integral


def check_whole(least: int, **given: int) -> None:
    """Raises ValueError naming the first that is no whole number from `least` on.

    >>> check_whole(1, heads=0)
    Traceback (most recent call last):
        ...
    ValueError: heads=0: give a whole number from 1 on
    """
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}={value!r}: give a whole number from {least} on")


def times(count: int) -> str:
    r"""The LaTeX in front of what comes `count` times; nothing where that is once.

    >>> times(2), times(1)
    ('2 \\cdot ', '')
    """
    return "" if count == 1 else rf"{count} \cdot "
