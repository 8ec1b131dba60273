"""`mindlab export`: pages from executed notebooks, offline and whole, or a finding that names the fault."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mindlab.book import exporter, printing
from mindlab.errors import MindlabError

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PLAYER = (
    '<figure id="p1"><ol><li>one</li></ol><script>if (1 < 2) { document.title = "<p>"; }</script></figure>'
)
ROW = '<table class="mindlab-check"><tr><td><span class="math">$\\frac{a}{b} &lt; c$</span></td></tr></table>'


def shown(data: dict[str, Any], **metadata: Any) -> Any:
    return new_output("display_data", data=data, metadata=metadata)


def code(source: str, *outputs: Any, tags: tuple[str, ...] = (), count: int | None = 1) -> Any:
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata={"tags": list(tags)})


FIRST = [
    new_markdown_cell(
        "# 第一章 One\n\nIt costs $2(p-1)/p$ and\n\n$$\\frac{a}{b}$$\n\n[next](02_two.ipynb#Where)"
    ),
    new_markdown_cell(
        "![a ring](../../figures/ring.svg) and `![no](link.svg)`\n\n> [!WARNING]\n> Mind the gap.\n"
    ),
    new_markdown_cell("```python\nx = '[text](not/a/link.md)'\n```\n\n[the readme](../../README.md)"),
    code("ranks = 4", tags=("parameters",)),
    code(
        "picture", shown({"image/svg+xml": SVG, "text/plain": "p"}, **{"image/svg+xml": {"alt": 'a "ring"'}})
    ),
    code("photo", shown({"image/png": PNG, "text/plain": "p"}, alt="one dot")),
    code("play", shown({"text/html": PLAYER, "image/svg+xml": SVG, "text/plain": "steps"}, alt="the steps")),
    code("check", shown({"text/html": ROW, "text/markdown": "| $\\frac{a}{b}$ |", "text/plain": "row"})),
    code("print('hi')", new_output("stream", name="stdout", text="\x1b[32mhi\x1b[0m <b>\n")),
    code("answer = 42", tags=("exercise",)),
    code("secret", tags=("solution",)),
    code("hidden = 1", tags=("hide-input",)),
]
SECOND = [new_markdown_cell("# Two\n\n## Where\n\n[back](01_one.ipynb)"), code("1", count=1)]


def project(
    tmp_path: Path, first: list[Any], *, status: str = "passed", kind: str = "solutions"
) -> tuple[Path, Path]:
    """A project with two executed chapters; its root and the run's folder."""
    root, run = tmp_path / "project", tmp_path / "project/build/run"
    for folder in ("notebooks/src", "notebooks/solutions", "figures"):
        (root / folder).mkdir(parents=True)
    run.mkdir(parents=True)
    (root / "figures/ring.svg").write_text(SVG)
    (root / "README.md").write_text("# Read me")
    chapters = []
    for name, cells in (("01_one", first), ("02_two", SECOND)):
        notebook = new_notebook(cells=json.loads(json.dumps(cells)))
        (run / f"{name}.ipynb").write_text(nbformat.writes(nbformat.from_dict(notebook)))
        row = {"claim": "c", "predicted": 1, "measured": 1, "unit": "B", "provenance": "wire", "within": 0}
        chapters.append(
            {"chapter": name, "language": "en", "edition": kind, "status": status, "seconds": 2.5}
            | {"error": None, "checks": [{**row, "passed": True}]}
        )
    report = {"date": "2025-05-01", "host": "x86_64", "versions": {"torch": "2.13"}, "backend": "gloo"}
    (run / "report.json").write_text(json.dumps({**report, "ranks": 4, "chapters": chapters}))
    return root, run


def export(tmp_path: Path, first: list[Any], to: str = "html", **options: Any) -> tuple[str, list[str], Path]:
    """The first chapter's page, the findings, and the folder of the pages."""
    root, run = project(tmp_path, first, **options)
    pages, found = exporter.export(root, run, tmp_path / "out", to)
    return pages[1].read_text(encoding="utf-8"), found, tmp_path / "out"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str], Path]:
    return export(tmp_path_factory.mktemp("site"), FIRST)


@pytest.fixture(scope="module")
def markdown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str], Path]:
    return export(tmp_path_factory.mktemp("markdown"), FIRST, "markdown")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_a_whole_chapter_has_no_finding(site: tuple[str, list[str], Path]) -> None:
    """Catches an inspection that complains about good pages."""
    assert site[1] == []


