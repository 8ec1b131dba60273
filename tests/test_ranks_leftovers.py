"""Nothing is left behind: not by faults, not by many launches, not by a dead kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from kernels import Notebook

import mindlab as ml
from mindlab.errors import ExperimentError

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="counts by /proc (Linux)")


def descendants(pid: int) -> set[int]:
    """All living processes below `pid`, also those that lead their own session."""
    children: dict[int, set[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if words[0] != "Z":
            children.setdefault(int(words[1]), set()).add(int(stat.parent.name))
    found, open_ = set(), [pid]
    while open_:
        new = children.get(open_.pop(), set()) - found
        found |= new
        open_ += new
    return found


def listening(pids: set[int]) -> list[str]:
    """The addresses at which these processes listen, as the kernel writes them."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(fd))
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that only this test's launches use."""
    ml.shutdown()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    ml.shutdown()


def holdings(folder: Path) -> dict[str, int]:
    """What this process holds that a launch could leave behind."""
    family = descendants(os.getpid())
    return {
        "processes": len(family),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "ports": len(listening(family)),
        "temporary files": len(list(folder.iterdir())),
        "shared memory": sum(
            name.startswith(("torch", "mindlab", "psm_")) for name in os.listdir("/dev/shm")
        ),
    }


def experiment(fault: bool) -> torch.Tensor:
    """A collective and a result in shared memory; a fault in rank 1 leaves rank 0 waiting."""
    x = torch.ones(20_000) * dist.get_rank()
    if fault and dist.get_rank() == 1:
        raise RuntimeError("on purpose")
    dist.all_reduce(x)
    return x


def test_two_hundred_launches_with_a_fault_in_every_tenth(folder: Path) -> None:
    """Would catch a process, descriptor, port or file that each launch or each fault leaves."""

    def once(number: int) -> None:
        with contextlib.suppress(ExperimentError):
            ml.launch(experiment, number % 10 == 9, ranks=2)

    once(9), once(0)
    before = holdings(folder)
    for number in range(200):
        once(number)
    once(0)
    assert holdings(folder) == before


def test_shutdown_ends_everything_and_the_next_launch_works(folder: Path) -> None:
    """Would catch a process or folder that outlives shutdown()."""
    ml.launch(experiment, False, ranks=2)
    mine = set(descendants(os.getpid()))
    ml.shutdown()
    assert not {pid for pid in mine if pid in descendants(os.getpid())}
    assert not list(folder.iterdir())
    assert ml.launch(lambda: 1, ranks=2).values == [1, 1]


def gone(pids: set[int], seconds: float) -> bool:
    """Whether all of `pids` are gone within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_a_killed_kernel_leaves_no_rank() -> None:
    """Would catch ranks, even busy ones that never look up, which live on after their notebook."""
    with Notebook() as notebook:
        notebook.send("ml.launch(lambda: exec('while True: pass'), ranks=2, timeout=600)")
        deadline = time.monotonic() + 30
        while len(descendants(notebook.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        ours = descendants(notebook.pid)
        assert len(ours) >= 3, "the ranks did not start"
        os.kill(notebook.pid, signal.SIGKILL)
        assert gone(ours, 5), "a rank survived its kernel for 5 seconds"


def test_nothing_listens_beyond_loopback() -> None:
    """Would catch a control or rendezvous port that another host could reach."""

    ml.launch(dist.barrier, ranks=2)
    ours = descendants(os.getpid())
    assert len(ours) >= 3
    assert all(address.startswith("0100007F:") for address in listening(ours)), listening(ours)
    assert listening({os.getpid()}) == [], "the notebook's own process listens"


def test_the_private_folder_is_closed_to_others(folder: Path) -> None:
    """Would catch a rendezvous that another user of the host could join."""
    ml.launch(lambda: None, ranks=2)
    folders = list(folder.iterdir())
    assert folders and all(path.stat().st_mode & 0o077 == 0 for path in folders)
