"""A pool of ranks that stays warm between experiments."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import time
from typing import Any

from mindlab.errors import RankDied
from mindlab.ranks import interrupts, supervisor
from mindlab.ranks.backends import Backend
from mindlab.ranks.channel import Channel
from mindlab.ranks.ending import describe_exit
from mindlab.ranks.job import Job
from mindlab.ranks.output import Output
from mindlab.ranks.parent import Start
from mindlab.trace.board import Board

_MESSAGE_SECONDS = 30.0  # one message between this process and a rank, once it has begun
_BIRTH_SECONDS = 180.0  # fork or fresh interpreters, torch, cards, and the group's connections


class Pool:
    """`ranks` processes joined by `backend`. Made whole or not at all."""

    def __init__(self, ranks: int, backend: Backend) -> None:
        self.ranks, self.backend = ranks, backend
        self.supervisor = supervisor.supervisor()
        self.folder = tempfile.mkdtemp(prefix="mindlab-")
        self.board = Board.create(ranks)
        self.pids: list[int] = []
        self.jobs = 0
        self.names = False
        """A %%ranks cell left names in these ranks."""
        self.lifeline = -1
        self.channels: list[Channel] = []
        self.output = Output([])
        try:
            self._open()
            self._await_birth()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        pairs = [Channel.pair(_MESSAGE_SECONDS) for _ in range(self.ranks)]
        pipes = [os.pipe() for _ in range(self.ranks)]
        lifeline, self.lifeline = os.pipe()
        self.channels = [ours for ours, _ in pairs]
        self.output = Output([reading for reading, _ in pipes])
        fds = [theirs.fileno() for _, theirs in pairs] + [writing for _, writing in pipes]
        order = Start(
            ranks=self.ranks,
            fork=self.backend.fork,
            environment=[{**os.environ, **self._variables(rank)} for rank in range(self.ranks)],
            world={
                "ranks": self.ranks,
                "group": self.backend.group,
                "device": self.backend.device,
                "folder": self.folder,
            },
            folder=self.folder,
        )
        try:
            self.pids = self.supervisor.start(order, [*fds, lifeline, self.board.fd])
        finally:
            for _, theirs in pairs:
                theirs.close()
            for fd in [lifeline, *(writing for _, writing in pipes)]:
                os.close(fd)

    def _variables(self, rank: int) -> dict[str, str]:
        threads = "1" if self.backend.device == "cpu" else os.environ.get("OMP_NUM_THREADS", "")
        variables = self.backend.environment(rank, self.ranks)
        return {**variables, "OMP_NUM_THREADS": threads} if threads else variables

    def _await_birth(self) -> None:
        deadline = time.monotonic() + _BIRTH_SECONDS
        waiting = dict(enumerate(self.channels))
        while waiting:
            sources = [*waiting.values(), self.supervisor.channel]
            with interrupts.welcome():
                ready, _, _ = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                late = ", ".join(map(str, waiting))
                raise RankDied(f"ranks {late} did not join their group within {_BIRTH_SECONDS:.0f} s")
            if self.supervisor.channel in ready:
                self.supervisor.hear()
            self._check_birth()
            for rank, channel in list(waiting.items()):
                if channel in ready:
                    channel.receive()
                    del waiting[rank]
        self.output.finish()
        self.output.start()

    def _check_birth(self) -> None:
        for rank, pid in enumerate(self.pids):
            if pid in self.supervisor.exits:
                self.output.finish()
                how = describe_exit(self.supervisor.exits[pid])
                text = (
                    f"rank {rank} of {self.ranks} could not join its group over {self.backend.name}: it {how}"
                )
                raise RankDied(text, rank=rank)

    @property
    def whole(self) -> bool:
        """Whether all ranks and their parent are still there (a rank may have been killed between cells)."""
        if not self.supervisor.alive():
            return False
        self.supervisor.poll()
        return not any(pid in self.supervisor.exits for pid in self.pids)

    def send(self, job: Job) -> None:
        """Give every rank its copy of the job."""
        for channel in self.channels:
            channel.send(job, job.packed.fds())

    def counters(self) -> list[Any]:
        """Read every rank's socket counters anew."""
        for channel in self.channels:
            channel.send("counters")
        return [channel.receive()[0] for channel in self.channels]

    def close(self) -> None:
        """End the ranks by their pids and remove all that the pool made."""
        if self.pids:
            self.supervisor.end(self.pids, self.folder)
        for channel in self.channels:
            channel.close()
        if self.lifeline >= 0:
            os.close(self.lifeline)
        self.output.close()
        self.board.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.pids = []

    def forget(self) -> None:
        """In a forked child: let go of the ranks without ending them."""
        for channel in self.channels:
            channel.close()
        os.close(self.lifeline)


_pool: Pool | None = None
"""The one pool of this process."""


def pool(ranks: int, backend: Backend) -> Pool:
    """The warm pool of this size and backend; another one is ended first."""
    global _pool
    if _pool is not None and (_pool.ranks, _pool.backend.name) != (ranks, backend.name):
        end()
    if _pool is not None and not _pool.whole:
        end()
    if _pool is None:
        _pool = Pool(ranks, backend)
    return _pool


def end() -> None:
    """End the pool, if there is one."""
    global _pool
    if _pool is not None:
        going, _pool = _pool, None
        with interrupts.held():  # a second press must not leave half a pool behind
            going.close()
        if going.names:
            print("The names that %%ranks cells left are gone with their ranks.")


def _forget() -> None:
    global _pool
    if _pool is not None:
        _pool.forget()
        _pool = None


os.register_at_fork(after_in_child=_forget)
