"""Numbers as a reader wants them: sizes in KiB and MiB, times in microseconds to seconds."""

from __future__ import annotations

_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def size_unit(nbytes: float) -> tuple[int, str]:
    """The largest unit not above a size: (bytes in it, its name)."""
    return next(((scale, unit) for scale, unit in _SIZES if abs(nbytes) >= scale), (1, "B"))


def number(value: float) -> str:
    """A number in four digits: "256", "1.875", "0.03125" is "0.0312"."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3g}"


def size(nbytes: float) -> str:
    """A size with its unit: "256 KiB", "1.5 MiB", "96 B"."""
    scale, unit = size_unit(nbytes)
    return f"{number(nbytes / scale)} {unit}"


def duration(seconds: float) -> str:
    """A time with its unit: "83 µs", "1.2 ms", "4 s"."""
    scale, unit = next(((s, u) for s, u in _TIMES if abs(seconds) >= s), _TIMES[-1])
    return f"{number(seconds / scale)} {unit}"
