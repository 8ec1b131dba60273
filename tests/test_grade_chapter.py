"""`mindlab grade` on what the book itself hands out: chapter 00, as a learner gets it and as it is solved."""

from __future__ import annotations

import shutil
from pathlib import Path

from grade_submissions import ROOT, grade


def test_an_open_edition_is_open_and_a_solved_one_passes(tmp_path: Path) -> None:
    """Catches a chapter whose answers are not found by name, a stub that counts as wrong, and a solution that
    only passes with the seed of its notebook."""
    for learner, place in (("open", "notebooks"), ("solved", "notebooks/solutions")):
        (tmp_path / "class" / learner).mkdir(parents=True)
        shutil.copy(ROOT / place / "00_start_here.ipynb", tmp_path / "class" / learner)
    done = grade(tmp_path / "class", tmp_path / "out", "--jobs", "2")
    assert done.code == 0, done.text
    assert set(done.states("open").values()) == {"not answered"}
    assert set(done.states("solved").values()) == {"passed"}
    assert len(done.states("solved")) == len(done.states("open")) == 2
    (first, second) = (row["graded"] for row in done.one("solved")["rows"])
    assert first["seed"] == second["seed"] == done.data["seed"] and first["code"] != second["code"]
    assert done.notes("solved") == "" and done.notes("open") == ""
