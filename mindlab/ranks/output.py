"""What ranks print, on its way into the cell; and the line that says that long work still runs."""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from mindlab import notebook

_LINES = 400  # lines of one rank that a cell shows; run.printed keeps more
_KEPT = 1 << 24  # characters of one rank that run.printed keeps: an endless print must not fill the memory
_WIDTH = 2000  # characters of one line that a cell shows
_CHUNK, _READS = (
    1 << 16,
    16,
)  # one look takes at most 1 MiB: a rank that never stops must not hold up the deadline
_PATIENT = 2.0  # seconds before a run counts as long


class Output:
    """The standard output and error of p ranks, read from p pipes."""

    def __init__(self, pipes: list[int]) -> None:
        self.pipes = pipes
        for pipe in pipes:
            os.set_blocking(pipe, False)
        self.start()

    def start(self) -> None:
        """Forget what was printed so far."""
        self.texts: list[list[str]] = [[] for _ in self.pipes]
        self.rests: list[list[str]] = [[] for _ in self.pipes]
        self.shown = [0] * len(self.pipes)
        self.kept = [0] * len(self.pipes)
        self.held: list[list[str]] = [[] for _ in self.pipes]
        self.decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in self.pipes]

    def read(self, rank: int) -> bool:
        """Print whole lines from the pipe of `rank`, a part of what waits there; False at the pipe's end."""
        for _ in range(_READS):
            try:
                data = os.read(self.pipes[rank], _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._take(rank, self.decoders[rank].decode(data))
        return True

    def finish(self) -> list[str]:
        """The text of each rank, after the last words are printed."""
        for rank in range(len(self.pipes)):
            self.read(rank)
            if self.rests[rank]:
                self._show(rank, "".join(self.rests[rank]))
                self.rests[rank] = []
            for line in self.held[rank]:
                print(line, flush=True)
            self.held[rank] = []
            if self.shown[rank] > _LINES:
                more = self.shown[rank] - _LINES
                print(f"[rank {rank}] … {more} more lines: see run.printed[{rank}]", flush=True)
        cut = [f"\n… more than {_KEPT:,} characters" if kept > _KEPT else "" for kept in self.kept]
        return ["".join(parts) + end for parts, end in zip(self.texts, cut, strict=True)]

    def close(self) -> None:
        """Close the pipes."""
        for pipe in self.pipes:
            os.close(pipe)

    def _take(self, rank: int, text: str) -> None:
        self.texts[rank].append(text[: max(0, _KEPT - self.kept[rank])])
        self.kept[rank] += len(text)
        rest = self.rests[rank]
        if self.shown[rank] > _LINES:
            _, ended, begun = text.rpartition("\n")
            self.shown[rank] += text.count("\n")
            if ended or not rest:  # what is left of a line counts at the end, once
                rest[:] = [begun[:1]] if begun else []
            return
        first, *others = text.split("\n")
        if sum(map(len, rest)) < _WIDTH:
            rest.append(first)
        for part in others:
            self._show(rank, "".join(rest))
            rest[:] = [part] if part else []

    def _show(self, rank: int, line: str) -> None:
        self.shown[rank] += 1
        if self.shown[rank] > _LINES:
            return
        last = line.rsplit(chr(13), 1)[-1]
        text = f"[rank {rank}] {last[:_WIDTH]}" + ("…" if len(last) > _WIDTH else "")
        if os.environ.get("MINDLAB_BULK"):  # nobody watches: rank by rank, the same in every run
            self.held[rank].append(text)
        else:
            print(text, flush=True)


class Progress:
    """A line that tells of long work, in a notebook or a terminal; silent in bulk runs and pipes."""

    def __init__(self, ranks: int) -> None:
        self.ranks, self.began, self.told = ranks, time.monotonic(), 0.0
        self.handle: Any = None
        self.terminal = False

    def tick(self, where: Callable[[], list[str]]) -> None:
        """Renew the line, at most once a second, with where each rank stands."""
        now = time.monotonic()
        if now - self.began < _PATIENT or now - self.told < 1 or not _live():
            return
        self.told, standing = now, where()
        text = f"{self.ranks} ranks, {now - self.began:.0f} s: " + "; ".join(standing[:4])
        self._write(text + ("; …" if len(standing) > 4 else ""))

    def end(self) -> None:
        """Take the line away."""
        if self.told:
            self._write("")

    def _write(self, text: str) -> None:
        if not notebook.is_kernel():
            sys.stderr.write(f"\r\x1b[K{text}"[:200])
            sys.stderr.flush()
            return
        from IPython.display import display

        bundle = {"text/plain": text}
        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.handle.update(bundle, raw=True)


def _live() -> bool:
    """Whether somebody watches: not in a bulk run, not into a pipe."""
    if os.environ.get("MINDLAB_BULK"):
        return False
    return notebook.is_kernel() or sys.stderr.isatty()
