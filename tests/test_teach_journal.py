"""The progress file: written whole, never lost, never in bulk; hints and solutions go through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mindlab as ml
from mindlab.teach.journal import Journal, journal, where


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kept" / "progress.json"
    monkeypatch.setenv("MINDLAB_PROGRESS", str(path))
    monkeypatch.delenv("MINDLAB_BULK", raising=False)
    return path


def test_hints_come_one_by_one_and_are_kept(file: Path) -> None:
    """Would catch a hint that starts anew in another notebook, or gives all at once."""
    titles = [ml.hint("01.2").title.split(": ")[1] for _ in range(4)]
    assert titles == ["the idea", "the picture", "the skeleton", "the skeleton"]
    assert json.loads(file.read_text())["exercises"]["01.2"]["hints"] == 3
    assert Journal().entry("exercises", "01.2")["hints"] == 3
    with pytest.raises(ValueError, match="1 to 3"):
        ml.hint("01.2", step=4)


def test_the_second_hint_brings_a_picture(file: Path) -> None:
    """Would catch a picture that gives the answer away at the first hint, or has no words of its own."""
    pages = [ml.hint("01.1")._repr_html_() for _ in range(3)]
    assert ["<svg" in page for page in pages] == [False, True, False]
    assert 'role="img" aria-label="' in pages[1] and "chunk 0" in pages[1]


def test_a_solution_is_folded_and_noted(file: Path) -> None:
    """Would catch a solution that jumps into view, or that nobody knows was asked for."""
    shown = ml.solution("01-b")
    assert "<details" in shown._repr_html_() and "my_all_reduce" in shown.code
    assert json.loads(file.read_text())["cases"]["01-b"]["solution"] is True
    row = next(row for row in ml.progress().rows if row["name"] == "01-b")
    assert row["solution"] and row["state"] == "not answered yet"


def test_what_passed_stays_passed(file: Path) -> None:
    """Would catch a later try that takes a success away, or a stub that counts as a try."""
    for verdict in ("not answered yet", "failed", "passed", "failed"):
        journal().tried("exercises", "01.1", verdict)
    entry = json.loads(file.read_text())["exercises"]["01.1"]
    assert (entry["tries"], entry["state"]) == (3, "passed") and "passed_on" in entry


@pytest.mark.parametrize("damage", ["{", "[]", "\x00\x01", '{"exercises": 3}'])
def test_a_damaged_file_is_kept_aside(file: Path, damage: str) -> None:
    """Would catch a learner's progress that a crash or an editor costs."""
    file.parent.mkdir(parents=True)
    file.write_text(damage)
    journal().set("exercises", "01.1", hints=1)
    assert (file.parent / "progress.json.damaged-1").read_text() == damage
    assert json.loads(file.read_text())["exercises"] == {"01.1": {"hints": 1}}
    assert "moved" in ml.progress().note


def test_a_place_that_cannot_be_written_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a lesson that ends because a disk is full or a folder is not one's own."""
    (tmp_path / "no_folder").write_text("")
    monkeypatch.setenv("MINDLAB_PROGRESS", str(tmp_path / "no_folder" / "progress.json"))
    assert ml.hint("01.1").title.startswith("Hint 1") and ml.hint("01.1").title.startswith("Hint 2")
    assert "could not be written" in ml.progress().note


@pytest.mark.parametrize("variable", ["MINDLAB_BULK", "MINDLAB_PROGRESS"])
def test_nothing_is_written_where_nothing_shall(
    file: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a class run that fills the instructor's own progress."""
    monkeypatch.setenv(variable, "1" if variable == "MINDLAB_BULK" else "off")
    ml.hint("01.1")
    journal().tried("exercises", "01.1", "passed")
    assert where() is None and not file.parent.exists()
    assert "not kept" in ml.progress().line


def test_off_in_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an opt-out that opts out of nothing."""
    ml.progress(off=True)
    ml.hint("01.1")
    assert not file.exists() and os.environ["MINDLAB_PROGRESS"] == "off"
    monkeypatch.setenv("MINDLAB_PROGRESS", str(file))


def test_two_notebooks_lose_nothing(file: Path) -> None:
    """Would catch a notebook that writes over what another one has just kept."""
    code = (
        "import sys; from mindlab.teach.journal import journal\n"
        "for i in range(20): journal().tried('exercises', sys.argv[1], 'failed')\n"
        "for i in range(20): journal().tried('exercises', 'both', 'failed')"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in ("one", "two")]
    assert [process.wait(60) for process in running] == [0, 0]
    kept = json.loads(file.read_text())["exercises"]
    assert [kept[name]["tries"] for name in ("one", "two", "both")] == [20, 20, 40]
    assert not list(file.parent.glob("*.new"))


def test_the_table_shows_all_there_is(file: Path) -> None:
    """Would catch a lesson that nobody finds in the progress."""
    journal().tried("exercises", "01.1", "passed")
    shown = ml.progress()
    names = [row["name"] for row in shown.rows]
    assert names[:3] == ["00.1", "00.2", "00"] and {"01.1", "01-a", "01-d", "01"} < set(names)
    assert repr(shown).startswith(f"Progress: 1 / {len(names)}") and str(file) in repr(shown)
    assert "✓ passed" in shown._repr_html_()
