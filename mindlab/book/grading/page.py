"""The marks of a class as one page: self-contained, light and dark, readable without colours."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mindlab.book.grading import table
from mindlab.book.report_page import style

_BADGES = {"passed": "passed", "failed": "failed", "did not run": "failed"}
_SIGNS = {"passed": "✓", "failed": "✗", "not answered": "…", "not found": "?", "did not run": "!"}


def as_html(about: Mapping[str, Any], submissions: Sequence[table.Graded]) -> str:
    """The text of grades.html: the verdict, one line a learner, what went wrong, then every submission."""
    title, good = _verdict(submissions)
    return f"""<!doctype html>
<html lang="en" class="report"><head><meta charset="utf-8"><title>{title} · MindLab</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
{style()}
.grades td:not(:first-child), .grades th:not(:first-child) {{ text-align: center; }}
.grades td:first-child {{ color: inherit; }}
.answers td:first-child {{ width: 11rem; }}
.answers td:nth-child(2) {{ width: 10rem; }}
.answers pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.noted {{ background: var(--open-wash); border-radius: .4rem; padding: .6rem .9rem; margin: 0 0 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }}
</style></head>
<body><header class="top"><span class="book">MindLab: grades</span></header>
<main><p class="verdict {"passed" if good else "failed"}">{title}<small>{_detail(submissions)}</small></p>
{_marks(submissions)}
{_mistakes(submissions)}
<h2>Submissions</h2>
{"".join(_section(one) for one in sorted(submissions, key=lambda one: one["key"].casefold()))}
{_left_out(about)}</main>
<footer class="end">{html.escape(_provenance(about))}</footer>
<script>
function unfold() {{ const e = document.getElementById(location.hash.slice(1)); if (e) e.open = true; }}
addEventListener("hashchange", unfold); unfold();
</script></body></html>
"""


def _verdict(submissions: Sequence[table.Graded]) -> tuple[str, bool]:
    lost = len(table.not_run(submissions))
    learners = len(table.by_learner(submissions))
    said = f"{len(submissions) - lost} of {len(submissions)} submissions graded, {learners} learners"
    return said + (f"; {lost} could not be run" if lost else ""), not lost


def _detail(submissions: Sequence[table.Graded]) -> str:
    counted = ", ".join(f"{count} {state}" for state, count in table.tally(submissions).items())
    return f"exercises: {counted or 'none yet'}"


def _marks(submissions: Sequence[table.Graded]) -> str:
    names, learners = table.exercises(submissions), table.by_learner(submissions)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = "".join(_line(learner, rows, names, submissions) for learner, rows in learners.items())
    passed = "".join(f"<td>{_passed(name, learners)}</td>" for name in names)
    head = f"<tr><th>Learner</th>{head}<th>Passed</th></tr>"
    return (
        f'<div class="wide"><table class="list grades"><thead>{head}</thead>'
        f"<tbody>{lines}</tbody><tfoot><tr><td>passed by</td>{passed}<td></td></tr></tfoot></table></div>"
    )


def _line(
    learner: str, rows: dict[str, dict[str, Any]], names: Sequence[str], submissions: Sequence[table.Graded]
) -> str:
    cells = "".join(f"<td>{_badge(rows[name]) if name in rows else ''}</td>" for name in names)
    first = next(one["key"] for one in submissions if one["learner"] == learner)
    passed = sum(row["state"] == "passed" for row in rows.values())
    link = f'<a href="#{_anchor(first)}">{html.escape(learner)}</a>'
    return f"<tr><td>{link}</td>{cells}<td>{passed} of {len(rows)}</td></tr>"


def _passed(name: str, learners: Mapping[str, dict[str, dict[str, Any]]]) -> str:
    states = [rows[name]["state"] for rows in learners.values() if name in rows]
    return f"{states.count('passed')} of {len(states)}"


def _badge(row: Mapping[str, Any]) -> str:
    state, says = row["state"], html.escape(row.get("says", ""))
    kind = _BADGES.get(state, "open")
    return f'<span class="badge {kind}" title="{says}">{_SIGNS[state]} {state}</span>'


def _mistakes(submissions: Sequence[table.Graded]) -> str:
    """The sentences that several answers share: what a class should hear about."""
    said = Counter(
        (row["exercise"], row["says"])
        for one in submissions
        for row in one["rows"]
        if row["state"] == "failed" and row["says"]
    )
    if not said:
        return ""
    lines = "".join(
        f'<tr><td>{html.escape(name)}</td><td class="number">{count}</td><td>{html.escape(says)}</td></tr>'
        for (name, says), count in sorted(said.items(), key=lambda item: (item[0][0], -item[1]))
    )
    head = '<tr><th>Exercise</th><th class="number">Answers</th><th>What the check says</th></tr>'
    return (
        f'<h2>What went wrong</h2><div class="wide"><table class="list"><thead>{head}</thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _section(one: table.Graded) -> str:
    where = html.escape(one["key"])
    link = f'<a href="{html.escape(_quoted(one["executed"]))}">executed</a>' if one["executed"] else ""
    about = " · ".join(filter(None, [html.escape(one["chapter"]), f"{one['seconds']:.0f} s", link]))
    said = {row["says"] for row in one["rows"]}
    fresh = [note for note in one["notes"] if note not in said]
    notes = f'<pre class="noted">{html.escape(chr(10).join(fresh))}</pre>' if fresh else ""
    rows = "".join(_answer(row) for row in one["rows"])
    is_open = " open" if one["notes"] else ""
    return (
        f'<details id="{_anchor(one["key"])}"{is_open}>'
        f"<summary>{html.escape(one['learner'])}: {where}</summary><p>{about}</p>{notes}"
        f'<div class="wide"><table class="list answers">{rows}</table></div></details>'
    )


def _answer(row: Mapping[str, Any]) -> str:
    detail = f"<pre>{html.escape(row['detail'])}</pre>" if row.get("detail") else ""
    source = html.escape(row.get("source") or "")
    code = f"<details><summary>its code</summary><pre>{source}</pre></details>" if source else ""
    return (
        f"<tr><td>{html.escape(row['exercise'])}<br><code>{html.escape(row['function'])}</code></td>"
        f"<td>{_badge(row)}</td><td>{html.escape(row.get('says', ''))}{detail}{code}</td></tr>"
    )


def _left_out(about: Mapping[str, Any]) -> str:
    lines = "".join(f"<li>{html.escape(f'{key}: {why}')}</li>" for key, why in about["left_out"].items())
    return f"<h2>Left out</h2><ul>{lines}</ul>" if lines else ""


def _provenance(about: Mapping[str, Any]) -> str:
    named = [f"{name} {version}" for name, version in about["versions"].items()]
    backend = about["backend"] or "the host's best backend"
    return " · ".join([about["date"], f"seed {about['seed']}", backend, *named])


def _anchor(key: str) -> str:
    return "of-" + html.escape(_quoted(key))


def _quoted(path: str) -> str:
    return quote(path)
