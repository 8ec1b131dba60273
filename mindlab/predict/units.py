"""How a number is printed: KiB and MiB for sizes, GB/s for rates, the base unit beside it.

Inside the package every number is in base units (bytes, seconds, FLOP, bytes or FLOP per second).
Only what a person reads goes through this module.
"""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_SMALL = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def number(value: float) -> str:
    """The number itself: whole ones with thousands separators, others with six digits.

    >>> number(1572864), number(4 / 3)
    ('1,572,864', '1.33333')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def size(nbytes: float) -> str:
    """A size in binary units.

    >>> size(1572864), size(12), size(1024)
    ('1.5 MiB', '12 B', '1 KiB')
    """
    value, step = float(nbytes), 0
    while abs(value) >= 1024 and step < len(_BINARY) - 1:
        value, step = value / 1024, step + 1
    return f"{_short(value)} {_BINARY[step]}"


def rate(bytes_per_second: float) -> str:
    """A rate in decimal units, as links are sold: GB/s, never GiB/s.

    >>> rate(56e9), rate(1.9e6)
    ('56 GB/s', '1.9 MB/s')
    """
    return decimal(bytes_per_second, "B/s")


def duration(seconds: float) -> str:
    """A time in s, ms, µs or ns.

    >>> duration(0.00024), duration(2), duration(0)
    ('240 µs', '2 s', '0 s')
    """
    if seconds == 0 or not math.isfinite(seconds):
        return f"{_short(seconds)} s"
    scale, unit = next((pair for pair in _SMALL if abs(seconds) >= pair[0]), _SMALL[-1])
    return f"{_short(seconds / scale)} {unit}"


def decimal(value: float, unit: str) -> str:
    """A number with a decimal prefix before its unit.

    >>> decimal(3.12e14, "FLOP")
    '312 TFLOP'
    """
    value, step = float(value), 0
    while abs(value) >= 1000 and step < len(_DECIMAL) - 1:
        value, step = value / 1000, step + 1
    return f"{_short(value)} {_DECIMAL[step]}{unit}"


def pretty(value: float, unit: str) -> str:
    """The number in the unit that a person reads; `unit` is the base unit that it is given in.

    >>> pretty(1572864, "B"), pretty(6, "rounds"), pretty(0.5, "")
    ('1.5 MiB', '6 rounds', '0.5')
    """
    if unit == "B":
        return size(value)
    if unit == "s":
        return duration(value)
    if unit in ("B/s", "FLOP", "FLOP/s", "FLOP/B"):
        return decimal(value, unit)
    return f"{number(value)} {unit}".rstrip()


def with_base(value: float, unit: str) -> str:
    """The pretty number with the base unit beside it, where the two differ.

    >>> with_base(1572864, "B"), with_base(12, "B")
    ('1.5 MiB (1,572,864 B)', '12 B')
    """
    shown, base = pretty(value, unit), f"{number(value)} {unit}".rstrip()
    return shown if shown == base else f"{shown} ({base})"


def _short(value: float) -> str:
    """Four digits at most, without an exponent for what fits."""
    return f"{value:.4g}" if not 1000 <= abs(value) < 1e6 else f"{value:.0f}"
