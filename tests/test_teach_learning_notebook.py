"""Lessons in a real kernel: what a cell shows, what Run All does, what a bulk run keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import START, Notebook, text_of

from mindlab.teach.verdict import MIME

WRONG = "def keep(x):\n    return x\nfound = ml.exercise('00.1').check(keep)\nprint('went on')"
RIGHT = """
def hand_on(x):
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    return arriving

ml.exercise("00.1").check(hand_on)
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel with mindlab in it, its progress in a folder of its own."""
    file = tmp_path_factory.mktemp("learner") / "progress.json"
    first = f"import os\nos.environ['MINDLAB_PROGRESS'] = {str(file)!r}\nos.environ.pop('MINDLAB_BULK', 0)\n"
    with Notebook(first + START) as kernel:
        yield kernel
        kernel.run("ml.shutdown()")


def rows(outputs: list[dict[str, Any]]) -> list[tuple[str, bool | None]]:
    """(exercise, passed) of every check in a cell's outputs."""
    found = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    return [(row["exercise"], row["passed"]) for row in found]


def test_a_wrong_answer_shows_red_once_and_the_cell_goes_on(notebook: Notebook) -> None:
    """Would catch a learner's Run All that ends at the first wrong answer, or a box shown twice."""
    outputs = notebook.run(WRONG + "\nfound")
    assert rows(outputs) == [("00.1", False)] and "went on" in text_of(outputs)
    assert not any(output["kind"] == "error" for output in outputs)


def test_a_right_answer_shows_once(notebook: Notebook) -> None:
    """Would catch a grade that the last line of a cell shows a second time."""
    outputs = notebook.run(RIGHT)
    assert rows(outputs) == [("00.1", True)]
    assert "as good as can be" in outputs[0]["data"]["text/html"]


def test_the_learners_own_cell_is_named(notebook: Notebook) -> None:
    """Would catch a failing line that is said to stand in a file nobody wrote."""
    outputs = notebook.run(
        "def trips(x):\n    y = x + 1\n    return y[len(y)]\nml.exercise('00.1').check(trips)"
    )
    shown = text_of(outputs)
    assert "raised IndexError" in shown and "line 3, in trips" in shown and "return y[len(y)]" in shown
    assert "cell" in shown


def test_strict_and_planned_failures(notebook: Notebook) -> None:
    """Would catch a solutions edition whose wrong answer passes, or a planned one that counts."""
    outputs = notebook.run(f"os.environ['MINDLAB_STRICT'] = '1'\n{WRONG}")
    assert rows(outputs) == [("00.1", False)] and outputs[-1]["kind"] == "error"
    assert len(outputs[-1]["traceback"]) == 1 and "went on" not in text_of(outputs)
    outputs = notebook.run(
        "del os.environ['MINDLAB_STRICT']\nwith ml.expect_error(ml.CheckFailed, match='Nothing was sent'):\n"
        "    ml.exercise('00.1').check(keep)"
    )
    found = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    assert [(row["claim"], row["passed"]) for row in found] == [("this block must fail", True)]


def test_everything_shows_itself(notebook: Notebook) -> None:
    """Would catch a lesson that a notebook shows as <object at 0x…>."""
    for code in (
        "ml.exercise('01.1')",
        "ml.hint('01.1')",
        "ml.solution('01.1')",
        "ml.case('01-b')",
        "ml.case('01-c').run()",
        "ml.case('01-b').cause()",
        "ml.guess('How much?', 'MiB', ...)",
        "ml.guess('How much?', 'MiB', 3).reveal(formula=ml.volume.ring_all_reduce(2**22, 4))",
        "ml.quiz('01')",
        "ml.progress()",
    ):
        (output,) = notebook.run(code)
        assert {"text/html", "text/plain"} <= set(output["data"]), code
        assert "object at 0x" not in output["data"]["text/plain"]


def test_a_bulk_run_writes_no_progress(notebook: Notebook, tmp_path: Path) -> None:
    """Would catch an instructor's run that fills the learner's file."""
    code = (
        f"os.environ['MINDLAB_PROGRESS'] = {str(tmp_path / 'p.json')!r}\nos.environ['MINDLAB_BULK'] = '1'\n"
    )
    outputs = notebook.run(code + "ml.exercise('00.1').check(...)\nml.hint('00.1')\nml.progress().line")
    assert rows(outputs) == [("00.1", None)] and "not kept" in text_of(outputs)
    assert not list(tmp_path.iterdir())
