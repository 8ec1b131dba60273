"""The chapters without an answer, and with other parameters: they run to their end, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chapter_runs import CHAPTERS, asked_for, execute, lessons, verdicts

pytestmark = pytest.mark.timeout(1200)  # all chapters run in the first test that needs them
VARIANTS = {
    "01": {"ranks": 3, "numel": 1680},
    "02": {"ranks": 3, "sequence": 8, "hidden": 48},
    "03": {"ranks": 3, "tokens": 24, "hidden": 96},
    "04": {"ranks": 3, "sequence": 30, "heads": 4},
    "05": {"ranks": 3, "sequence": 120, "head_dim": 8},
    "06": {"ranks": 3, "sequence": 56},
    "07": {"ranks": 3, "steps": 5},
    "08": {"ranks": 3, "new_tokens": 3, "length": 16},
    "09": {"ranks": 6, "sequence": 60, "head_dim": 8},
    "10": {"ranks": 3, "length": 25, "head_dim": 8},
    "11": {"ranks": 3, "width": 21},
    "12": {"ranks": 4, "steps": 2},
}
"""Other parameters with which a chapter must run to its end, too."""


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every chapter, executed once without an answer."""
    return execute(tmp_path_factory.mktemp("opened"), "exercises", *asked_for(request))


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_open_chapter_runs_to_its_end_unanswered(opened: dict[str, Any], name: str) -> None:
    """Would catch a stub that breaks a later cell, and an empty answer that passes or fails."""
    row = opened[name]
    assert row["status"] == "passed", row["error"]
    asked = [check for check in verdicts(row["notebook"]) if "exercise" in check]
    assert sorted(check["exercise"] for check in asked) == sorted(lessons(name))
    assert {check["verdict"] for check in asked} == {"not answered yet"}, asked
    unjudged = [check["verdict"] for check in row["checks"] if check["passed"] is None]
    assert unjudged.count("not answered yet") >= len(asked)


@pytest.mark.parametrize("number", sorted(VARIANTS))
def test_other_ranks_and_sizes_work_too(number: str, tmp_path: Path) -> None:
    """Would catch a chapter that is right for its default parameters only."""
    (row,) = execute(tmp_path, "solutions", number, **VARIANTS[number]).values()
    assert row["status"] == "passed", row["error"]
