"""`mindlab grade`: what it refuses, what it keeps from before, and what is left when it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from grade_submissions import MARK, ROOT, START, STUB_1, STUB_2, Grades, command, grade, notebook

from mindlab import cli
from mindlab.book.grading import asked, submissions, table
from mindlab.book.grading.submissions import find, read
from mindlab.errors import MindlabError
from mindlab.teach import registry

KNOWN = asked.chapters(ROOT)
OPEN = notebook(START, STUB_1, STUB_2)


def _class(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{empty}", "--out", "{out}"], "holds no notebook"),
        (["{class}/nowhere", "--out", "{out}"], "is not a folder"),
        (["{class}", "--out", "{class}/out"], "stays as it is"),
        (["{class}", "--out", "{class}"], "stays as it is"),
        (["{class}", "--out", "{out}", "--chapter", "77"], "unknown chapter with exercises '77'"),
        (["{class}", "--out", "{out}", "--jobs", "0"], "at least 1"),
        (["{class}", "--out", "{out}", "--seed", "-1"], "a whole number from 0"),
        (["{class}", "--out", "{out}", "--backend", "mpi"], "backend='mpi' is unknown"),
        (["{class}", "--out", "{out}", "--deadline", "0"], "--deadline 0"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a misspelt option by which a whole class is graded for nothing, or written over."""
    places = {"class": _class(tmp_path / "class", {"a.ipynb": OPEN}), "out": tmp_path / "out"}
    places["empty"] = tmp_path / "empty"
    places["empty"].mkdir()
    code = cli.main(["grade", *(word.format(**places) for word in arguments), "--root", str(ROOT)])
    assert code == 2 and words in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and not (tmp_path / "class/out").exists()


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("ada.ipynb", "ada"),
        ("ada_00_start_here.ipynb", "ada"),
        ("00_start_here - Ada Lovelace.ipynb", "Ada Lovelace"),
        ("00_start_here.ipynb", "00_start_here"),
        ("Lovelace Ada_1815_file/00_start_here.ipynb", "Lovelace Ada_1815_file"),
        ("ada/week 1/x.ipynb", "ada"),
        ("\u963f\u8fbe.ipynb", "\u963f\u8fbe"),
    ],
)
def test_the_learners_name_comes_from_the_path(name: str, learner: str, tmp_path: Path) -> None:
    """Catches a class in which everybody is called 00_start_here."""
    _class(tmp_path, {name: OPEN})
    assert [one.learner for one in find(tmp_path, [chapter.name for chapter in KNOWN])] == [learner]


@pytest.mark.parametrize(
    ("text", "default", "chapter"),
    [
        (notebook(chapter="01_collectives"), None, "01_collectives"),
        (notebook(chapter="99_other"), "00", "00_start_here"),
        (notebook('ml.exercise("01.2").check(f)', chapter=None), None, "01_collectives"),
        (notebook("def swap(x):\n    return x", chapter=None), None, "00_start_here"),
        (notebook("x = 1", chapter=None), None, None),
    ],
)
def test_a_notebook_finds_its_chapter(
    text: str, default: str | None, chapter: str | None, tmp_path: Path
) -> None:
    """Catches a renamed notebook that is graded by another chapter's checks, or not at all."""
    path = _class(tmp_path, {"x.ipynb": text}) / "x.ipynb"
    found = asked.belongs(read(path)[0], KNOWN, asked.choose(KNOWN, default) if default else None)
    assert (found.name if found else None) == chapter


def test_every_exercise_knows_the_name_of_its_answer() -> None:
    """Catches a chapter whose cells call the answer otherwise than the grading looks for it, and a case file
    that nobody grades because its notebook keeps it in a variable."""
    names = {one.exercise: one.function for chapter in KNOWN for one in chapter.asked}
    assert names["00.2"] == "swap" and names["01.1"] == "my_reduce_scatter"
    assert names["01-a"] == "ring_with_few_bytes" and len(set(names.values())) == len(names)
    wanted = {one.name for one in (*registry.exercises(), *registry.cases())}
    assert set(names) == wanted


def test_answers_are_found_where_a_task_has_a_variable() -> None:
    """Catches a case file whose answer is looked for under the name of the one before."""
    cells = [
        'case = ml.case("01-a")\ncase',
        "%time\ncase.check(first)",
        'case = ml.case("01-b"); other = 3',
        "x = case.check(second)\nother.check(third)\ncase.cause(letter)",
        'if True:\n    exercise("01.2").check(fourth, seed=2)',
    ]
    assert list(asked.answers_in(cells)) == [("01-a", "first"), ("01-b", "second"), ("01.2", "fourth")]


