"""The pages in Markdown: their links lead somewhere, their table is true, their example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Would catch a page that was moved, or a picture that is not there. Examples in code are left out."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_table_of_chapters_is_true() -> None:
    """Would catch a chapter called ready that is not there, or a ready one still called planned."""
    rows = re.findall(r"^\| (\d\d) .*\| (\w+) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    ready = {number for number, state in rows if state == "ready"}
    assert ready == {path.name[:2] for path in (ROOT / "notebooks" / "src").glob("[0-9][0-9]_*.md")}
    assert [number for number, _ in rows] == sorted(number for number, _ in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="the wire is counted on Linux alone")
def test_the_first_example_runs() -> None:
    """Would catch a README whose first cell fails, or shows other numbers than it says."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert code
    # A function given to -c has no source file: the example must not need one.
    told = "\nprint(run.values, run.traffic.sum(axis=1).tolist(), run.wire.payload.sum(axis=1).tolist())"
    done = subprocess.run([sys.executable, "-c", code[1] + told], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    sent = [6_000_000] * 4
    assert done.stdout.splitlines()[-1] == f"{[6.0] * 4} {sent} {sent}"
