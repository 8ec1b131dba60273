"""A cell's outputs, kept small while they come: a cell that prints without end must fill no memory."""

from __future__ import annotations

import re

from nbformat import NotebookNode
from nbformat.v4 import new_output

ENDS = 100_000
"""Characters of a stream that are kept at its beginning, and as many at its end."""

LARGEST = 5_000_000
"""Characters of one output that is no stream; a larger one is replaced by a line that says so."""

MOST = 2000
"""Outputs of one cell, neighbouring streams taken as one."""

_LEFT_OUT = re.compile(r"… ([\d,]+) characters left out …")


class Capped:
    """The outputs of one cell, in `outputs`: neighbouring streams joined, long ones cut in the middle."""

    def __init__(self, outputs: list[NotebookNode]) -> None:
        self.outputs = outputs
        self._stream: NotebookNode | None = None
        self._head, self._tail, self._left_out = "", "", 0

    def add(self, output: NotebookNode) -> NotebookNode:
        """The output that now holds what `output` says."""
        if output.output_type != "stream":
            size = len(str(output))
            if size <= LARGEST and len(self.outputs) < MOST:
                self.outputs.append(output)
                return output
            output = new_output("stream", name="stderr", text=_mark(size))  # type: ignore[no-untyped-call,unused-ignore]
        return self._add_text(output)

    def _add_text(self, output: NotebookNode) -> NotebookNode:
        last = self.outputs[-1] if self.outputs else None
        goes_on = last is not None and last is self._stream and last.name == output.name
        if not goes_on and len(self.outputs) < MOST + 1:
            self._stream, self._head, self._tail, self._left_out = output, "", "", 0
            self.outputs.append(output)
        stream = self._stream or output
        self._take(output.text)
        stream.text = self._head + (_mark(self._left_out) if self._left_out else "") + self._tail
        return stream

    def _take(self, text: str) -> None:
        room = 0 if self._tail else max(0, ENDS - len(self._head))
        self._head += text[:room]
        self._tail += text[room:]
        surplus = max(0, len(self._tail) - ENDS)
        self._left_out += surplus
        self._tail = self._tail[surplus:]


def left_out(text: str) -> int:
    """How many characters are missing from a stream that was kept so."""
    return sum(int(number.replace(",", "")) for number in _LEFT_OUT.findall(text))


def _mark(count: int) -> str:
    return f"\n… {count:,} characters left out …\n"
