"""The person's interrupt, let in only where nothing is left half done.

A KeyboardInterrupt may come between any two instructions: in the middle of a message, that would put both
ends out of step for good. So an experiment holds it back, and lets it in where it waits.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class _Held:
    """The state of one block that holds interrupts back."""

    def __init__(self) -> None:
        self.pending = self.welcome = False

    def arrive(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT."""
        self.pending = True
        if self.welcome:
            self.raise_pending()

    def raise_pending(self) -> None:
        """Let a waiting interrupt in."""
        if self.pending:
            self.pending = self.welcome = False
            raise KeyboardInterrupt


_held: _Held | None = None


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A block in which an interrupt waits for the next `welcome`, or for the end of the block."""
    global _held
    if _held is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _held = mine = _Held()
    before = signal.signal(signal.SIGINT, mine.arrive)
    try:
        yield
    finally:
        _held = None
        signal.signal(signal.SIGINT, before)
    mine.raise_pending()


@contextlib.contextmanager
def welcome() -> Iterator[None]:
    """A wait inside `held` during which an interrupt may come: nothing in it can be left half done."""
    mine = _held
    if mine is None:
        yield
        return
    mine.welcome = True
    try:
        mine.raise_pending()
        yield
    finally:
        mine.welcome = False
