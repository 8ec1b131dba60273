"""The words while chapters run: a bar over chapters and cells on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

from mindlab.book.report import tally
from mindlab.book.task import Outcome

_QUIET_SECONDS = 20.0
"""After so long without a line, a log says where it is: one that stands still looks hung."""


class Progress:
    """Prints where the chapters are. On a terminal one live line holds a bar and the running chapters."""

    def __init__(self, total: int, stream: TextIO | None = None, *, what: str = "chapters") -> None:
        self.total, self.what = total, what
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self.done = 0
        self.running: dict[str, tuple[int, int]] = {}
        self.told = time.monotonic()
        self._signs = _signs(self.stream)

    def news(self, message: dict[str, Any]) -> None:
        """A chapter began, or its next cell did."""
        chapter = str(message["chapter"])
        is_new = chapter not in self.running
        self.running[chapter] = (int(message.get("cell", 0)), int(message.get("of", 0)))
        if self.live:
            self._show()
        elif is_new:
            self._line(f"{chapter}: running")
        elif time.monotonic() - self.told > _QUIET_SECONDS:
            self._line(f"{chapter}: {self._place(chapter)}")

    def ended(self, outcome: Outcome) -> None:
        """A chapter ended: its line stays."""
        mark = "passed" if outcome.passed else outcome.ending.upper()
        line = f"{outcome.chapter}: {mark} in {outcome.seconds:.1f} s{_checks(outcome)}"
        self.line(outcome.chapter, line + (f"\n    {outcome.error}" if outcome.error else ""))

    def line(self, chapter: str, text: str) -> None:
        """A chapter ended; `text` stays."""
        self.running.pop(chapter, None)
        self.done += 1
        self._line(text)
        if self.live and self.done < self.total:
            self._show()

    def bar(self, width: int = 24) -> str:
        """ "████████░░░░░░░░ 1/2 chapters": full at the end of the last cell of the last chapter."""
        inside = sum((cell - 1) / of for cell, of in self.running.values() if of and cell)
        share = min(1.0, (self.done + inside) / self.total) if self.total else 1.0
        full = int(share * width)
        signs = self._signs[0] * full + self._signs[1] * (width - full)
        return f"{signs} {self.done}/{self.total} {self.what}"

    def _show(self) -> None:
        inside = ", ".join(f"{chapter} {self._place(chapter)}" for chapter in self.running)
        width = shutil.get_terminal_size().columns - 1
        text = f"{self.bar()}  {inside}"
        self.stream.write("\r\x1b[K" + (text if len(text) <= width else text[: width - 1] + self._signs[2]))
        self.stream.flush()

    def _place(self, chapter: str) -> str:
        cell, of = self.running[chapter]
        return f"cell {cell}/{of}" if of else "starting"

    def _line(self, text: str) -> None:
        self.told = time.monotonic()
        self.stream.write(("\r\x1b[K" if self.live else "") + text + "\n")
        self.stream.flush()


def _signs(stream: TextIO) -> str:
    """Full, empty, and what says that a line was cut; plain ones where the terminal has no others."""
    try:
        "█░…".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "#-~"
    return "█░…"


def _checks(outcome: Outcome) -> str:
    """ "; checks: 12 passed, 1 failed, 2 not checked, 1 not answered yet"."""
    said = [f"{count} {state}" for state, count in tally(outcome.checks).items() if count]
    return f"; checks: {', '.join(said)}" if said else ""
