"""A project of small chapters, each of which passes or fails in its own way, and how to run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from mindlab.book import builder

SHOW = """
from IPython.display import display
def row(claim, passed):
    data = {"claim": claim, "predicted": 1, "measured": 1.5, "unit": "B", "provenance": "counted",
            "within": 0, "passed": passed, "formula": "x"}
    display({"application/vnd.mindlab.check+json": data, "text/plain": claim}, raw=True)
"""

CHAPTERS = {
    "01_good": [
        SHOW + "row('holds', True); row('too few ranks', None)",
        "import os, sys\nprint(ranks, name, flag, sizes, maybe)",
        "print(open('data.txt').read().strip(), os.environ['MINDLAB_BULK'], sys.prefix)",
        "for i in range(50): sys.stderr.write(f'\\r{i} of 50'); sys.stderr.flush()",
    ],
    "02_check": [SHOW + "row('does not hold', False)\nraise ValueError('2 is not 3')", "x = 1"],
    "03_raises": ["print('before')", "print('rank 1 says why')\nvalues = {}\nvalues['gone']", "x = 1"],
    "04_exits": ["import sys\nsys.exit(0)", "x = 1"],
    "05_dies": ["print('last words')\nimport os; os._exit(3)", "x = 1"],
    "06_slow": ["import time\ntime.sleep(60)"],
    "07_silent": [SHOW + "row('nobody raised', False)"],
    "08_leaves": [
        "import subprocess, sys",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'], start_new_session=True)",
    ],
    "09_flood": ["print('x' * 300_000)"],
    "10_skips": ["# tags: npu\nraise RuntimeError('no card')", "x = 1"],
}
PARAMETERS = (
    "ranks = 4  # how many\nname = 'a'\nflag = True\nsizes = [1]\nmaybe: str | None = 'x'\nlanguage = \"en\""
)


def source(title: str, cells: list[str]) -> str:
    parts = [f"---\ntitle: {title}\n---\n# {title}\n"]
    for tags, code in [("parameters", PARAMETERS)] + [
        ("npu" if "tags: npu" in code else "", code.strip()) for code in cells
    ]:
        parts.append("```{code-cell}\n" + (f":tags: [{tags}]\n" if tags else "") + code + "\n```\n")
    return "\n".join(parts)


def build(root: Path, chapters: dict[str, list[str]]) -> Path:
    """A project's folder with these chapters, their notebooks built."""
    (root / "notebooks/src").mkdir(parents=True)
    for name, cells in chapters.items():
        (root / f"notebooks/src/{name}.md").write_text(source(name, cells), encoding="utf-8")
    written, found = builder.build(root)
    assert not found and len(written) == 2 * len(chapters)
    return root


def make_project(root: Path) -> Path:
    """The project of CHAPTERS, and a file beside its notebooks."""
    build(root, CHAPTERS)
    (root / "notebooks/solutions/data.txt").write_text("beside the notebook")
    return root


def edit(root: Path, name: str, change: Callable[[Any], None]) -> None:
    """Changes a built notebook as a person might, in both editions."""
    for path in (root / f"notebooks/{name}.ipynb", root / f"notebooks/solutions/{name}.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        change(notebook)
        path.write_text(json.dumps(notebook), encoding="utf-8")


@dataclass
class Result:
    code: int
    text: str
    out: Path

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def chapter(self, name: str) -> dict[str, Any]:
        return next(one for one in self.report["chapters"] if one["chapter"] == name)

    def cells(self, name: str) -> list[Any]:
        notebook = nbformat.read(self.out / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        return [cell for cell in notebook.cells if cell.cell_type == "code"]


def command(root: Path, out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mindlab", "run", "--root", str(root), "--out", str(out), *arguments]


def environment(root: Path) -> dict[str, str]:
    """With a kernel named python3 that cannot run, as an old environment leaves it in a home folder."""
    spec = root / "home/kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(json.dumps({"argv": ["/bin/false"], "display_name": "old", "language": "python"}))
    return {**os.environ, "JUPYTER_PATH": str(root / "home"), "JUPYTER_DATA_DIR": str(root / "home")}


def run(root: Path, out: Path, *arguments: str) -> Result:
    done = subprocess.run(
        command(root, out, *arguments),
        env=environment(root),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout + done.stderr, out)