def test_notebooks_of_old_and_odd_formats_are_read(tmp_path: Path) -> None:
    """Catches a reader that gives up where only metadata is strange."""
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "input": "x = 1",
                        "language": "python",
                        "outputs": [],
                        "metadata": {},
                    }
                ]
            }
        ],
    }
    odd = {
        "cells": [{"cell_type": "code", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "heading"}, 7, None]
    }
    files = {"old.ipynb": json.dumps(old), "odd.ipynb": json.dumps(odd), "bom.ipynb": "\ufeff" + OPEN}
    _class(tmp_path, files)
    assert [cell.source for cell in read(tmp_path / "old.ipynb")[0].cells] == ["x = 1"]
    assert [cell.source for cell in read(tmp_path / "odd.ipynb")[0].cells] == ["a = 1\nb = 2"]
    assert len(read(tmp_path / "bom.ipynb")[0].cells) == 3
    _class(tmp_path, {"deep.ipynb": "[" * 200_000})
    with pytest.raises(submissions.Unreadable, match="not a notebook"):
        read(tmp_path / "deep.ipynb")


def test_the_best_of_several_notebooks_counts_and_no_cell_is_a_formula() -> None:
    """Catches a learner who loses a point by handing in twice, and a name that a spreadsheet executes."""

    def handed(key: str, *states: str) -> dict[str, Any]:
        rows = [{"exercise": f"00.{k}", "state": state, "says": ""} for k, state in enumerate(states, 1)]
        return {"key": key, "learner": "=1+1", "notes": [], "rows": rows}

    text = table.as_csv([handed("a", "passed", "not found"), handed("b", "failed", "not answered")])
    assert text.splitlines()[1].startswith("'=1+1,1,2,passed,not answered")


def test_a_grading_that_was_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    """Catches marks that are lost with Ctrl-C, ranks and kernels that stay, and work that is done twice."""
    slow = notebook("import time; time.sleep(600)")
    folder, out = _class(tmp_path / "class", {"a.ipynb": OPEN, "b.ipynb": slow}), tmp_path / "out"
    begun = subprocess.Popen(
        command(folder, out), env={**os.environ, MARK: str(out)}, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 90
    while not (out / "executed/a.ipynb").exists() or not _says(out / "grades.json", '"not answered"'):
        assert time.monotonic() < deadline and begun.poll() is None
        time.sleep(0.1)
    begun.send_signal(signal.SIGINT)
    assert "the same command goes on" in begun.communicate(timeout=60)[1]
    assert begun.returncode == 130
    ended = Grades(130, "", out)
    assert ended.states("a") == {"00.1": "not answered", "00.2": "not answered"}
    assert ended.notes("b") == "not graded yet"
    assert _gone(ended)
    seed = ended.data["seed"]

    (folder / "b.ipynb").write_text(OPEN, encoding="utf-8")
    again = grade(folder, out)
    assert (
        again.code == 0
        and "1 graded before and unchanged: kept" in again.text
        and "a.ipynb:" not in again.text
    )
    assert again.states("b") == {"00.1": "not answered", "00.2": "not answered"}
    assert again.data["seed"] == seed


def _says(path: Path, words: str) -> bool:
    return path.exists() and words in path.read_text(encoding="utf-8")


def _gone(grades: Grades) -> bool:
    deadline = time.monotonic() + 15
    while grades.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not grades.processes()


def test_a_notebook_of_another_chapter_is_left_out_and_named(tmp_path: Path) -> None:
    """Catches zero points for somebody who handed in the right notebook of the wrong week."""
    folder = _class(tmp_path / "class", {"a.ipynb": notebook(chapter="01_collectives")})
    done = grade(folder, tmp_path / "out", "--chapter", "00")
    assert done.code == 0 and "left out: a.ipynb belongs to 01_collectives, not to 00_start_here" in done.text
    assert done.data["left_out"] and not done.data["submissions"]


def test_a_folder_has_one_grading_at_a_time(tmp_path: Path) -> None:
    """Catches two gradings that write over each other's tables."""
    from mindlab.book.folder_lock import locked

    folder = _class(tmp_path / "class", {"a.ipynb": OPEN})
    with locked(tmp_path / "out"), pytest.raises(MindlabError, match="in use"):
        from mindlab.book import grading

        grading.grade(ROOT, grading.Wanted(folder=folder, out=tmp_path / "out"))
