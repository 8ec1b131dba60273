"""One report of one run: report.json, and what the other forms of it share."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mindlab.book.task import Outcome

Report = dict[str, Any]

_PACKAGES = ("mindlab-workbook", "torch", "torch_npu", "numpy")


def make(
    outcomes: Sequence[Outcome], *, language: str, edition: str, backend: str, ranks: int | None
) -> Report:
    """The report as plain values:

    {"date", "host", "versions": {...}, "backend", "ranks", "chapters": [{"chapter", "language", "edition",
    "status": "passed" or "failed", "seconds", "error": text or None, "checks": [{"claim", "predicted",
    "measured", "unit", "provenance", "within", "passed": true, false or None,
    "verdict": "passed", "failed", "not checked" or "not answered yet"}]}]}
    """
    chapters = [
        {
            "chapter": outcome.chapter,
            "language": language,
            "edition": edition,
            "status": "passed" if outcome.passed else "failed",
            "seconds": outcome.seconds,
            "error": outcome.error,
            "checks": list(outcome.checks),
        }
        for outcome in outcomes
    ]
    return {
        "date": datetime.date.today().isoformat(),
        "host": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": versions(),
        "backend": backend,
        "ranks": ranks,
        "chapters": chapters,
    }


def versions() -> dict[str, str]:
    """Versions of python and of what the chapters run on, without importing any of it."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name.removesuffix("-workbook")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """0 all passed; else the highest that applies: 1 failed, 3 a deadline passed, 4 a kernel died."""
    codes = {"passed": 0, "failed": 1, "interrupted": 1, "timeout": 3, "died": 4}
    return max((codes[outcome.ending] for outcome in outcomes), default=0)


def provenance(report: Report) -> str:
    """One line: "2025-05-01 · 4 ranks · gloo · python 3.11.7 · torch 2.13.0 · x86_64, 2 cores"."""
    ranks = f"{report['ranks']} ranks" if report.get("ranks") else ""
    named = [f"{name} {version}" for name, version in report.get("versions", {}).items()]
    parts = [report.get("date", ""), ranks, report.get("backend", ""), *named, report.get("host", "")]
    return " · ".join(part for part in parts if part)


def tally(checks: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many checks passed, failed, were not checked, and wait for an answer."""
    count = dict.fromkeys(("passed", "failed", "not checked", "not answered yet"), 0)
    for row in checks:
        count[word(row)] += 1
    return count


def word(check: dict[str, Any]) -> str:
    """The verdict of a check in words: "passed", "failed", "not checked" or "not answered yet"."""
    if check["passed"] is None:
        return "not answered yet" if check.get("verdict") == "not answered yet" else "not checked"
    return "passed" if check["passed"] else "failed"


def write_text(path: Path, text: str) -> None:
    """Writes a file in one step: a reader sees the old one or the new one."""
    partial = path.with_name(path.name + ".tmp")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def as_json(report: Report) -> str:
    """The text of report.json."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"
