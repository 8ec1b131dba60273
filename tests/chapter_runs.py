"""Runs chapters for the tests, and reads what they showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from mindlab.book import runner
from mindlab.teach import registry

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "notebooks" / "src"
CHAPTERS = sorted(path.stem for path in SOURCES.glob("[0-8][0-9]_*.md"))
MIME = "application/vnd.mindlab.check+json"


def execute(out: Path, edition: str, *chapters: str, **parameters: int) -> dict[str, Any]:
    """The report of a run, by chapter, with the executed notebook under "notebook"."""
    given = tuple(f"{name}={value}" for name, value in parameters.items())
    wanted = runner.Wanted(out=out, chapters=chapters, parameters=given, edition=edition, jobs=2)
    runner.run(ROOT, wanted)
    rows = json.loads((out / "report.json").read_text())["chapters"]
    return {row["chapter"]: {**row, "notebook": out / f"{row['chapter']}.ipynb"} for row in rows}


def asked_for(request: pytest.FixtureRequest) -> list[str]:
    """The chapters whose tests were chosen: with `-k 02` only that one is executed."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    chosen = {call.params.get("name") for call in calls}
    return [name for name in CHAPTERS if name in chosen]


def verdicts(path: Path) -> list[dict[str, Any]]:
    """Every check that an executed notebook shows."""
    cells = nbformat.read(path, as_version=4).cells
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return [row[MIME] for row in data if MIME in row]


def lessons(name: str) -> list[str]:
    """The names of the chapter's exercises and cases: what waits for an answer."""
    return [one.name for one in (*registry.exercises(), *registry.cases()) if one.name[:2] == name[:2]]
