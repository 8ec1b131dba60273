"""What a person sees of a run: the bar on a terminal, the lines of a log, the last words."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from mindlab.book.capped import ENDS, Capped, left_out
from mindlab.book.notebook_file import node
from mindlab.book.progress import Progress
from mindlab.book.summary import summary
from mindlab.book.task import Outcome


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what was written to it."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        """The line that stands there now."""
        return self.bytes.getvalue().decode(self.encoding).rpartition("\x1b[K")[2]


def test_the_bar_counts_chapters_and_cells() -> None:
    """Catches a bar that jumps back, or stands still within a chapter."""
    progress = Progress(2, Terminal())
    lengths = []
    for chapter in ("01_a", "02_b"):
        for cell in range(1, 11):
            progress.news({"chapter": chapter, "cell": cell, "of": 10})
            lengths.append(progress.bar().count("█"))
        progress.ended(Outcome(chapter, "passed", 1.0))
    assert lengths == sorted(lengths) and lengths[0] == 0 and lengths[10] == 12 and lengths[-1] == 22
    assert progress.bar().startswith("█" * 24 + " 2/2 chapters")


def test_the_live_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a line that wraps, so that every update leaves a new one behind."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((50, 20)))
    terminal = Terminal()
    progress = Progress(3, terminal)
    progress.news({"chapter": "01_a_rather_long_name_of_a_chapter", "cell": 3, "of": 70})
    assert len(terminal.line) == 49 and terminal.line.endswith("…") and "\n" not in terminal.line
    progress.ended(Outcome("01_a_rather_long_name_of_a_chapter", "died", 1.0, "the kernel died"))
    assert (
        "01_a_rather_long_name_of_a_chapter: DIED in 1.0 s\n    the kernel died\n"
        in terminal.bytes.getvalue().decode()
    )


def test_a_terminal_without_blocks_gets_plain_signs() -> None:
    """Catches a UnicodeEncodeError in the middle of a run, under LANG=C."""
    terminal = Terminal("ascii")
    progress = Progress(2, terminal)
    progress.news({"chapter": "01_a", "cell": 6, "of": 10})
    assert terminal.line.startswith("######------------------ 0/2 chapters  01_a cell 6/10")


def test_a_log_has_lines_only() -> None:
    """Catches control characters in a file, and a line for every cell."""
    log = io.StringIO()
    progress = Progress(1, log)
    for cell in range(1, 50):
        progress.news({"chapter": "01_a", "cell": cell, "of": 50})
    progress.ended(Outcome("01_a", "passed", 2.0))
    assert log.getvalue() == "01_a: running\n01_a: passed in 2.0 s\n"


def test_the_last_words_name_what_failed_and_why() -> None:
    """Catches a verdict that sends a person back through a thousand lines."""
    checks = ({"passed": True}, {"passed": None}, {"passed": None, "verdict": "not answered yet"})
    outcomes = [
        Outcome("01_a", "passed", 2.0, None, checks),
        Outcome("02_b", "died", 1.0, "code cell 3 (`x`): the kernel died\n    and more"),
    ]
    lines = summary(outcomes, Path("out/report.html")).strip().splitlines()
    assert lines == [
        "died        02_b  code cell 3 (`x`): the kernel died",
        "1 of 2 chapters passed, 1 did not; checks: 1 passed, 1 not checked, 1 not answered yet; "
        "3 s of computing",
        "report: out/report.html",
    ]


def test_a_long_stream_keeps_both_ends_and_its_length() -> None:
    """Catches a cap that loses the end, miscounts, or grows with what is printed."""
    outputs: list[object] = []
    capped = Capped(outputs)  # type: ignore[arg-type]
    for number in range(40_000):
        capped.add(node({"output_type": "stream", "name": "stdout", "text": f"{number:09}\n"}))
    (output,) = outputs
    text = output.text  # type: ignore[attr-defined]
    assert text.startswith("000000000\n") and text.endswith("000039999\n") and len(text) < 2 * ENDS + 100
    assert left_out(text) == 40_000 * 10 - 2 * ENDS
    assert re.search(r"\n… 200,000 characters left out …\n", text)


def test_one_output_that_is_too_large_is_named() -> None:
    """Catches a picture of 100 MB that makes a notebook nobody can open."""
    outputs: list[object] = []
    capped = Capped(outputs)  # type: ignore[arg-type]
    capped.add(node({"output_type": "display_data", "metadata": {}, "data": {"text/plain": "x" * 6_000_000}}))
    capped.add(node({"output_type": "display_data", "metadata": {}, "data": {"text/plain": "small"}}))
    assert len(outputs) == 2 and "characters left out" in outputs[0].text  # type: ignore[attr-defined]
