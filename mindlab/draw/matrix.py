"""Who sent how much to whom: the counted bytes beside those on the wire, rank by rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from mindlab.draw import labels, style
from mindlab.draw.board import MARGIN, Board, foot_height, wrap
from mindlab.draw.picture import describe
from mindlab.predict import units
from mindlab.trace.run import Run

_HEAD = 0.92
"""Inches above a matrix: its name, by what it was made, the receivers."""


@dataclass(frozen=True)
class _Panel:
    """One matrix to draw, or the reason why there is none."""

    name: str
    by: str
    matrix: np.ndarray | None
    reason: str = ""


@dataclass(frozen=True)
class _Look:
    """What both matrices share: the side of a cell in inches, the largest value, the language."""

    size: float
    ranks: int
    largest: float
    lang: str

    @property
    def unit(self) -> tuple[int, str]:
        """The largest binary unit not above the largest value: (bytes in it, its name)."""
        power = min(3, max(0, int(math.log2(self.largest)) // 10)) if self.largest >= 1 else 0
        return 1 << (10 * power), ("B", "KiB", "MiB", "GiB")[power]

    @property
    def points(self) -> float:
        """The size of the numbers."""
        return style.TEXT if self.ranks <= 4 else style.TINY

    def number(self, nbytes: float) -> str:
        """A cell's number, at most five characters wide: "256", "1.875", "0.031"."""
        value = nbytes / self.unit[0]
        return f"{value:.0f}" if value >= 1000 else f"{value:.4g}" if value >= 1 else f"{value:.2g}"


def traffic(run: Run, ax: Axes | None = None, *, title: str = "", language: str | None = None) -> Axes:
    """The Axes with two p x p matrices: bytes counted from the calls, and payload on the wire.

    Row = sender, column = receiver; sums stand at the ends of rows and columns. Where a matrix is missing,
    the reason stands in its place. Both use one unit and one grey scale, white (0) to dark (the largest).
    """
    lang = labels.choose(language)
    panels = [_counted(run, lang), _on_wire(run, lang)]
    side_by_side = run.ranks <= 8
    size = _cell_size(run.ranks)
    span = 0.62 + size * (run.ranks + 1) + 0.1
    foot = _foot(run, lang)
    top = 0.55 if title else 0.2
    rows = 1 if side_by_side else 2
    width = style.FULL_WIDTH if run.ranks > 4 else min(style.FULL_WIDTH, 2 * span + 0.6)
    foot = [line for text in foot for line in wrap(text, width - 2 * MARGIN)]
    tall = _HEAD + size * run.ranks + 0.45
    board = Board(ax, width, top + rows * tall + foot_height(foot), lang)
    if title:
        board.title(title)
    largest = max((float(p.matrix.max()) for p in panels if p.matrix is not None), default=0.0)
    look = _Look(size, run.ranks, largest, lang)
    for i, panel in enumerate(panels):
        x = (width / 2) * i + (width / 2 - span) / 2 if side_by_side else (width - span) / 2
        _draw(board, panel, (x, top if side_by_side else top + i * tall), look)
    board.foot(foot)
    describe(board.ax, _alt(run, panels, title))
    return board.ax


def _counted(run: Run, lang: str) -> _Panel:
    matrix = run.traffic
    name, by = labels.say("counted", lang), labels.say("counted_by", lang)
    if not matrix.any():
        return _Panel(name, by, None, f"0 B {matrix.note}" if matrix.note else labels.say("nothing", lang))
    return _Panel(name, by, np.asarray(matrix))


def _on_wire(run: Run, lang: str) -> _Panel:
    name = labels.say("wire", lang)
    if run.wire is None:
        return _Panel(name, "", None, run.why_no_wire or labels.say("no_wire", lang))
    if run.wire.payload is None:
        return _Panel(name, labels.say("with_framing", lang), np.asarray(run.wire.total))
    return _Panel(name, labels.say("payload", lang), np.asarray(run.wire.payload))


def _cell_size(ranks: int) -> float:
    return 0.6 if ranks <= 4 else 0.36 if ranks <= 8 else 0.38


