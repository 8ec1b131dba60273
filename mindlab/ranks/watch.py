"""Watching one experiment: collect how each rank ends, notice what cannot end well, keep the deadline."""

from __future__ import annotations

import selectors
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mindlab.errors import MindlabError
from mindlab.ranks import ending, interrupts
from mindlab.ranks.channel import Closed
from mindlab.ranks.job import Failure, Job, Outcome
from mindlab.ranks.output import Progress
from mindlab.trace.matching import Fault, find_fault, where

if TYPE_CHECKING:
    from mindlab.ranks.pool import Pool

_TICK = 0.1
_SETTLE = 0.5  # seconds that the other ranks get to fail too, so that they can be named
_EXIT_NEWS = 1.0  # seconds that a lost connection waits for the news of who died


class Watch:
    """One job on one pool. `outcomes()` returns one Outcome a rank, or raises the experiment's error."""

    def __init__(self, pool: Pool, job: Job, timeout: float) -> None:
        self.pool, self.job, self.timeout = pool, job, timeout
        self.outcomes_by_rank: dict[int, Outcome] = {}
        self.exits: dict[int, tuple[int, float]] = {}
        self.began = self.examined = time.monotonic()
        self.progress = Progress(pool.ranks)
        self.suspected: Fault | None = None
        self.cells = {name: label for name, (label, _) in job.sources.items()}

    def outcomes(self) -> list[Outcome]:
        """One Outcome by rank; raises the experiment's one error."""
        with selectors.DefaultSelector() as selector:
            for rank, channel in enumerate(self.pool.channels):
                selector.register(channel, selectors.EVENT_READ, ("channel", rank))
                selector.register(self.pool.output.pipes[rank], selectors.EVENT_READ, ("output", rank))
            selector.register(self.pool.supervisor.channel, selectors.EVENT_READ, ("parent", -1))
            try:
                while len(self.outcomes_by_rank) < self.pool.ranks or self._failures():
                    self._take(selector)
                    self._judge()
            except KeyboardInterrupt:
                raise ending.interrupted(self._standing()) from None
            finally:
                self.progress.end()
        return [self.outcomes_by_rank[rank] for rank in range(self.pool.ranks)]

    @property
    def unharmed(self) -> bool:
        """Whether the ranks are as good as before: each of them came to its end, and nothing is under way."""
        outcomes = self.outcomes_by_rank.values()
        if self.exits or len(outcomes) < self.pool.ranks or any(map(self._only_lost, self.outcomes_by_rank)):
            return False
        events = [event for outcome in outcomes if outcome.record for event in outcome.record.events]
        return not any(o.dirty for o in outcomes) and all(event.end is not None for event in events)

    def discard(self) -> None:
        """Let go of the shared memory of results that nobody will take."""
        for outcome in self.outcomes_by_rank.values():
            if outcome.packed:
                outcome.packed.close()

    def _take(self, selector: selectors.BaseSelector) -> None:
        with interrupts.welcome():
            ready = selector.select(_TICK)
        for key, _ in ready:
            source, rank = key.data
            if source == "output":
                if not self.pool.output.read(rank):
                    selector.unregister(key.fileobj)
            elif source == "parent":
                self._hear()
            else:
                try:
                    self._receive(rank)
                except Closed:  # the parent will tell how it ended
                    selector.unregister(key.fileobj)

    def _receive(self, rank: int) -> None:
        outcome, fds = self.pool.channels[rank].receive()
        assert isinstance(outcome, Outcome) and outcome.number == self.job.number, (
            f"rank {rank} sent {outcome!r}"
        )
        if outcome.packed and fds:
            outcome.packed.fd = fds[0]
        self.outcomes_by_rank[rank] = outcome

    def _hear(self) -> None:
        try:
            self.pool.supervisor.hear()
        except Closed:
            how = self.pool.supervisor.close()
            raise MindlabError(f"the process that starts ranks is gone: {how}") from None
        for rank, pid in enumerate(self.pool.pids):
            status = self.pool.supervisor.exits.get(pid)
            if status is not None and rank not in self.exits:
                self.exits[rank] = (status, time.monotonic())

    def _judge(self) -> None:
        """Raise as soon as the experiment is known to have failed."""
        now = time.monotonic()
        if self._failures() or self.exits:
            self._judge_failure(now)
        if now - self.examined >= _TICK and len(self.outcomes_by_rank) < self.pool.ranks:
            self.examined = now
            if self.pool.board.waits(_TICK / 2):  # reading all rows costs the ranks' cores milliseconds
                self._judge_standing()
            self.progress.tick(self._standing)
        if now - self.began > self.timeout:
            raise ending.timed_out(self.timeout, self._standing())

    def _judge_failure(self, now: float) -> None:
        failures = self._failures()
        if self.exits:
            rank, (status, when) = min(self.exits.items(), key=lambda item: item[1][1])
            earlier = [r for r in failures if not self._only_lost(r)]
            if not earlier and now - when >= (0 if self._all_heard() else _SETTLE):
                raise self._death(rank, status)
        if not failures:
            return
        rank = min(failures, key=lambda r: (self._only_lost(r), self._when(r)))
        patience = _EXIT_NEWS if self._only_lost(rank) else _SETTLE
        if now - self._when(rank) >= patience or self._all_heard():
            failure = failures[rank].failure
            assert failure is not None
            first = min(other for other in failures if _same(failures[other].failure, failure))
            raise ending.failed(first, failure, self._standing(but=first), self.cells)

    def _death(self, rank: int, status: int) -> Exception:
        """A rank's death, or what led to it: a message longer than its buffer makes gloo abort."""
        rows, states = self._board()
        # The death made the other ranks' calls fail; they still say what those ranks wanted.
        fault = find_fault([[replace(row, failed=False) for row in mine] for mine in rows], states)
        if fault is not None and fault.kind == "mismatch":
            error = ending.faulty(fault)
            error.rank = rank
            return error
        crash = Path(self.pool.folder, f"crash.{rank}")
        text = crash.read_text(errors="replace") if crash.exists() else ""
        return ending.died(rank, status, text, self._standing(but=rank), self.cells)

    def _judge_standing(self) -> None:
        fault = find_fault(*self._board())
        before, self.suspected = self.suspected, fault
        if fault is None or self.exits or self._failures():
            return
        # The ranks write while this process reads: a fault counts when a fresh look finds it again.
        if before is not None and (before.kind, before.ranks) == (fault.kind, fault.ranks):
            raise ending.faulty(fault)
        self.pool.board.forget()

    def _board(self) -> tuple[list[list], list]:  # type: ignore[type-arg]
        board = self.pool.board
        ranks = range(self.pool.ranks)
        return [board.rows(rank) for rank in ranks], [board.state(rank) for rank in ranks]

    def _standing(self, but: int | None = None) -> list[str]:
        lines = where(*self._board())
        for rank, outcome in self.outcomes_by_rank.items():
            if outcome.failure:
                failure = outcome.failure
                first = failure.message.partition("\n")[0][:120]
                lines[rank] = f"rank {rank} raised {failure.kind}" + (f": {first}" if first else "")
        for rank, (status, _) in self.exits.items():
            lines[rank] = f"rank {rank} {ending.describe_exit(status)}"
        return [line for rank, line in enumerate(lines) if rank != but]

    def _failures(self) -> dict[int, Outcome]:
        return {rank: outcome for rank, outcome in self.outcomes_by_rank.items() if outcome.failure}

    def _only_lost(self, rank: int) -> bool:
        failure = self.outcomes_by_rank[rank].failure
        return failure is not None and ending.lost_a_peer(failure)

    def _when(self, rank: int) -> float:
        failure = self.outcomes_by_rank[rank].failure
        assert failure is not None
        return failure.when

    def _all_heard(self) -> bool:
        return len(self.outcomes_by_rank.keys() | self.exits.keys()) == self.pool.ranks


def _same(one: Failure | None, other: Failure) -> bool:
    """Whether two ranks raised the same: then luck with times shall not choose whose error is told."""
    return one is not None and (one.kind, one.message) == (other.kind, other.message)
