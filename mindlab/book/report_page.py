"""The report as one page that a person reads in ten seconds: self-contained, light and dark."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from mindlab.book.report import Report, provenance, tally, word

_STYLES = [Path(__file__).with_name(name) for name in ("style.css", "cells.css")]


def as_html(report: Report, *, suffix: str = ".ipynb") -> str:
    """The text of report.html: the verdict, one line a chapter, then what each chapter checked.

    `suffix` is that of the chapters that lie beside it.
    """
    chapters = report["chapters"]
    return f"""<!doctype html>
<html lang="en" class="report"><head><meta charset="utf-8"><title>{_verdict(report)[0]} · MindLab</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
{style()}</style></head>
<body><header class="top"><span class="book">MindLab: report of a run</span></header>
<main>{_head(report)}
<div class="wide"><table class="list">
<thead><tr><th>Chapter</th><th>Status</th><th>Checks</th><th class="number">Seconds</th></tr></thead>
<tbody>{"".join(_line(chapter) for chapter in chapters)}</tbody></table></div>
{"".join(_section(chapter, suffix) for chapter in chapters)}</main>
<footer class="end">{html.escape(provenance(report))}</footer></body></html>
"""


def style() -> str:
    """The style sheet of the single pages and of the report."""
    return "".join(path.read_text(encoding="utf-8") for path in _STYLES)


def badge(passed: bool | None, *, text: str) -> str:
    """A coloured word that also says it in letters; grey for what is neither passed nor failed."""
    kind = {True: "passed", False: "failed", None: "open"}[passed]
    return f'<span class="badge {kind}">{html.escape(text)}</span>'


def counted(checks: list[dict[str, Any]]) -> str:
    """ "12 passed, 1 failed, 2 not checked, 1 not answered yet", without zeros."""
    return ", ".join(f"{count} {state}" for state, count in tally(checks).items() if count) or "none"


def _verdict(report: Report) -> tuple[str, bool]:
    chapters = report["chapters"]
    failed = sum(chapter["status"] != "passed" for chapter in chapters)
    if failed:
        return f"{failed} of {len(chapters)} chapters failed", False
    return f"All {len(chapters)} chapters passed" if len(chapters) != 1 else "The chapter passed", True


def _head(report: Report) -> str:
    text, good = _verdict(report)
    checks = [row for chapter in report["chapters"] for row in chapter["checks"]]
    seconds = sum(chapter["seconds"] for chapter in report["chapters"])
    detail = f"checks: {counted(checks)} · {seconds:.0f} s in all · {html.escape(provenance(report))}"
    return f'<p class="verdict {"passed" if good else "failed"}">{text}<small>{detail}</small></p>'


def _line(chapter: dict[str, Any]) -> str:
    name = html.escape(chapter["chapter"])
    status = badge(chapter["status"] == "passed", text=chapter["status"])
    why = (chapter["error"] or "").partition("\n")[0]
    said = [counted(chapter["checks"])] if chapter["checks"] or not why else []
    said += [f"<small>{html.escape(why if len(why) <= 160 else why[:159] + '…')}</small>"] if why else []
    return (
        f'<tr><td><a href="#{name}">{name}</a></td><td>{status}</td>'
        f'<td style="overflow-wrap: anywhere">{"<br>".join(said)}</td>'
        f'<td class="number">{chapter["seconds"]:.1f}</td></tr>'
    )


def _section(chapter: dict[str, Any], suffix: str) -> str:
    name = html.escape(chapter["chapter"])
    kind = html.escape(f"{chapter['language']}, {chapter['edition']}, {chapter['seconds']:.1f} s")
    notebook = f'<a href="{name}{suffix}">{name}</a>'
    error = f'<pre class="trouble">{html.escape(chapter["error"])}</pre>' if chapter["error"] else ""
    checks = _checks(chapter["checks"])
    if chapter["status"] == "passed" and chapter["checks"]:  # nobody needs them first
        checks = f"<details><summary>{counted(chapter['checks'])}</summary>{checks}</details>"
    return (
        f'<h2 id="{name}">{notebook} {badge(chapter["status"] == "passed", text=chapter["status"])}'
        f'<span class="number">{kind}</span></h2>{error}{checks}'
    )


def _checks(checks: list[dict[str, Any]]) -> str:
    if not checks:
        return "<p>No check.</p>"
    rows = "".join(_check(row) for row in checks)
    head = "".join(
        f"<th{kind}>{title}</th>"
        for title, kind in (
            ("Claim", ""),
            ("Predicted", ' class="number"'),
            ("Measured", ' class="number"'),
            ("Within", ' class="number"'),
            ("Provenance", ""),
            ("Verdict", ""),
        )
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="wide"><table class="list">{table}</table></div>'


def _check(row: dict[str, Any]) -> str:
    unit = f" {row['unit']}" if row.get("unit") else ""
    cells = [_value(row["predicted"], unit), _value(row["measured"], unit), _value(row["within"], "")]
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    provenance_text = html.escape(str(row.get("provenance") or ""))
    return (
        f'<tr><td style="white-space:normal;color:inherit">{html.escape(str(row["claim"]))}</td>{numbers}'
        f"<td>{provenance_text}</td><td>{badge(row['passed'], text=word(row))}</td></tr>"
    )


def _value(value: Any, unit: str) -> str:
    """A number (or a short list by rank) with its unit; long lists are cut."""
    if value is None:
        return "–"
    if isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = str(value) if not isinstance(value, list) or len(value) <= 8 else f"{str(value[:8])[:-1]}, …]"
    return html.escape((text if len(text) < 60 else text[:57] + "…") + unit)
