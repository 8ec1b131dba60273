"""The notebook's end of the line to the parent of all ranks."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from mindlab.errors import MindlabError
from mindlab.ranks import interrupts
from mindlab.ranks.channel import Channel, Closed
from mindlab.ranks.parent import CODE, Exit, Start

_PATIENCE = 120.0  # seconds that the parent may take to import torch on a cold disk


class Supervisor:
    """The running parent: `start` a pool's ranks, `end` them, hear of their ends."""

    def __init__(self) -> None:
        self.channel, theirs = Channel.pair(patience=_PATIENCE)
        root = str(Path(__file__).resolve().parents[2])
        code = CODE.format(root=root, module="parent", argument=theirs.fileno())
        self.words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stderr=self.words,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # an interrupt of the notebook must not reach it
        )
        theirs.close()
        self.exits: dict[int, int] = {}
        self.preloaded = False

    def preload(self) -> None:
        """Ask the parent to import torch; returns at once."""
        if not self.preloaded:
            self.channel.send("preload")
            self.preloaded = True

    def start(self, order: Start, fds: list[int]) -> list[int]:
        """Start ranks; returns their pids."""
        try:
            if order.fork:
                self.preload()
            self.channel.send(order, fds)
            while True:
                with interrupts.welcome():  # the parent may still be importing torch
                    select.select([self.channel], [], [], _PATIENCE)
                message, _ = self.channel.receive()
                if isinstance(message, list):
                    return message
                self._note(message)
        except KeyboardInterrupt:
            self.close()  # its answer is still to come: nobody could tell it from the next one
            raise
        except Closed as error:
            raise MindlabError(f"the process that starts ranks is gone: {self.close()}") from error

    def hear(self) -> None:
        """Take in one message from the parent."""
        message, _ = self.channel.receive()
        self._note(message)

    def poll(self) -> None:
        """Take in the messages that are there already."""
        while select.select([self.channel], [], [], 0)[0]:
            self.hear()

    def end(self, pids: list[int], folder: str) -> None:
        """End ranks by pid and remove their folder; returns when all are gone (10 s at most each)."""
        try:
            self.channel.send(("end", pids, folder))
            while any(pid not in self.exits for pid in pids):
                self.hear()
        except Closed:
            self.close()
        for pid in pids:
            self.exits.pop(pid, None)

    def alive(self) -> bool:
        """Whether the parent still runs."""
        return self.process.poll() is None

    def close(self) -> str:
        """End the parent, and with it every rank; returns how it ended and what it said last."""
        self.channel.close()
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(timeout=5)
        if self.words.closed:
            return ""
        self.words.seek(0)
        said = self.words.read().decode(errors="replace").strip()
        self.words.close()
        return f"it ended with {code}" + (f" and said:\n{said[-2000:]}" if said else " and said nothing")

    def _note(self, message: object) -> None:
        assert isinstance(message, Exit), f"the parent of ranks sent {message!r}"
        self.exits[message.pid] = message.status


_current: Supervisor | None = None


def supervisor() -> Supervisor:
    """The one supervisor of this process, started if need be."""
    global _current
    if _current is None or not _current.alive():
        _current = Supervisor()
    return _current


def close() -> None:
    """End the supervisor if there is one."""
    global _current
    if _current is not None:
        _current.close()
        _current = None


def _forget() -> None:
    """In a forked child of the notebook: the ranks are not the child's, and it must not keep them alive."""
    global _current
    if _current is not None:
        _current.channel.close()
        _current = None


def _environment() -> dict[str, str]:
    """One thread a rank (they share this host's cores), and no card: the parent only ever sees the CPU."""
    wanted = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, **wanted, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONUNBUFFERED": "1"}


atexit.register(close)
os.register_at_fork(after_in_child=_forget)
