"""`mindlab run` where other runners say success, lose text or stop: cases that users of notebooks report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from book_runs import Result, build, edit, run

from mindlab import cli

LAUNCHES = """
import mindlab as ml
def speak():
    import os
    for line in range(5):
        os.write(1, f"line {line} begins, ".encode())
        print("and ends")
    return 7
spoken = ml.launch(speak, ranks=3)
spoken.values
"""

CHAPTERS = {
    "01_ranks": [LAUNCHES],
    "02_shell": ["shell = 1", "print('goes on')"],
    "03_shell_output": ["shell = 1", "print('goes on')"],
    "04_flood": ["print('first'); print('x' * 3_000_000); print('last')"],
    "05_strict": ["import os\nprint('strict:', os.environ['MINDLAB_STRICT'])"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chapters whose notebooks somebody changed by hand: the builder refuses `!`, a run must cope with it."""
    root = build(tmp_path_factory.mktemp("project") / "here", CHAPTERS)
    edit(root, "02_shell", _first_cell("!exit 3"))
    edit(root, "03_shell_output", _first_cell("said = !cat /nowhere/at/all"))
    edit(root, "01_ranks", lambda notebook: notebook["metadata"].update(FOREIGN))
    return root


FOREIGN = {"kernelspec": {"name": "conda-env-mindlab-py", "display_name": "mine", "language": "python"}}


def _first_cell(code: str) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code_cells[1]["source"] = code

    return change


@pytest.fixture(scope="module")
def everything(root: Path) -> Result:
    return run(root, root / "build/run")


def _printed(result: Result, name: str) -> str:
    return "".join(o.text for c in result.cells(name) for o in c.outputs if o.output_type == "stream")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("02_shell", ["code cell 2 (`!exit 3`)", "CalledProcessError", "exit status 3"]),
        ("03_shell_output", ["code cell 2 (`said = !cat /nowhere/at/all`)", "CalledProcessError"]),
    ],
)
def test_a_shell_command_that_fails_fails_the_chapter(
    everything: Result, name: str, words: list[str]
) -> None:
    """Catches `!false`, which IPython lets pass: the chapter goes on and the run says 0."""
    chapter = everything.chapter(name)
    assert chapter["status"] == "failed" and all(word in chapter["error"] for word in words), chapter
    assert "goes on" not in _printed(everything, name) and everything.code == 1


def test_the_text_of_ranks_stays_whole(everything: Result) -> None:
    """Catches "rankrank 01", which is what two processes leave that print into one cell."""
    lines = _printed(everything, "01_ranks").splitlines()
    wanted = {f"[rank {rank}] line {line} begins, and ends" for rank in range(3) for line in range(5)}
    assert set(lines) == wanted and len(lines) == 15
    assert everything.chapter("01_ranks")["status"] == "passed"


def test_a_foreign_kernel_name_is_not_looked_for(everything: Result) -> None:
    """Catches NoSuchKernel: the name of the environment in which somebody saved the notebook."""
    saved = json.loads((everything.out / "01_ranks.ipynb").read_text(encoding="utf-8"))
    assert saved["metadata"]["kernelspec"]["name"] == "python3"


def test_a_flood_is_cut_in_the_middle(everything: Result) -> None:
    """Catches a notebook of megabytes, and a cut that takes the last words, where the reason stands."""
    text = _printed(everything, "04_flood")
    assert text.startswith("first\n") and text.endswith("last\n")
    assert "characters left out" in text and len(text) < 210_000
    assert "code cell 2 (`print('first')" in everything.chapter("04_flood")["error"]
    assert "prints 3,000 kB; the limit is 200 kB" in everything.chapter("04_flood")["error"]


def test_solutions_run_strict_and_exercises_do_not(everything: Result, root: Path) -> None:
    """Catches a wrong solution that is a red box only, and a learner's edition that stops at the first."""
    assert _printed(everything, "05_strict") == "strict: 1\n"
    open_edition = run(root, root / "open", "05", "--edition", "exercises")
    assert open_edition.code == 0 and _printed(open_edition, "05_strict") == "strict: 0\n"


def test_a_second_run_with_ranks_differs_by_nothing(everything: Result, root: Path) -> None:
    """Catches process ids, ports, times or the order of ranks in what a run leaves."""
    again = run(root, root / "again", "01")
    first, second = ((one.out / "01_ranks.ipynb").read_bytes() for one in (everything, again))
    assert first == second


@pytest.mark.parametrize("count", [0, 2])
def test_untagged_parameters_are_refused(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches values that go in front of the defaults, which then overwrite them, with exit code 0."""
    root = build(tmp_path / "here", {"01_ranks": ["x = 1"]})

    def change(notebook: Any) -> None:
        code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for cell in code_cells:
            cell["metadata"]["tags"] = ["parameters"] if count else []

    edit(root, "01_ranks", change)
    code = cli.main(["run", "--root", str(root), "--out", str(tmp_path / "out"), "-p", "ranks=3"])
    assert code == 2 and f"{count} cells have the tag parameters" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_kernel_needs_no_kernel_that_is_installed(everything: Result) -> None:
    """Catches a run in another environment than the one that was asked (see `environment` in book_runs)."""
    assert everything.report["versions"]["python"] == sys.version.split()[0]
