"""A project with three executed chapters, one of them Chinese, and the site that is made of them."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mindlab.book import exporter

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
PLAYER = '<figure id="p1"><ol><li>one</li></ol><script>if (1 < 2) { window.stepped = 1; }</script></figure>'
ROW = '<table class="mindlab-check"><tr><td><span class="math">$\\frac{a}{b} &lt; c$</span></td></tr></table>'
EXPECTED = '<div class="mindlab-expected">Expected: ValueError: negative size</div>'


def shown(data: dict[str, Any], **metadata: Any) -> Any:
    return new_output("display_data", data=data, metadata=metadata)


def code(source: str, *outputs: Any, tags: tuple[str, ...] = (), count: int | None = 1) -> Any:
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata={"tags": list(tags)})


FIRST = [
    new_markdown_cell(
        "# One quokka\n\nIt costs $2(p-1)/p$ and\n\n$$\\frac{a}{b}$$\n\n[on](02_two.ipynb#Where-to)"
    ),
    new_markdown_cell("![a ring](../../figures/ring.svg)\n\n> [!WARNING]\n> Mind the gap.\n"),
    new_markdown_cell(
        "See [how it is measured](../../docs/measured.md#Wire) and [the start](../../README.md)."
    ),
    code("ranks = 4", tags=("parameters",)),
    code(
        "picture", shown({"image/svg+xml": SVG, "text/plain": "p"}, **{"image/svg+xml": {"alt": 'a "box"'}})
    ),
    code("play", shown({"text/html": PLAYER, "image/svg+xml": SVG, "text/plain": "steps"}, alt="the steps")),
    code("check", shown({"text/html": ROW, "text/markdown": "| $\\frac{a}{b}$ |", "text/plain": "row"})),
    code("fails", shown({"text/html": EXPECTED, "text/plain": "Expected: ValueError: negative size"})),
    code("print('hi')", new_output("stream", name="stdout", text="\x1b[32mhi\x1b[0m <b>\n")),
    code("answer = 42", tags=("exercise",)),
    new_markdown_cell("### Why so\n\nBecause of the ring.", metadata={"tags": ["solution"]}),
    code("hidden = 1", tags=("hide-input",)),
    code("raise RuntimeError('no card')", tags=("npu", "skip-execution"), count=None),
    new_markdown_cell("## After the solution\n\nThe end."),
]
SECOND = [new_markdown_cell("# Two\n\n## Where to\n\n[back](01_one.ipynb#One-quokka)"), code("%%ranks 4\n1")]
CHINESE = [
    new_markdown_cell("# 张量并行\n\n## 全归约的代价\n\n环形全归约需要 $2(p-1)$ 轮；KV缓存按头切分。"),
    new_markdown_cell("环境准备见[安装](../../../docs/install.md)。"),
    code("1"),
]


def make(folder: Path, first: list[Any] | None = None) -> tuple[Path, Path]:
    """The project's root and its run's folder."""
    root, run = folder / "project", folder / "project/build/run"
    for name in ("notebooks/src", "notebooks/solutions", "notebooks/zh/solutions", "figures", "build/run"):
        (root / name).mkdir(parents=True)
    (root / "figures/ring.svg").write_text(SVG)
    for name in ("README.md", "notebooks/src/terms.csv", "docs"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, root / name)
    check = {"claim": "c", "predicted": 1, "measured": 1, "unit": "B", "provenance": "wire", "within": 0}
    chapters = []
    cells = {"01_one": first or FIRST, "02_two": SECOND, "03_three": CHINESE}
    for name, written in cells.items():
        notebook = nbformat.from_dict(new_notebook(cells=json.loads(json.dumps(written))))
        (run / f"{name}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
        row = {"chapter": name, "language": "zh" if name == "03_three" else "en", "edition": "solutions"}
        chapters.append(
            row | {"status": "passed", "seconds": 2.5, "error": None, "checks": [{**check, "passed": True}]}
        )
    report = {"date": "2025-05-01", "host": "x86_64", "versions": {"torch": "2.13"}, "backend": "gloo"}
    (run / "report.json").write_text(json.dumps({**report, "ranks": 4, "chapters": chapters}))
    return root, run


def export(folder: Path, first: list[Any] | None = None) -> tuple[Path, list[str]]:
    """The site's folder and the findings."""
    root, run = make(folder, first)
    _, found = exporter.export(root, run, folder / "out", "site")
    return folder / "out", found


@cache
def built() -> tuple[Path, list[str]]:
    """The good site, made once for all tests; they leave it as it is."""
    folder = tempfile.TemporaryDirectory(prefix="mindlab-test-")
    atexit.register(folder.cleanup)
    return export(Path(folder.name))


class Tags(HTMLParser):
    """Every start tag of a page, with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def opened(address: str, profile: Path, *more: str) -> str:
    """What a browser makes of a page: its document after the scripts ran."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    wait = ["--virtual-time-budget=4000", f"--user-data-dir={profile}", *more]
    command = [str(CHROMIUM), *flags, *quiet, *wait, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout


def plain(text: str) -> str:
    """The words of HTML."""
    return re.sub(r"\s+", " ", re.sub(r"<[^<>]*>", " ", text))
