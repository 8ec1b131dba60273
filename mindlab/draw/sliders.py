"""What an explorer can vary: a range of numbers, a list of choices, a switch. Only data; nothing is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_STEPS = 100


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high` in steps; all whole where the three are."""

    low: float
    high: float
    step: float

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return all(isinstance(end, int) for end in (self.low, self.high, self.step))

    def fault(self, value: Any) -> str:
        """Why it does not take this value; "" if it does."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return f"it takes a {'whole ' if self.whole else ''}number"
        if not self.low <= value <= self.high:
            return f"it goes from {number(self.low)} to {number(self.high)}"
        steps = (value - self.low) / self.step
        if abs(steps - round(steps)) > 1e-6:
            below = self.low + math.floor(steps) * self.step
            near = ", ".join(number(n) for n in (below, below + self.step) if n <= self.high)
            return f"it goes in steps of {number(self.step)} from {number(self.low)}; near are {near}"
        return ""

    def __str__(self) -> str:
        return f"{number(self.low)} … {number(self.high)}"


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    options: tuple[Any, ...]

    def fault(self, value: Any) -> str:
        """Why it does not take this value; "" if it does."""
        same = any(value == option and type(value) is type(option) for option in self.options)
        return "" if same else f"choose one of {', '.join(map(repr, self.options))}"

    def __str__(self) -> str:
        return " | ".join(map(number, self.options))


@dataclass(frozen=True)
class Switch:
    """True or False."""

    def fault(self, value: Any) -> str:
        """Why it does not take this value; "" if it does."""
        return "" if isinstance(value, bool) else "it takes True or False"

    def __str__(self) -> str:
        return "True | False"


Slider = Range | Choice | Switch


def slider(name: str, given: Any) -> Slider:
    """The Slider that the person gave as (low, high[, step]), a list of choices or a bool.

    Raises ValueError for anything else.
    """
    if isinstance(given, bool):
        return Switch()
    if isinstance(given, list) and given:
        return Choice(tuple(given))
    if isinstance(given, tuple) and len(given) in (2, 3) and all(map(_is_number, given)):
        low, high = given[:2]
        step = given[2] if len(given) == 3 else _step(low, high)
        if low < high and step > 0:
            return Range(low, high, step)
    raise ValueError(
        f"{name}={given!r}: give (low, high) or (low, high, step) with low < high and step > 0, "
        "a list of choices, or True or False"
    )


def faults(presets: Mapping[str, Mapping[str, Any]], sliders: Mapping[str, Slider]) -> list[str]:
    """One line for each value that is unknown, missing, or not among those of its slider."""
    found = []
    for title, values in presets.items():
        where = f"preset {title!r}"
        found += [
            f"{where}: no slider {name!r}; the sliders are {', '.join(sliders)}"
            for name in values
            if name not in sliders
        ]
        found += [
            f"{where}: no value for {name!r} ({one})" for name, one in sliders.items() if name not in values
        ]
        for name, one in sliders.items():
            why = one.fault(values[name]) if name in values else ""
            found += [f"{where}: {name}={values[name]!r}: {why}"] if why else []
    return found


def number(value: Any) -> str:
    """A value as a person would type it: 4096, 120_000, 0.25, ring."""
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def setting(values: Mapping[str, Any]) -> str:
    """Values in words: "ranks = 4, numel = 120_000"."""
    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _step(low: float, high: float) -> float:
    """1 between whole numbers; else about a hundredth of the way, 1, 2 or 5 times a power of ten."""
    if isinstance(low, int) and isinstance(high, int):
        return 1
    rough = abs(high - low) / _STEPS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(times for times in (power, 2 * power, 5 * power, 10 * power) if times >= rough * 0.999)
