"""A Run as a small table, in text and in HTML."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from mindlab.predict import units
from mindlab.trace.measured import Measured

if TYPE_CHECKING:
    from mindlab.trace.run import Run

_MOST_ROWS = 16
_MOST_NOTES = 8
_LINES = "border-bottom: 1px solid currentColor"


def columns(run: Run) -> list[tuple[str, list[str]]]:
    """(title, one cell a rank) for each column; a column says where its numbers come from."""
    ranks = range(run.ranks)
    found = [
        ("rank", [str(rank) for rank in ranks]),
        ("timed", [units.duration(float(seconds)) for seconds in run.seconds]),
        ("calls", [str(sum(event.rank == rank for event in run.events)) for rank in ranks]),
        ("sent, counted", _sizes(run.sent)),
    ]
    if run.wire is not None:
        payload = run.wire.sent
        found.append(("sent, wire", _sizes(run.wire.total.sum(axis=1) if payload is None else payload)))
    return found


def notes(run: Run) -> list[str]:
    """What a reader must know about the numbers."""
    found = [str(run.sent.note)] if run.sent.note else []
    if run.wire is None and run.why_no_wire:
        found.append(f"no wire bytes: {run.why_no_wire}")
    if run.wire is not None and run.wire.payload is None:
        found.append("wire bytes with framing: the messages cannot be told apart from it")
    if run.wire is not None and run.wire.note:
        found.append(f"wire: {run.wire.note}")
    found += run.notes
    return (
        found
        if len(found) <= _MOST_NOTES
        else [*found[:_MOST_NOTES], f"… and {len(found) - _MOST_NOTES} more"]
    )


def text(run: Run) -> str:
    """The table as text."""
    table = columns(run)
    widths = [max(len(cell) for cell in [title, *cells]) for title, cells in table]
    rows = [[title for title, _ in table], *zip(*(cells[:_MOST_ROWS] for _, cells in table), strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    more = [f"… and {run.ranks - _MOST_ROWS} more ranks"] if run.ranks > _MOST_ROWS else []
    return "\n".join([_head(run), *lines, *more, *(f"note: {note}" for note in notes(run))])


def page(run: Run) -> str:
    """The table as HTML: colours of the page around it, nothing loaded from elsewhere."""
    table = columns(run)
    head = "".join(f'<th style="text-align: right; {_LINES}">{_safe(title)}</th>' for title, _ in table)
    rows = zip(*(cells[:_MOST_ROWS] for _, cells in table), strict=True)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    below = [f"… and {run.ranks - _MOST_ROWS} more ranks"] if run.ranks > _MOST_ROWS else []
    below += [f"Note: {note}" for note in notes(run)]
    small = "".join(f'<div style="opacity: 0.8; font-size: 90%">{_safe(line)}</div>' for line in below)
    return (
        f'<div class="mindlab-run" style="color: inherit; background: none"><div>{_safe(_head(run))}</div>'
        f'<table style="border-collapse: collapse; color: inherit; background: none">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{small}</div>"
    )


def _head(run: Run) -> str:
    name = f"{run.name}: " if run.name else ""
    return f"{name}{run.provenance}"


def _sizes(numbers: Measured) -> list[str]:
    return [units.size(float(nbytes)) for nbytes in numbers]


def _cell(cell: str) -> str:
    return f'<td style="text-align: right; background: none">{_safe(cell)}</td>'


def _safe(words: str) -> str:
    return html.escape(words)
