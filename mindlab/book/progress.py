"""The runner's words while chapters run: one line a chapter, updated in place on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from mindlab.book.task import Outcome


class Progress:
    """Prints where the chapters are. On a terminal the running ones share one live line."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self.done = 0
        self.running: dict[str, str] = {}
        self.told = time.monotonic()

    def news(self, message: dict[str, Any]) -> None:
        """A chapter began, or its next cell did."""
        chapter = str(message["chapter"])
        is_new = chapter not in self.running
        self.running[chapter] = f"cell {message['cell']}/{message['of']}" if "cell" in message else "starting"
        if self.live:
            self._show()
        elif is_new:
            self._line(f"{chapter}: running")
        elif time.monotonic() - self.told > 20:  # a log that stands still looks hung
            self._line(f"{chapter}: {self.running[chapter]}")

    def ended(self, outcome: Outcome) -> None:
        """A chapter ended: its line stays."""
        self.running.pop(outcome.chapter, None)
        self.done += 1
        mark = "passed" if outcome.passed else outcome.ending.upper()
        line = f"{outcome.chapter}: {mark} in {outcome.seconds:.1f} s{_checks(outcome)}"
        self._line(line + (f"\n    {outcome.error}" if outcome.error else ""))
        if self.live and self.running:
            self._show()

    def _show(self) -> None:
        inside = ", ".join(f"{chapter} {state}" for chapter, state in self.running.items())
        self.stream.write(f"\r\x1b[K[{self.done}/{self.total}] {inside}")
        self.stream.flush()

    def _line(self, text: str) -> None:
        self.told = time.monotonic()
        self.stream.write(("\r\x1b[K" if self.live else "") + text + "\n")
        self.stream.flush()


def _checks(outcome: Outcome) -> str:
    """ ", 12 checks passed, 1 failed, 2 not checked"."""
    words = {True: "passed", False: "failed", None: "not checked"}
    counted = {word: sum(row["passed"] is value for row in outcome.checks) for value, word in words.items()}
    said = [f"{count} {word}" for word, count in counted.items() if count]
    return f"; checks: {', '.join(said)}" if said else ""
