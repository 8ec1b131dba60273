"""`mindlab run`: what it refuses, and what is left when it is ended from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from book_runs import command, environment, make_project, run

from mindlab import cli
from mindlab.book.folder_lock import locked
from mindlab.book.leftovers import marked
from mindlab.errors import MindlabError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project") / "here")


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
    while not sleeping(out / "06_slow.part.ipynb"):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    yield process, out, descendants(process.pid)
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def sleeping(part: Path) -> bool:
    """Whether the notebook stands in the cell that sleeps; while it is being written it cannot be read."""
    try:
        cells = json.loads(part.read_text())["cells"]
    except (OSError, ValueError):
        return False
    states = [cell["metadata"].get("papermill", {}).get("status") for cell in cells]
    return any(
        state == "running" and "import time" in "".join(cell["source"])
        for cell, state in zip(cells, states, strict=True)
    )


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
