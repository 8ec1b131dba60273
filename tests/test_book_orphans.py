"""Real ranks of a running chapter are gone soon after their kernel, or the run, was ended from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from book_runs import Result, build, command, environment

WAITS = """
import mindlab as ml
def wait(folder):
    import os, time
    import torch.distributed as dist
    open(f"{folder}/rank.{dist.get_rank()}.{os.getpid()}", "w").close()
    print("rank", dist.get_rank(), "waits", flush=True)
    time.sleep(300)
ml.launch(wait, FOLDER, ranks=2, timeout=250)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@dataclass
class Running:
    process: subprocess.Popen[str]
    out: Path
    ranks: set[int]

    @property
    def kernel(self) -> int:
        """The process id of the kernel: it holds the mark, and was started as one."""
        found = [
            int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if self._is_kernel(path)
        ]
        assert len(found) == 1
        return found[0]

    def _is_kernel(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            folder = f"IPYTHONDIR={self.out}".encode()
            return (
                b"ipykernel_launcher" in path.read_bytes()
                and folder in path.with_name("environ").read_bytes()
            )
        return False

    def end(self) -> Result:
        """What the run says once it is over."""
        text, _ = self.process.communicate(timeout=60)
        return Result(self.process.returncode, text, self.out)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A run whose chapter holds two ranks that wait."""
    pids = tmp_path / "pids"
    pids.mkdir()
    root = build(tmp_path / "here", {"01_waits": [WAITS.replace("FOLDER", repr(str(pids)))]})
    out = tmp_path / "out"
    process = subprocess.Popen(
        command(root, out), env=environment(root), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 60
    while len(found := list(pids.glob("rank.*"))) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    ranks = {int(path.suffix[1:]) for path in found}
    assert _alive(ranks) == ranks
    yield Running(process, out, ranks)
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=30)


def _alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            found |= {pid} if state != "Z" else set()
    return found


def _gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + 15
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _alive(pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_the_run(running: Running, number: signal.Signals) -> None:
    """Catches ranks that hold cards and ports after a CI's cancel or kill -9 of the runner."""
    kernel = running.kernel
    running.process.send_signal(number)
    result = running.end()
    assert _gone(running.ranks | {kernel})
    assert result.code == (128 + number if number == signal.SIGTERM else -number)
    assert result.chapter("01_waits")["status"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_its_kernel(running: Running, number: signal.Signals) -> None:
    """Catches ranks that stay when memory runs out and the system ends the kernel, and a run that hangs."""
    os.kill(running.kernel, number)
    assert _gone(running.ranks)
    result = running.end()
    error = result.chapter("01_waits")["error"]
    assert result.code == 4 and error.startswith("code cell 2 (`import mindlab as ml`): the kernel died"), (
        error
    )
    assert f"killed by {number.name}" in error
