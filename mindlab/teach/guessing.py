"""`ml.guess`: a number before the run, held against formula and measurement after it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import mistakes, panel
from mindlab.teach.journal import journal
from mindlab.teach.reading import read, unanswered
from mindlab.teach.words import say, translated
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run

_RIGHT = 0.01
"""How far off a right guess may be: nobody types six digits."""

Number = int | float


class Guess:
    """A question, and the number that was answered before anybody measured. `...` is no answer."""

    def __init__(self, question: str, unit: str, value: Any = ...) -> None:
        self.question, self.unit = question, unit
        self.value: Number | None = None
        self._misfit = ""
        self.answer(value)

    def answer(self, value: Any) -> Guess:
        """This guess, with the number noted. `...` and None leave it open; so does what is no number, and the
        box says so."""
        self.value, self._misfit = None, ""
        if unanswered(value) or value is None:
            return self
        number = _number(value)
        if number is None:
            self._misfit = say("guess_misfit", given=panel.short(value))
            return self
        self.value = number
        name = hashlib.sha256(self.question.encode()).hexdigest()[:8]
        journal().set("guesses", name, question=self.question, guess=number, unit=self.unit)
        return self

    def reveal(
        self,
        measured: Any = None,
        *,
        formula: Quantity | Number | None = None,
        whole: Number | None = None,
        ranks: int | None = None,
        timed: bool = False,
    ) -> Revealed:
        """The guess beside the formula and what was counted and seen on the wire.

        `measured`: a Run (then what each rank sent is meant), a Measured, a number, or None. `formula` is
        what it should be. `whole` turns bytes into a share of so many. A wrong guess is no fault: nothing
        raises, and a run in bulk goes on. `ranks` is taken from the run or the formula where it is not given.
        A guess that is held against a time alone is neither right nor wrong: `timed=True` says so of a number
        that does not (a Measured of seconds does).
        """
        timed = formula is None and (timed or getattr(measured, "provenance", "") == "timed")
        rows = []
        if formula is not None:
            rows.append(Row(say("formula_row"), self._in_unit(_values(formula), whole), _latex(formula)))
        rows += [
            Row(say("timed_row" if timed else key), self._in_unit(values, whole))
            for key, values in _measurements(measured)
        ]
        known = ranks if ranks is not None else _ranks(measured, formula)
        right = rows[0].values if rows else ()
        if timed:
            return Revealed(self, rows, self._beside(right), panel.OPEN)
        comment = self._comment(right, formula if isinstance(formula, Quantity) else None, known)
        return Revealed(self, rows, comment, self._state(right))

    def _in_unit(self, values: tuple[Number, ...], whole: Number | None) -> tuple[Number, ...]:
        divisor = whole or mistakes.size_of(self.unit) or 1
        return tuple(value / divisor if divisor != 1 else value for value in values)

    def _state(self, right: tuple[Number, ...]) -> str:
        if self.value is None or not right:
            return panel.OPEN
        return panel.GOOD if _near(self.value, right, _RIGHT) else panel.BAD

    def _beside(self, timed: tuple[Number, ...]) -> str:
        """The guess beside a time."""
        aim = sum(timed) / len(timed) if timed else 0
        if self.value is None or not aim:
            return ""
        return say("guess_timed", factor=f"{self.value / aim:.3g}")

    def _comment(self, right: tuple[Number, ...], formula: Quantity | None, ranks: int | None) -> str:
        if self.value is None or not right:
            return ""
        if _near(self.value, right, _RIGHT):
            return say("guess_right")
        aim = sum(right) / len(right)
        if self.value <= 0 < aim:
            return say("guess_sign")
        factor = f"{self.value / aim:.3g}" if aim else "∞"
        found = mistakes.matching(self.value, aim, formula, ranks, self.unit)
        if len(found) == 1:
            return say("guess_fits", factor=factor, mistake=found[0].words)
        if found:
            listed = "; or ".join(one.words for one in found)
            return say("guess_fits_many", factor=factor, ranks=ranks, mistakes=listed)
        close = 0.8 <= self.value / aim <= 1.25 if aim else False
        return say("guess_close" if close else "guess_off", factor=factor)

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._asked(), self._noted()]))

    def _repr_html_(self) -> str:
        parts = [panel.text(self._asked()), *([panel.text(self._noted())] if self._noted() else [])]
        return panel.box(say("guess"), parts, kind="guess")

    def _asked(self) -> str:
        where = f" ({say('guess_in', unit=self.unit)})" if self.unit else ""
        return translated(self.question) + where

    def _noted(self) -> str:
        if self.value is None:
            return self._misfit
        return say("noted", guess=f"{units.number(self.value)} {self.unit}".strip())


@dataclass(frozen=True)
class Row:
    """One line of what is revealed: numbers in the guess's unit, one or one a rank."""

    name: str
    values: tuple[Number, ...]
    formula: str = ""


