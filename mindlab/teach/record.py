"""`ml.progress()`: what has been done, and what is left."""

from __future__ import annotations

import os
from typing import Any

from mindlab.teach import panel, registry
from mindlab.teach.journal import journal, state_of, where
from mindlab.teach.verdict import FAILED, NOT_ANSWERED, PASSED
from mindlab.teach.words import say, translated

_MARKS = {PASSED: "✓", FAILED: "✗", NOT_ANSWERED: "…"}
_WORDS = {PASSED: "passed", FAILED: "failed", NOT_ANSWERED: "open"}


class Progress:
    """A table of all exercises, cases and quizzes; `rows` holds a dict for each."""

    def __init__(self) -> None:
        kept = journal()
        self.rows = [
            {
                "chapter": name[:2],
                "kind": kind,
                "name": name,
                "title": title,
                **_standing(kept.entry(kind, name)),
            }
            for kind, name, title in _tasks()
        ]
        self.note = kept.note
        self.line = _line()

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = [say("task"), "", say("state"), say("tries"), say("hints")]
        return head, [
            [
                row["name"],
                row["title"],
                f"{_MARKS[row['state']]} {say(_WORDS[row['state']])}",
                str(row["tries"] or ""),
                str(row["hints"] or "") + (f" · {say('solution_seen')}" if row["solution"] else ""),
            ]
            for row in self.rows
        ]

    def _score(self) -> str:
        return f"{sum(row['state'] == PASSED for row in self.rows)} / {len(self.rows)}"

    def __repr__(self) -> str:
        lines = [f"{say('progress')}: {self._score()}", *panel.columns(*self._table()), self.note, self.line]
        return "\n".join(filter(None, lines))

    def _repr_html_(self) -> str:
        head, rows = self._table()
        below = [panel.small(text) for text in (self.note, self.line) if text]
        title = f"{say('progress')}: {self._score()}"
        return panel.box(title, [panel.table(head, rows, right=(3,)), *below], kind="progress")


def progress(*, off: bool = False) -> Progress:
    """What you have done in all chapters, from the one file that keeps it.

    `off=True` keeps nothing from now on in this notebook; MINDLAB_PROGRESS=off in the environment does so
    everywhere.

    >>> ml.progress(off=True).line
    'Progress is not kept (MINDLAB_PROGRESS=off).'
    """
    if off:
        os.environ["MINDLAB_PROGRESS"] = "off"
    return Progress()


def _tasks() -> list[tuple[str, str, str]]:
    """(kind, name, title) of all there is, by chapter."""
    found = [("exercises", one.name, translated(one.title)) for one in registry.exercises()]
    found += [("cases", one.name, translated(one.title)) for one in registry.cases()]
    found += [("quizzes", one.name, translated(one.title)) for one in registry.quizzes()]
    return sorted(
        found, key=lambda one: (one[1][:2], ("exercises", "cases", "quizzes").index(one[0]), one[1])
    )


def _standing(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "state": state_of(entry),
        "tries": entry.get("tries", 0),
        "hints": entry.get("hints", 0),
        "solution": bool(entry.get("solution")),
    }


def _line() -> str:
    if os.environ.get("MINDLAB_BULK"):
        return say("progress_bulk")
    path = where()
    return say("progress_off") if path is None else say("progress_at", path=path)
