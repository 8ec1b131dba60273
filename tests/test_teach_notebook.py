"""Verdicts in a real kernel: shown once, wherever they stand in a cell, and in the notebook's data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Notebook

from mindlab.teach.verdict import MIME


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    """A kernel with mindlab in it."""
    with Notebook("import mindlab as ml") as kernel:
        yield kernel


def rows(outputs: list[dict[str, Any]]) -> list[tuple[str, bool | None]]:
    """(claim, passed) of every verdict in a cell's outputs."""
    found = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    return [(row["claim"], row["passed"]) for row in found]


def test_shown_once_as_the_last_line(notebook: Notebook) -> None:
    """Would catch a verdict that IPython shows a second time."""
    outputs = notebook.run("ml.check('last', 3, 3)")
    assert rows(outputs) == [("last", True)] and len(outputs) == 1
    assert {"text/html", "text/plain", "text/markdown"} < set(outputs[0]["data"])


def test_shown_in_the_middle_of_a_cell(notebook: Notebook) -> None:
    """Would catch a verdict that is lost because it is not the last line."""
    outputs = notebook.run("for i in range(3):\n    ml.check(f'claim {i}', i, i)\nx = 1")
    assert rows(outputs) == [("claim 0", True), ("claim 1", True), ("claim 2", True)]


def test_shown_before_it_raises(notebook: Notebook) -> None:
    """Would catch a failed check that leaves no row, or the kernel's own frames, in the notebook."""
    outputs = notebook.run("ml.check('wrong', 3, 4)")
    assert rows(outputs) == [("wrong", False)]
    error = outputs[-1]
    assert error["kind"] == "error" and error["ename"] == "CheckFailed"
    assert "1.333 times the predicted 3" in "\n".join(error["traceback"]) and len(error["traceback"]) == 1


def test_shown_again_in_a_later_cell(notebook: Notebook) -> None:
    """Would catch a verdict that can be seen only once."""
    assert rows(notebook.run("kept = ml.check('kept', 3, 3)")) == [("kept", True)]
    assert rows(notebook.run("kept")) == [("kept", True)]


def test_a_mistake_on_purpose(notebook: Notebook) -> None:
    """Would catch a planned failure that counts against the chapter."""
    outputs = notebook.run(
        "with ml.expect_error(ml.CheckFailed, match='times'):\n    ml.check('wrong', 3, 4)"
    )
    assert rows(outputs) == [("this block must fail", True)]
    assert "failed, as meant" in outputs[0]["data"]["text/html"]
    assert not any(output["kind"] == "error" for output in outputs)


def test_a_block_that_should_have_failed(notebook: Notebook) -> None:
    """Would catch a planned failure that did not come, and passes."""
    outputs = notebook.run("with ml.expect_error(ValueError):\n    pass")
    assert rows(outputs) == [("this block must fail", False)] and outputs[-1]["kind"] == "error"


def test_an_error_of_the_ranks(notebook: Notebook) -> None:
    """Would catch an expected error of a launch that shows its traceback, or ends the cell."""
    code = (
        "def broken():\n    raise ValueError('too small')\n"
        "with ml.expect_error(ml.MindlabError, match='too small'):\n    ml.launch(broken, ranks=2)\n"
        "print('went on')\nml.shutdown()"
    )
    outputs = notebook.run(code)
    assert rows(outputs) == [("this block must fail", True)]
    assert any(output.get("text", "").startswith("went on") for output in outputs)


def test_quantities_show_their_formula(notebook: Notebook) -> None:
    """Would catch a formula that a notebook cannot typeset."""
    (output,) = notebook.run("ml.volume.ring_all_reduce(4096, 4)")
    assert {"text/html", "text/latex", "text/plain"} <= set(output["data"])
    assert output["data"]["text/latex"].startswith("$")