class Revealed:
    """What `reveal` shows: rows, a comment on the guess, and how it stands ("good", "bad", "open")."""

    def __init__(self, guess: Guess, rows: list[Row], comment: str, state: str) -> None:
        self.guess, self.rows, self.comment, self.state = guess, rows, comment, state

    def _lines(self) -> list[tuple[str, str]]:
        mine = self.guess.value
        shown = say("no_guess") if mine is None else f"{units.number(mine)} {self.guess.unit}".strip()
        return [
            (say("guess_row"), shown),
            *((row.name, _shown(row, self.guess.unit)) for row in self.rows),
        ]

    def __repr__(self) -> str:
        rows = panel.columns(["", ""], [(name, shown.split("$ = ")[-1]) for name, shown in self._lines()])
        return "\n".join(filter(None, [translated(self.guess.question), *rows, self.comment]))

    def _repr_html_(self) -> str:
        table = panel.table(["", ""], self._lines())
        parts = [table, *([panel.text(self.comment)] if self.comment else [])]
        return panel.box(translated(self.guess.question), parts, tone=self.state, kind="guess")


def guess(question: str, unit: str = "", value: Any = ...) -> Guess:
    """The Guess: shows the question; `value`, or later `.answer(x)`, is the number that you expect.

    `unit` is the unit of the number: "B", "KiB", "MiB", "MB", "rounds", "share of D" … Then run it, and
    `.reveal(run, formula=…)` holds the number against formula and measurement.

    >>> asked = ml.guess("How many rounds has a ring AllReduce?", "rounds", 6)
    >>> asked.reveal(formula=ml.volume.rounds.ring_all_reduce(64, 4)).state
    'good'
    """
    return Guess(question, unit, value)


def _number(value: Any) -> Number | None:
    """The one number that a person gave; None for a text, a list, a NaN."""
    try:
        (number,) = read(value, "the guess").values
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _values(formula: Quantity | Number) -> tuple[Number, ...]:
    if isinstance(formula, Quantity):
        return formula.per_rank if formula.per_rank is not None else (formula.value,)
    return (formula,)


def _measurements(measured: Any) -> list[tuple[str, tuple[Number, ...]]]:
    """(which row, its numbers) for each measurement there is."""
    if measured is None:
        return []
    if isinstance(measured, Run):
        wire = measured.wire_sent
        found = [("counted_row", tuple(measured.sent.tolist()))] if any(measured.sent) else []
        return found + ([("wire_row", tuple(wire.tolist()))] if wire is not None else [])
    seen = read(measured, "measured")
    keys = {"counted": "counted_row", "wire": "wire_row"}
    return [(keys.get(seen.provenance, "measured_row"), seen.values)]


def _ranks(measured: Any, formula: Any) -> int | None:
    if isinstance(measured, Run):
        return measured.ranks
    if isinstance(formula, Quantity) and formula.ranks is not None:
        return formula.ranks
    return len(measured) if isinstance(measured, Measured) and measured.ndim == 1 else None


def _near(value: Number, right: tuple[Number, ...], within: float) -> bool:
    aim = sum(right) / len(right)
    return min(right) <= value <= max(right) or abs(value - aim) <= within * abs(aim)


def _shown(row: Row, unit: str) -> str:
    low, high = min(row.values), max(row.values)
    number = units.number(low) if low == high else f"{units.number(low)} … {units.number(high)}"
    text = f"{number} {unit}".strip()
    return f"${row.formula}$ = {text}" if row.formula else text


def _latex(formula: Quantity | Number) -> str:
    return formula.formula if isinstance(formula, Quantity) else ""