def _draw(board: Board, panel: _Panel, corner: tuple[float, float], look: _Look) -> None:
    """One matrix: its name, the receivers on top, the senders at the left, the sums at the ends."""
    (x, y), size, ranks = corner, look.size, look.ranks
    left, top = x + 0.62, y + _HEAD
    shown = f"{panel.name} ({look.unit[1]})" if panel.matrix is not None else panel.name
    board.text(left - 0.3, y + 0.1, shown, style.TITLE, ha="left", fontweight="bold")
    board.text(left - 0.3, y + 0.3, panel.by, style.SMALL, ha="left", color=style.FADED)
    if panel.matrix is None:
        _draw_reason(board, panel.reason, (left - 0.3, y + 0.5), size * (ranks + 1) + 0.3)
        return
    board.text(left + size * ranks / 2, y + 0.5, labels.say("to", look.lang), style.SMALL)
    board.text(x + 0.08, top + size * ranks / 2, labels.say("from", look.lang), style.SMALL, rotation=90)
    for rank in range(ranks):
        board.chip(rank, left + (rank + 0.5) * size, top - 0.17, 0.24)
        board.chip(rank, left - 0.2, top + (rank + 0.5) * size, 0.24)
    for (s, r), nbytes in np.ndenumerate(panel.matrix):
        _draw_cell(board, (left + r * size, top + s * size), float(nbytes), s == r, look)
    _draw_sums(board, panel.matrix, (left, top), look)


def _draw_cell(board: Board, spot: tuple[float, float], nbytes: float, own: bool, look: _Look) -> None:
    """A grey cell with its number; on the diagonal, where nobody sends, an empty one."""
    level = round(255 * (1.0 - 0.72 * (nbytes / look.largest if look.largest else 0.0)))
    empty = own and not nbytes
    fill = style.EMPTY if empty else f"#{level:02x}{level:02x}{level:02x}"
    board.cell(*spot, look.size, look.size, facecolor=fill, edgecolor=style.GRID)
    if empty:
        return
    ink = style.ink_on(fill) if nbytes else style.LINE
    shown = look.number(nbytes) if nbytes or look.ranks <= 8 else "·"
    board.text(spot[0] + look.size / 2, spot[1] + look.size / 2, shown, look.points, color=ink)


def _draw_sums(board: Board, matrix: np.ndarray, corner: tuple[float, float], look: _Look) -> None:
    """What each rank sent at the right end of its row, what it received below its column."""
    left, top = corner
    edge = look.ranks * look.size + 0.08
    across, below = left + edge + look.size / 2, top + edge + 0.1
    for i, (sent, received) in enumerate(zip(matrix.sum(axis=1), matrix.sum(axis=0), strict=True)):
        middle = (i + 0.5) * look.size
        board.text(across, top + middle, look.number(sent), look.points, fontweight="bold")
        board.text(left + middle, below, look.number(received), look.points, fontweight="bold")
    board.text(across, top - 0.17, labels.say("sent", look.lang), style.SMALL)
    board.text(left - 0.06, below, labels.say("received", look.lang), style.SMALL, ha="right")


def _draw_reason(board: Board, reason: str, corner: tuple[float, float], side: float) -> None:
    board.cell(*corner, side, min(side, 1.6), facecolor=style.EMPTY, edgecolor=style.LINE, linestyle="--")
    lines = wrap(reason, side - 0.2, style.TEXT)
    for i, line in enumerate(lines):
        board.text(corner[0] + 0.1, corner[1] + 0.2 + 0.18 * i, line, style.TEXT, ha="left")


def _foot(run: Run, lang: str) -> list[str]:
    lines = []
    if run.traffic.any() and run.traffic.note:
        lines.append(f"{labels.say('counted', lang)}: {run.traffic.note}")
    if run.wire is not None:
        apart = run.wire.framing
        framing = "" if apart is None else labels.say("framing", lang, size=units.size(float(apart.sum())))
        parts = [run.wire.source, framing, run.wire.note]
        lines.append(f"{labels.say('wire', lang)}: " + "; ".join(part for part in parts if part))
    return [*lines, *run.notes, run.provenance]


def _alt(run: Run, panels: list[_Panel], title: str) -> str:
    parts = [title or f"Bytes from each rank to each rank, {run.ranks} ranks"]
    for panel in panels:
        if panel.matrix is None:
            parts.append(f"{panel.name}: {panel.reason}")
            continue
        rows = (f"rank {s} sent {_row_in_words(row)}" for s, row in enumerate(panel.matrix))
        parts.append(f"{panel.name} ({panel.by}): " + "; ".join(rows))
    return ". ".join([*parts, run.provenance]) + "."


def _row_in_words(row: np.ndarray) -> str:
    sent = [f"{units.size(float(n))} to {r}" for r, n in enumerate(row) if n]
    return ", ".join(sent) or "nothing"
