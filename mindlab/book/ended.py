"""Ctrl-C, SIGTERM and SIGHUP as an exception, so that every `finally` runs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Ended(BaseException):
    """Somebody ended the run: Ctrl-C or SIGTERM. Not an Exception, so that nothing swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """Turns SIGINT, SIGTERM and SIGHUP into Ended while the block runs."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise Ended(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        before = {number: signal.signal(number, handler) for number in numbers}
    except ValueError:  # not in the main thread: whoever called us handles signals
        yield
        return
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
