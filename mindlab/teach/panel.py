"""The look of exercises, cases, guesses, quizzes and progress: a framed box for light and dark pages.

Colours are those of the page around; a tone is a bar at the left and a faint tint, and always a word beside
it. Nothing is fetched, there are no ids, and the same content gives the same text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from mindlab import notebook

GOOD, BAD, OPEN = "good", "bad", "open"
_TONES = {GOOD: ("#1a9e4b", "26,158,75"), BAD: ("#d1402f", "209,64,47"), OPEN: ("#8c8c8c", "140,140,140")}
MARKS = {GOOD: "✓", BAD: "✗", OPEN: "…"}


def box(title: str, parts: Iterable[str], *, tone: str = OPEN, word: str = "", kind: str = "lesson") -> str:
    """A box: title, a word on how it stands, and the parts (HTML) below."""
    bar, tint = _TONES[tone]
    state = f'<strong style="white-space:nowrap">{MARKS[tone]} {html.escape(word)}</strong>' if word else ""
    head = (
        f'<div style="display:flex;gap:1em;justify-content:space-between;align-items:baseline">'
        f"<strong>{inline(title)}</strong>{state}</div>"
    )
    return (
        f'<div class="ml-{kind}" style="border:1px solid rgba({tint},.45);border-left:5px solid {bar};'
        f"border-radius:4px;background:rgba({tint},.07);color:inherit;padding:.6em .9em;margin:.4em 0;"
        f'max-width:52em;line-height:1.45">{head}{"".join(parts)}</div>'
    )


def text(words: str) -> str:
    """A paragraph for each block of lines between empty lines; `code` in backticks is set as code."""
    blocks = [block for block in words.strip().split("\n\n") if block.strip()]
    return "".join(f'<p style="margin:.4em 0">{inline(block)}</p>' for block in blocks)


def code(lines: str) -> str:
    """Lines of code or of a traceback, kept as they are."""
    style = (
        "margin:.4em 0;padding:.5em .7em;white-space:pre-wrap;overflow-wrap:anywhere;"
        "background:rgba(140,140,140,.13);color:inherit;"
        "border:0;border-radius:3px;font-size:.92em;line-height:1.4"
    )
    return f'<pre style="{style}">{html.escape(lines.rstrip())}</pre>'


def small(words: str) -> str:
    """A line of provenance."""
    return f'<div style="opacity:.8;font-size:.85em;margin-top:.4em">{inline(words)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table of plain texts; the columns in `right` hold numbers. The first cell of a row is its heading."""
    line = "border-bottom:1px solid rgba(140,140,140,.5)"

    def cell(tag: str, index: int, content: str, extra: str = "") -> str:
        side = "right" if index in right else "left"
        style = f"text-align:{side};padding:.15em .8em .15em 0;background:none;color:inherit;{extra}"
        scope = ' scope="row"' if tag == "th" and not extra else ' scope="col"' if tag == "th" else ""
        return f'<{tag} style="{style}"{scope}>{inline(content)}</{tag}>'

    row_start = '<tr style="background:none">'  # JupyterLab stripes rows, also inside of a tinted box
    top = "".join(cell("th", i, title, line) for i, title in enumerate(head))
    body = "".join(
        row_start + "".join(cell("td" if i else "th", i, content) for i, content in enumerate(row)) + "</tr>"
        for row in rows
    )
    thead = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    style = "border-collapse:collapse;margin:.4em 0;color:inherit;background:none;font-size:.95em"
    return f'<table style="{style}">{thead}<tbody>{body}</tbody></table>'


def folded(summary: str, body: str, *, opened: bool = False) -> str:
    """A part that opens by a click or by the keyboard."""
    state = " open" if opened else ""
    return (
        f'<details style="margin:.4em 0"{state}><summary style="cursor:pointer">{html.escape(summary)}'
        f"</summary>{body}</details>"
    )


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The same table as lines of text."""
    cells = [list(head), *map(list, rows)] if any(head) else list(map(list, rows))
    widths = [max(len(plain(row[i])) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(plain(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def short(value: object) -> str:
    """What a person handed over: as it is written, or its kind where that is long."""
    written = repr(value)
    return f"a {type(value).__name__}" if "\n" in written or len(written) > 60 else written


def plain(words: str) -> str:
    """A text without the marks of `text`."""
    return words


def publish(bundle: dict[str, object]) -> bool:
    """Shows a bundle in the notebook; False outside of one."""
    if notebook.shell() is None:
        return False
    from IPython.display import publish_display_data

    publish_display_data(bundle)  # type: ignore[no-untyped-call]
    return True


def inline(words: str) -> str:
    """Escaped text with code between backticks and formulas between dollar signs marked."""
    safe = html.escape(words.replace("\n", " "), quote=False)
    safe = re.sub(r"\$([^$]+)\$", r'<span class="math">$\1$</span>', safe)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
