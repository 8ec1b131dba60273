"""The marks of a class: one row a learner, one column an exercise; as data, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

STATES = ("passed", "failed", "not answered", "not found", "did not run")
"""From best to worst: of several notebooks of a learner, the best state of an exercise counts."""

Graded = dict[str, Any]
"""One submission: {"key", "learner", "chapter", "fingerprint", "seconds", "notes", "rows", "executed"}; each
row {"exercise", "function", "state", "says", …}."""


def exercises(submissions: Iterable[Graded]) -> list[str]:
    """Every exercise that was asked of somebody, in order."""
    return sorted({row["exercise"] for one in submissions for row in one["rows"]})


def by_learner(submissions: Iterable[Graded]) -> dict[str, dict[str, dict[str, Any]]]:
    """learner -> exercise -> the best row, in the learners' order."""
    best: dict[str, dict[str, dict[str, Any]]] = {}
    for one in sorted(submissions, key=lambda graded: (graded["learner"].casefold(), graded["key"])):
        rows = best.setdefault(one["learner"], {})
        for row in one["rows"]:
            before = rows.get(row["exercise"])
            if before is None or STATES.index(row["state"]) < STATES.index(before["state"]):
                rows[row["exercise"]] = {**row, "key": one["key"]}
    return best


def as_csv(submissions: Sequence[Graded]) -> str:
    """One line a learner: how many passed, the state of each exercise, then why, and the notes.

    Begins with a byte order mark, by which Excel knows that it is UTF-8.
    """
    names = exercises(submissions)
    notes: dict[str, list[str]] = {name: [] for name in by_learner(submissions)}
    for one in submissions:
        notes[one["learner"]] += [f"{one['key']}: {note}" for note in one["notes"]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["learner", "passed", "asked", *names, *(f"{name} says" for name in names), "notes"])
    for learner, rows in by_learner(submissions).items():
        passed = sum(row["state"] == "passed" for row in rows.values())
        states = [rows[name]["state"] if name in rows else "" for name in names]
        says = [rows[name].get("says", "") if name in rows else "" for name in names]
        line = [learner, passed, len(rows), *states, *says, "\n".join(notes[learner])]
        writer.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in line])
    return "\ufeff" + text.getvalue()


def as_json(about: Mapping[str, Any], submissions: Sequence[Graded]) -> str:
    """The text of grades.json: what was asked of the run, and every submission."""
    return json.dumps({**about, "submissions": list(submissions)}, indent=1, ensure_ascii=False) + "\n"


def tally(submissions: Iterable[Graded]) -> dict[str, int]:
    """How many exercises of all submissions are in each state."""
    states = [row["state"] for one in submissions for row in one["rows"]]
    return {state: states.count(state) for state in STATES if state in states}


def not_run(submissions: Iterable[Graded]) -> list[Graded]:
    """The submissions of which something could not be run."""
    states = [(one, [row["state"] for row in one["rows"]]) for one in submissions]
    return [one for one, found in states if not found or "did not run" in found]


def _harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
