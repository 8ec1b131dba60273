"""The handle that an asynchronous call gives back: torch's own, with a row that its wait() closes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mindlab.trace import guards

if TYPE_CHECKING:
    from mindlab.trace.entry import Entry
    from mindlab.trace.recording import Recording

Pending = tuple["Entry", list[guards.Buffer]]


class RecordedWork:
    """A torch Work that also closes the rows of its calls. Everything but wait and its kin is torch's.

    When the data was there: gloo's collectives tell by their future, on the thread that moved the data.
    Point to point has no future: there it is when wait() returned. A work on a card ends for the host as
    soon as it is queued; there, too, it is when wait() returned.
    """

    def __init__(self, recording: Recording, pending: Sequence[Pending], work: Any) -> None:
        self._recording, self._pending, self._work = recording, pending, work
        self._done: int | None = None
        self._settled: list[Any] = []
        """What the first wait() gave, once it has returned."""
        self._pairs = all(entry.is_pair and entry.on_host for entry, _ in pending)
        if all(not entry.is_pair and entry.on_host for entry, _ in pending):
            self._listen()

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(work, dist.Work) stays true
        return type(self._work)

    def __del__(self) -> None:
        """Say that nobody waited: gloo gives a message up with its handle."""
        if not self._pairs or self._settled or (slot := self._recording.slot) is None:
            return
        for entry, _ in self._pending:
            if not entry.waited:
                slot.dropped(entry.index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Torch's wait(); raises UnsafeCall if a buffer was changed before.

        A message is only waited for once: gloo stands still in a second wait(), so that one is left out.
        """
        return self._settle(self._work.wait, *args, **kwargs)

    def synchronize(self) -> Any:
        """Torch's synchronize(), which waits too."""
        return self._settle(self._work.synchronize)

    def is_completed(self) -> bool:
        """Torch's is_completed(); true counts as waited for."""
        done = bool(self._work.is_completed())
        if done:
            self._close(time.monotonic_ns())
        return done

    def get_future(self) -> Any:
        """Torch's future of this work; who takes it is trusted to wait on it."""
        future = self._work.get_future()
        for entry, _ in self._pending:
            entry.waited = True
        if self._done is not None:  # it ended before anyone asked
            self._note_end()
        return future

    def _listen(self) -> None:
        with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):  # no future here
            self._work.get_future().add_done_callback(self._finished)

    def _finished(self, future: Any) -> None:
        self._done = time.monotonic_ns()
        self._note_end()

    def _note_end(self) -> None:
        for entry, _ in self._pending:
            if entry.waited and entry.end is None:
                self._recording.close(entry, self._done or time.monotonic_ns())

    def _settle(self, settle: Any, *args: Any, **kwargs: Any) -> Any:
        if self._pairs and self._settled:
            self._recording.waited_twice(self._pending[0][0])
            return self._settled[0]
        slot, timed = self._recording.slot, bool(args or kwargs)
        open_entries = [entry for entry, _ in self._pending if entry.end is None]
        if slot is not None and not timed:  # a wait with its own deadline goes on by itself
            for entry in open_entries:
                slot.waiting(entry.index)
        result = settle(*args, **kwargs)
        self._settled = [result]
        self._learn_peers()
        self._close(time.monotonic_ns())
        return result

    def _learn_peers(self) -> None:
        for entry, _ in self._pending:
            if entry.op == "irecv" and entry.call.peer is None and entry.end is None:
                self._recording.arrivals.learn(entry, entry.group[self._work._source_rank()])

    def _close(self, now: int) -> None:
        recording = self._recording
        for entry, buffers in self._pending:
            if entry.mark is None:
                entry.mark = (len(recording.entries), len(recording.stated))
            if entry.waited and entry.end is not None:
                continue
            entry.waited = True
            recording.close(entry, self._done or now)
            guards.refuse_changed(entry.op, buffers, entry.place)


class RecordedFuture(RecordedWork):
    """The same around a torch Future (all_reduce_coalesced gives one)."""

    def done(self) -> bool:
        """Torch's done(); true counts as waited for."""
        done = bool(self._work.done())
        if done:
            self._close(time.monotonic_ns())
        return done

    def value(self) -> Any:
        """Torch's value(); it is there only when the future is done."""
        value = self._work.value()
        self._close(time.monotonic_ns())
        return value

    def _listen(self) -> None:
        self._work.add_done_callback(self._finished)