def test_pages_load_nothing_from_the_net(site: tuple[str, list[str], Path]) -> None:
    """Catches MathJax, require.js, fonts: a page on an air-gapped host would lose them."""
    for path in site[2].glob("*.html"):
        loaded = [
            a.get("src") or a.get("href")
            for t, a in Tags(path.read_text()).seen
            if t in ("script", "link", "img")
        ]
        assert not [one for one in loaded if one and re.match(r"(https?:)?//", one)]
        assert path.stat().st_size < 40_000
    assert "http" not in (site[2] / "style.css").read_text()


def test_formulas_are_mathml(site: tuple[str, list[str], Path]) -> None:
    """Catches raw TeX in prose and in the rows of checks."""
    assert site[0].count("<math") == 3 and "mfrac" in site[0] and "$" not in site[0]


def test_every_picture_has_its_authors_words(site: tuple[str, list[str], Path]) -> None:
    """Catches pictures lost on the way, and hollow alt texts."""
    pictures = [a for tag, a in Tags(site[0]).seen if tag == "img"]
    assert [a["alt"] for a in pictures] == ["a ring", 'a "ring"', "one dot"]
    assert all((site[2] / str(a["src"])).is_file() for a in pictures)


def test_scripts_of_outputs_survive_and_need_no_widget(site: tuple[str, list[str], Path]) -> None:
    """Catches an exporter that breaks the step-through player or prefers its static picture."""
    assert PLAYER in site[0]


def test_links_lead_to_pages(site: tuple[str, list[str], Path]) -> None:
    """Catches links that still point to notebooks, and files that are not there."""
    assert 'href="02_two.html#Where"' in site[0] and ".ipynb" not in site[0]
    assert 'href="files/README.md"' in site[0] and (site[2] / "files/README.md").read_text() == "# Read me"
    assert "[text](not/a/link.md)" in re.sub(r"<[^>]+>", "", site[0]).replace("&#39;", "'")
    assert '<a class="book" href="index.html">' in site[0] and 'class="next" href="02_two.html"' in site[0]


def test_solutions_and_hidden_code_are_folded(site: tuple[str, list[str], Path], tmp_path: Path) -> None:
    """Catches a solution in plain sight; in the exercise edition the open place must be visible."""
    folds = re.findall(r"<details class=\"solution fold\">.*?</details>", site[0], re.DOTALL)
    assert len(folds) == 2 and "42" in folds[0] and "secret" in folds[1]
    page, _, _ = export(tmp_path, FIRST[:1] + FIRST[9:10], kind="exercises")
    assert "<details" not in page and "42" in page


def test_text_outputs_are_escaped_and_coloured(site: tuple[str, list[str], Path]) -> None:
    """Catches control characters and a program's output read as HTML."""
    assert "&lt;b&gt;" in site[0] and "\x1b" not in site[0] and "ansi-green" in site[0]


def test_title_provenance_and_note(site: tuple[str, list[str], Path]) -> None:
    """Catches pages without a name, without their origin, and a note box shown as a quote."""
    assert "<title>第一章 One · MindLab</title>" in site[0]
    assert "2025-05-01 · 4 ranks · gloo · torch 2.13 · x86_64" in site[0]
    assert 'class="note warning"' in site[0] and "[!WARNING]" not in site[0]


def test_the_index_lists_chapters_with_their_status(site: tuple[str, list[str], Path]) -> None:
    """Catches an index that hides a chapter, or says nothing of how it went."""
    text = (site[2] / "index.html").read_text(encoding="utf-8")
    assert 'href="01_one.html">第一章 One</a>' in text and text.count('badge passed">passed') == 2
    assert "1 passed" in text


