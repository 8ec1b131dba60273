"""`mindlab run`: each line of its contract, on chapters made for it. They launch no ranks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from book_runs import CHAPTERS, Result, make_project, run

from mindlab.book.report import exit_code
from mindlab.book.task import Outcome


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project") / "here")


@pytest.fixture(scope="module")
def everything(root: Path) -> Result:
    """All chapters, two at a time; most of them fail, each in its own way."""
    return run(root, root / "build/run", "--jobs", "2", "--cell-timeout", "3")


@pytest.fixture(scope="module")
def good(root: Path) -> Result:
    """One chapter with every kind of parameter."""
    given = ["ranks=8", "name=007", "flag=false", "sizes=[2, 3]", "maybe=None"]
    return run(root, root / "good", "1", *(part for text in given for part in ("-p", text)))


def test_a_failed_chapter_does_not_stop_the_others(everything: Result) -> None:
    """Catches a run that ends with its first failure, or a report that lacks chapters."""
    assert [one["chapter"] for one in everything.report["chapters"]] == list(CHAPTERS)
    passed = [one["chapter"] for one in everything.report["chapters"] if one["status"] == "passed"]
    assert passed == ["01_good", "10_skips"]


def test_the_report_has_the_promised_form(everything: Result) -> None:
    """Catches a key that a reader of report.json relies on."""
    report = everything.report
    assert {"versions", "backend", "ranks", "chapters"} <= set(report)
    assert report["ranks"] == 4 and report["backend"] == "gloo" and "python" in report["versions"]
    keys = {"chapter", "language", "edition", "status", "seconds", "error", "checks"}
    assert all(set(one) == keys for one in report["chapters"])
    good = everything.chapter("01_good")
    assert (good["language"], good["edition"], good["error"]) == ("en", "solutions", None)
    assert good["checks"][0] == {
        "claim": "holds",
        "predicted": 1,
        "measured": 1.5,
        "unit": "B",
        "provenance": "counted",
        "within": 0,
        "passed": True,
        "verdict": None,
    }
    assert good["checks"][1]["passed"] is None


@pytest.mark.parametrize(
    ("chapter", "words"),
    [
        ("02_check", ["code cell 2", "ValueError: 2 is not 3"]),
        ("03_raises", ["code cell 3", "print('rank 1 says why')", "KeyError: 'gone'", "rank 1 says why"]),
        ("04_exits", ["code cell 2", "import sys", "SystemExit: 0"]),
        ("05_dies", ["code cell 2", "print('last words')", "the kernel died", "exit code 3", "last words"]),
        ("06_slow", ["code cell 2", "import time", "longer than 3 s"]),
        ("07_silent", ["the check failed: nobody raised"]),
        ("08_leaves", ["left a process behind", "time.sleep(99)"]),
        ("09_flood", ["code cell 2", "prints 300 kB"]),
    ],
)
def test_each_failure_is_named(everything: Result, chapter: str, words: list[str]) -> None:
    """Catches failures that papermill lets pass, and reports that do not say where and why."""
    one = everything.chapter(chapter)
    assert one["status"] == "failed"
    assert all(word in one["error"] for word in words), one["error"]


def test_half_done_notebooks_stay(everything: Result) -> None:
    """Catches a lost notebook: what ran before the failure must be there, and what did not must say so."""
    for name in ("03_raises", "05_dies"):
        cells = everything.cells(name)
        assert cells[0].execution_count == 1 and cells[-1].execution_count is None
    errors = [o.ename for c in everything.cells("05_dies") for o in c.outputs if o.output_type == "error"]
    assert errors == ["RunEnded"]
    assert not list(everything.out.glob("*.part.ipynb")) and not list(everything.out.glob("*.tmp"))


def test_a_process_left_behind_is_ended(everything: Result) -> None:
    """Catches a forgotten process that holds a card until somebody notices."""
    pid = int(re.search(r"left a process behind: (\d+)", everything.chapter("08_leaves")["error"])[1])
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        ([], 0),
        (["passed"], 0),
        (["passed", "failed"], 1),
        (["failed", "timeout"], 3),
        (["died", "timeout", "passed"], 4),
    ],
)
def test_exit_codes_say_what_kind_of_failure(endings: list[str], code: int) -> None:
    """Catches 0 for a failure, and a dead kernel or a deadline that looks like a wrong answer."""
    assert exit_code(Outcome("c", ending, 1.0) for ending in endings) == code


def test_a_run_ends_with_its_exit_code(everything: Result, good: Result) -> None:
    """Catches a command line that drops the code."""
    assert (everything.code, good.code) == (4, 0)


def test_cells_for_cards_are_skipped_without_a_card(everything: Result) -> None:
    """Catches a chapter that fails on a laptop because one cell needs an NPU."""
    assert everything.chapter("10_skips")["status"] == "passed"
    assert everything.cells("10_skips")[1].execution_count is None


def test_parameters_arrive_with_their_types(good: Result) -> None:
    """Catches 'false' that is true, 007 that becomes 7, a list that becomes text."""
    assert good.code == 0, good.text
    text = "".join(o.text for c in good.cells("01_good") for o in c.outputs if o.output_type == "stream")
    assert "8 007 False [2, 3] None" in text
    assert good.report["ranks"] == 8


def test_the_kernel_is_this_python_in_the_notebooks_folder(good: Result) -> None:
    """Catches the kernel of another environment, files looked for in the wrong folder, live progress."""
    text = "".join(o.text for c in good.cells("01_good") for o in c.outputs if o.output_type == "stream")
    assert f"beside the notebook 1 {sys.prefix}" in text


def test_progress_bars_leave_their_last_state(good: Result) -> None:
    """Catches fifty outputs of one bar, and a line that keeps every state it had."""
    outputs = good.cells("01_good")[-1].outputs
    assert [output.text for output in outputs] == ["49 of 50"]


def test_two_equal_runs_give_equal_notebooks(good: Result, root: Path) -> None:
    """Catches times, random ids and versions in what a run leaves."""
    given = ["ranks=8", "name=007", "flag=false", "sizes=[2, 3]", "maybe=None"]
    again = run(root, root / "again", "01_good", *(part for text in given for part in ("-p", text)))
    first, second = ((one.out / "01_good.ipynb").read_text(encoding="utf-8") for one in (good, again))
    assert first == second
    assert "papermill" not in first.replace("injected-parameters", "") and '"version"' not in first


def test_progress_is_one_line_a_chapter(everything: Result) -> None:
    """Catches silence, control characters in a log, and a chapter without its result."""
    assert "\x1b" not in everything.text and "\r" not in everything.text
    assert re.search(r"^01_good: passed in [\d.]+ s; checks: 1 passed, 1 not checked$", everything.text, re.M)
    assert re.search(r"^05_dies: DIED in ", everything.text, re.M)
    assert "2 of 10 chapters passed" in everything.text


def test_junit_counts_as_the_report_does(everything: Result) -> None:
    """Catches a CI that shows green for a failed chapter."""
    suites = {s.get("name"): s for s in ET.parse(everything.out / "junit.xml").getroot()}
    assert set(suites) == set(CHAPTERS)
    assert suites["01_good"].get("failures") == "0" and suites["01_good"].get("skipped") == "1"
    assert suites["02_check"].get("failures") == "2" and len(suites["02_check"]) == 2


def test_the_report_page_stands_alone_and_says_the_worst_first(everything: Result) -> None:
    """Catches a page that needs the network or hides a failure below the fold."""
    text = (everything.out / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text) and "<link" not in text
    assert text.index("8 of 10 chapters failed") < text.index("01_good")
    assert "values[&#x27;gone&#x27;]" not in text and "KeyError: &#x27;gone&#x27;" in text
