"""`mindlab run`: each line of its contract, on chapters made for it. They launch no ranks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import nbformat
import pytest

from mindlab import cli
from mindlab.book import builder
from mindlab.book.folder_lock import locked
from mindlab.book.leftovers import marked
from mindlab.book.report import exit_code
from mindlab.book.task import Outcome
from mindlab.errors import MindlabError

SHOW = """
from IPython.display import display
def row(claim, passed):
    data = {"claim": claim, "predicted": 1, "measured": 1.5, "unit": "B", "provenance": "counted",
            "within": 0, "passed": passed, "formula": "x"}
    display({"application/vnd.mindlab.check+json": data, "text/plain": claim}, raw=True)
"""

CHAPTERS = {
    "01_good": [
        SHOW + "row('holds', True); row('too few ranks', None)",
        "import os, sys\nprint(ranks, name, flag, sizes, maybe)",
        "print(open('data.txt').read().strip(), os.environ['MINDLAB_BULK'], sys.prefix)",
        "for i in range(50): sys.stderr.write(f'\\r{i} of 50'); sys.stderr.flush()",
    ],
    "02_check": [SHOW + "row('does not hold', False)\nraise ValueError('2 is not 3')", "x = 1"],
    "03_raises": ["print('before')", "print('rank 1 says why')\nvalues = {}\nvalues['gone']", "x = 1"],
    "04_exits": ["import sys\nsys.exit(0)", "x = 1"],
    "05_dies": ["print('last words')\nimport os; os._exit(3)", "x = 1"],
    "06_slow": ["import time\ntime.sleep(60)"],
    "07_silent": [SHOW + "row('nobody raised', False)"],
    "08_leaves": [
        "import subprocess, sys",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], start_new_session=True)",
    ],
    "09_flood": ["print('x' * 300_000)"],
    "10_skips": ["# tags: npu\nraise RuntimeError('no card')", "x = 1"],
}
PARAMETERS = (
    "ranks = 4  # how many\nname = 'a'\nflag = True\nsizes = [1]\nmaybe: str | None = 'x'\nlanguage = \"en\""
)


def source(title: str, cells: list[str]) -> str:
    parts = [f"---\ntitle: {title}\n---\n# {title}\n"]
    for tags, code in [("parameters", PARAMETERS)] + [
        ("npu" if "tags: npu" in code else "", code.strip()) for code in cells
    ]:
        parts.append("```{code-cell}\n" + (f":tags: [{tags}]\n" if tags else "") + code + "\n```\n")
    return "\n".join(parts)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "notebooks/src").mkdir(parents=True)
    for name, cells in CHAPTERS.items():
        (root / f"notebooks/src/{name}.md").write_text(source(name, cells), encoding="utf-8")
    written, found = builder.build(root)
    assert not found and len(written) == 2 * len(CHAPTERS)
    (root / "notebooks/solutions/data.txt").write_text("beside the notebook")
    return root


@dataclass
class Result:
    code: int
    text: str
    out: Path
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def chapter(self, name: str) -> dict[str, Any]:
        return next(one for one in self.report["chapters"] if one["chapter"] == name)

    def cells(self, name: str) -> list[Any]:
        notebook = nbformat.read(self.out / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        return [cell for cell in notebook.cells if cell.cell_type == "code"]


def command(root: Path, out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mindlab", "run", "--root", str(root), "--out", str(out), *arguments]


def environment(root: Path) -> dict[str, str]:
    """With a kernel named python3 that cannot run, as an old environment leaves it in a home folder."""
    spec = root / "home/kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(json.dumps({"argv": ["/bin/false"], "display_name": "old", "language": "python"}))
    return {**os.environ, "JUPYTER_PATH": str(root / "home"), "JUPYTER_DATA_DIR": str(root / "home")}


def run(root: Path, out: Path, *arguments: str) -> Result:
    began = time.monotonic()
    done = subprocess.run(
        command(root, out, *arguments),
        env=environment(root),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout + done.stderr, out, time.monotonic() - began)


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["99"], ["unknown chapter '99'", "01_good", "10_skips"]),
        (["01", "-p", "rank=8"], ["unknown parameter 'rank'", "ranks", "flag"]),
        (["01", "-p", "ranks=four"], ["ranks is of type int", "ranks=4"]),
        (["01", "-p", "sizes=(1, 2)"], ["a tuple cannot travel"]),
        (["01", "-p", "ranks"], ["-p name=value"]),
        (["01", "--jobs", "0"], ["at least 1"]),
        (["01", "--language", "zh"], ["mindlab build"]),
        (["01", "--backend", "mpi"], ["backend='mpi' is unknown", "gloo"]),
        (["01", "--backend", "hccl"], ["backend='hccl' is not usable here", "Usable: 'gloo'"]),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(
    root: Path, arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a misspelt name that silently runs with the default."""
    out = root / "refused"
    code = cli.main(["run", "--root", str(root), "--out", str(out), *arguments])
    said = capsys.readouterr().err
    assert code == 2 and not (out / "report.json").exists()
    assert all(word in said for word in words), said


def test_a_second_run_into_the_same_folder_is_refused(root: Path) -> None:
    """Catches two runs that overwrite each other's notebooks."""
    with locked(root / "busy"):
        done = run(root, root / "busy", "01")
    assert done.code == 2 and f"in use by another run (process {os.getpid()})" in done.text
    with locked(root / "busy"), pytest.raises(MindlabError), locked(root / "busy"):
        pass


@pytest.fixture
def running(root: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, set[int]]]:
    """A run whose cell sleeps, and the process ids of its worker's and kernel's processes."""
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(root, out, "06"),
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (part := list(out.glob("06_slow.part.ipynb"))) or '"running"' not in part[0].read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    yield process, out, descendants(process.pid)
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            found |= {int(folder.name)} | descendants(int(folder.name))
    return found


def alive(pids: set[int]) -> set[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return "gone"

    return {pid for pid in pids if state(pid) not in ("gone", "Z")}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_kernel_outlives_the_runner(
    running: tuple[subprocess.Popen[str], Path, set[int]], number: signal.Signals
) -> None:
    """Catches kernels (and so ranks and cards) that stay after Ctrl-C, a CI's cancel, or kill -9."""
    process, out, pids = running
    assert len(pids) >= 2
    process.send_signal(number)
    process.wait(timeout=30)
    deadline = time.monotonic() + 10
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(pids)
    report = json.loads((out / "report.json").read_text())
    assert report["chapters"][0]["status"] == "failed"
    if number == signal.SIGKILL:
        assert (out / "06_slow.part.ipynb").exists()
    else:
        assert process.returncode == 128 + number
        assert "code cell 2 (`import time`): the run was ended" in report["chapters"][0]["error"]
        assert "papermill" not in (out / "06_slow.ipynb").read_text()


def test_marked_finds_a_process_by_its_environment() -> None:
    """Catches a search that never finds anything, which would make every run look clean."""
    code = textwrap.dedent("import time; time.sleep(30)")
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "MINDLAB_RUN": "test-mark"}
    ) as child:
        try:
            assert child.pid in marked("test-mark") or not sys.platform.startswith("linux")
            assert marked("another-mark") == {}
        finally:
            child.kill()