def test_markdown_has_one_link_a_picture_and_no_script(markdown: tuple[str, list[str], Path]) -> None:
    """Catches a thousand lines of script, base64 pictures, and lost alt texts."""
    text, found, out = markdown
    assert found == [] and "<script" not in text and "base64" not in text and "\x1b" not in text
    pictures = re.findall(r"!\[([^\]]*)\]\((files/[^)]+)\)", text)
    assert [alt for alt, _ in pictures] == ["a ring", 'a "ring"', "one dot", "the steps"]
    assert all((out / link).is_file() for _, link in pictures)
    assert "[next](02_two.md#Where)" in text and "| $\\frac{a}{b}$ |" in text
    assert "<summary>Solution</summary>" in text


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (new_markdown_cell("![x](../../figures/gone.svg)"), "missing picture ../../figures/gone.svg"),
        (new_markdown_cell("[x](../gone.md)"), "broken link ../gone.md"),
        (new_markdown_cell("[x](../../../../etc/hostname)"), "broken link"),
        (new_markdown_cell("[x](07_gone.ipynb)"), "not among the exported chapters"),
        (new_markdown_cell("[x](02_two.ipynb#Nowhere)"), "no such heading"),
        (new_markdown_cell("[x](#Nowhere)"), "no such heading"),
        (new_markdown_cell("![](../../figures/ring.svg)"), "without an alt text"),
        (new_markdown_cell('<img src="https://example.org/x.png" alt="x">'), "loads from the net"),
        (new_markdown_cell("$\\frac{a}$"), "cannot set the formula"),
        (code("p", shown({"image/png": PNG})), "a picture without an alt text"),
        (
            code("e", new_output("error", ename="KeyError", evalue="'x'", traceback=["t"])),
            "ends in KeyError: 'x'",
        ),
        (code("t", new_output("stream", text="Traceback (most recent call last):\n")), "prints a traceback"),
        (code("n", count=None), "was not executed"),
        (
            code("w", shown({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider()"})),
            "widget",
        ),
        (code("f", shown({"text/plain": "<Figure size 640x480 with 1 Axes>"})), "could not be displayed"),
    ],
)
def test_each_fault_of_a_page_is_named(tmp_path: Path, cell: Any, words: str) -> None:
    """Catches a broken page that is exported with exit code 0."""
    _, found, _ = export(tmp_path, [new_markdown_cell("# One"), cell])
    assert any("01_one" in line and words in line for line in found), found


def test_a_chinese_page_speaks_chinese(tmp_path: Path) -> None:
    """Catches English buttons, and a page whose language a browser must guess (and so its font)."""
    root, run = project(tmp_path, [new_markdown_cell("# 一")])
    report = json.loads((run / "report.json").read_text())
    for chapter in report["chapters"]:
        chapter["language"] = "zh"
    (run / "report.json").write_text(json.dumps(report))
    pages, found = exporter.export(root, run, tmp_path / "out")
    index, page = (path.read_text(encoding="utf-8") for path in pages[:2])
    assert not found and 'lang="zh-CN"' in page and "下一章" in page and "目录" in page
    assert 'lang="zh-CN"' in index and "章节" in index


def test_a_failed_chapter_is_exported_and_named(tmp_path: Path) -> None:
    """Catches a site that passes although its chapter failed."""
    _, found, _ = export(tmp_path, FIRST[:1], status="failed")
    assert "01_one: the chapter failed in its run" in found


def test_a_skipped_cell_says_so(tmp_path: Path) -> None:
    """Catches a cell for NPUs that looks as if it had printed nothing."""
    page, found, _ = export(
        tmp_path, [new_markdown_cell("# One"), code("npu()", tags=("npu", "skip-execution"), count=None)]
    )
    assert "Not executed here" in page and not found


def test_a_folder_of_someone_else_is_not_emptied(tmp_path: Path) -> None:
    """Catches an export that deletes a person's files."""
    root, run = project(tmp_path, FIRST)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.md").write_text("precious")
    with pytest.raises(MindlabError, match="holds files that no export made"):
        exporter.export(root, run, tmp_path / "mine")
    exporter.export(root, run, tmp_path / "out")
    (tmp_path / "out/old.html").write_text("stale")
    exporter.export(root, run, tmp_path / "out")
    assert not (tmp_path / "out/old.html").exists() and (tmp_path / "mine/thesis.md").exists()


def test_export_without_a_run_says_what_to_do(tmp_path: Path) -> None:
    """Catches a traceback where a person only forgot a step."""
    with pytest.raises(MindlabError, match="mindlab run"):
        exporter.export(tmp_path, tmp_path, tmp_path / "out")


def test_without_a_browser_pdf_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an empty PDF or a traceback on a host without chromium."""
    monkeypatch.setenv("MINDLAB_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(MindlabError, match="apt-get install chromium"):
        printing.print_all([tmp_path / "x.html"], tmp_path)


@pytest.mark.skipif(not printing.chromium(), reason="needs chromium: prints the real page")
def test_pdf_holds_the_whole_chapter(tmp_path: Path) -> None:
    """Catches empty PDFs, folded solutions that print as nothing, and left-over pages."""
    root, run = project(tmp_path, FIRST)
    pages, found = exporter.export(root, run, tmp_path / "out", "pdf")
    assert [page.name for page in pages] == ["01_one.pdf", "02_two.pdf"] and not found
    assert pages[0].read_bytes().startswith(b"%PDF") and not (tmp_path / "out/html").exists()
    if shutil.which("pdftotext"):
        done = subprocess.run(["pdftotext", pages[0], "-"], capture_output=True, text=True, check=True)
        assert "answer = 42" in done.stdout and "2025-05-01" in done.stdout
