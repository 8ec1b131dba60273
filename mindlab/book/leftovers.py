"""Processes that a chapter left behind, known by a mark in their environment.

Linux only: elsewhere none is seen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

VARIABLE = "MINDLAB_RUN"
GRACE_SECONDS = 5.0
"""Ranks end when they notice that their kernel is gone; only what stays longer was forgotten."""


def marked(mark: str, proc: Path = Path("/proc")) -> dict[int, str]:
    """The running processes that were started with the mark: command line by process id."""
    wanted = f"{VARIABLE}={mark}".encode()
    found: dict[int, str] = {}
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and not _is_zombie(folder):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = " ".join(words.split())[:120]
    return found


def end_marked(mark: str, grace: float = GRACE_SECONDS) -> list[str]:
    """Ends what still carries the mark after the grace; returns one line for each."""
    deadline = time.monotonic() + grace
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"{pid} ({words})" for pid, words in sorted(left.items())]


def _is_zombie(folder: Path) -> bool:
    return "\nState:\tZ" in (folder / "status").read_text()
