"""`mindlab grade` on a whole class: every way to mangle a notebook, in one grading."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import time
from pathlib import Path

import pytest
from grade_submissions import FILES, Grades, grade, make


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("class") / "handed in")


@pytest.fixture(scope="module")
def hashes(folder: Path) -> dict[str, str]:
    return _hashes(folder)


@pytest.fixture(scope="module")
def grades(folder: Path, hashes: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Grades:
    """The class, graded once."""
    out = tmp_path_factory.mktemp("grades") / "out"
    return grade(folder, out, "--jobs", "2", "--cell-deadline", "7", "--chapter", "00", "--seed", "7")


def _hashes(folder: Path) -> dict[str, str]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_nothing_that_was_handed_in_is_lost(grades: Grades) -> None:
    """Catches a submission that vanishes from the tables because it could not be run."""
    keys = {name for name in FILES if name.endswith(".ipynb") and not name.startswith(".")} | {"su.ipynb"}
    assert {one["key"] for one in grades.data["submissions"]} == keys, grades.text
    assert all(len(one["rows"]) == 2 for one in grades.data["submissions"])


def test_what_was_handed_in_stays_as_it_was(grades: Grades, folder: Path, hashes: dict[str, str]) -> None:
    """Catches outputs, checkpoints or caches written beside a learner's notebook."""
    assert _hashes(folder) == hashes


@pytest.mark.parametrize(
    ("learner", "first", "second"),
    [
        ("ada", "passed", "passed"),
        ("bo", "passed", "failed"),
        ("cy", "passed", "not found"),
        ("di", "not answered", "not found"),
        ("ed", "not answered", "passed"),
        ("fa", "not answered", "not answered"),
        ("gu", "not answered", "not answered"),
        ("he", "failed", "failed"),
        ("io", "passed", "failed"),
        ("jo", "failed", "failed"),
        ("ki", "not answered", "not found"),
        ("lu", "passed", "not found"),
        ("mo", "did not run", "did not run"),
        ("na", "did not run", "did not run"),
        ("ob", "did not run", "did not run"),
        ("pa", "not found", "not found"),
        ("qi", "not answered", "not found"),
        ("ru", "not answered", "not found"),
        ("su", "did not run", "did not run"),
    ],
)
def test_each_answer_gets_its_own_state(grades: Grades, learner: str, first: str, second: str) -> None:
    """Catches points for forged outputs or a patched check, and answers lost to a copied, moved, endless,
    raising or deadly cell."""
    assert grades.states(learner) == {"00.1": first, "00.2": second}, grades.one(learner)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        ("di", "code cell 1 (`def hand_on(x: torch.Tensor):`): stands before what it needs"),
        ("fa", "code cell 2 (`while True: pass`): interrupted after 7 s"),
        ("fa", "code cell 4 (`import time`): did not stop when it was interrupted"),
        (
            "gu",
            "code cell 4 (`import os; os._exit(7)`): ended its kernel (exit code 7); executed again without",
        ),
        ("ki", "left a process behind"),
        ("mo", "the file is empty"),
        ("na", "not a notebook: no JSON"),
        ("ob", "not a notebook: it has no cells"),
        ("qi", "the file was utf-16"),
        ("ru", "1 characters were replaced"),
        ("su", "150 MB; at most 100 MB"),
    ],
)
def test_what_was_odd_is_noted(grades: Grades, learner: str, words: str) -> None:
    """Catches an instructor who must guess why somebody has no marks."""
    assert words in grades.notes(learner)


def test_a_failed_answer_has_its_sentence(grades: Grades) -> None:
    """Catches a bare "failed", which teaches nobody."""
    assert "the part of rank 3 where the part of rank 1 belongs" in grades.says("bo", "00.2")
    assert grades.says("he", "00.1") == "This is no function, but int 5."
    assert "the part of rank 3 where" in grades.says("he", "00.2")
    assert "Refused: builtins.exec" in str(grades.one("jo")["rows"][0])


def test_the_exit_code_says_that_some_could_not_be_run(grades: Grades) -> None:
    """Catches 0 for a class of which four files were never read."""
    assert grades.code == 1
    assert "15 of 19 submissions graded" in grades.text
    assert re.search(r"^could not be run: na\.ipynb: not a notebook", grades.text, re.M)


def test_one_line_a_learner_in_the_table(grades: Grades) -> None:
    """Catches a learner twice, a column that moves, and a file that Excel reads as Latin-1."""
    text = (grades.out / "grades.csv").read_text(encoding="utf-8")
    assert text.startswith("\ufeff")
    lines = {line["learner"]: line for line in csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))}
    assert len(lines) == 19 and set(lines["bo"]) >= {"passed", "asked", "00.1", "00.2 says", "notes"}
    assert (lines["bo"]["passed"], lines["bo"]["asked"], lines["bo"]["00.2"]) == ("1", "2", "failed")


def test_the_page_stands_alone(grades: Grades) -> None:
    """Catches a page that needs the network, lacks a learner, or shows what a learner wrote as HTML."""
    text = (grades.out / "grades.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text) and "<link" not in text
    assert "15 of 19 submissions graded, 19 learners; 4 could not be run" in text
    assert all(f">{one['learner']}</a>" in text for one in grades.data["submissions"])
    assert 'id="of-lu/final%20%282%29.ipynb"' in text


def test_executed_notebooks_are_kept_and_small(grades: Grades) -> None:
    """Catches a flood of output that fills the disk, and a lost trace of what ran."""
    executed = {one["key"]: one["executed"] for one in grades.data["submissions"] if one["executed"]}
    assert len(executed) == 15 and all((grades.out / path).is_file() for path in executed.values())
    flood = (grades.out / executed["gu.ipynb"]).read_text(encoding="utf-8")
    assert "1,800,001 characters left out" in flood and len(flood) < 300_000


def test_no_process_of_a_learner_stays(grades: Grades) -> None:
    """Catches ranks and children that hold memory and cards after the grading."""
    deadline = time.monotonic() + 10  # ranks go a moment after what started them
    while (left := grades.processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
