"""`mindlab export`: pages from executed notebooks, and what is wrong with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from jinja2 import Template

from mindlab.book import inspection, notebook_file, printing, report, report_page
from mindlab.book.assets import Assets
from mindlab.book.editions import Edition
from mindlab.book.pages import HERE, WORDS, Leaf, as_html, as_markdown, first_heading, page_of
from mindlab.book.report import Report
from mindlab.book.report_page import badge, counted
from mindlab.errors import MindlabError

KINDS = ("html", "markdown", "pdf", "site")
_MADE_HERE = ".mindlab-export"
_INDEX = {
    "en": {
        "heading": "A workbook on multi\u2011card parallel inference",
        "lead": "Each chapter was executed to make its page. The last line of a page says when, and on what.",
        "heads": ("", "Chapter", "Status", "Checks", "Seconds"),
    },
    "zh": {
        "heading": "多卡并行推理实验手册",
        "lead": "每一章都在生成页面时实际运行；页尾注明了运行日期与环境。",
        "heads": ("", "章节", "状态", "检查", "秒"),
    },
}


def export(root: Path, source: Path, out: Path, to: str = "html") -> tuple[list[Path], list[str]]:
    """The pages written to `out` (the index first) and the findings; `to` is one of KINDS.

    Takes the executed notebooks that `source`/report.json lists. Raises MindlabError where there are none,
    and where `out` holds something else.
    """
    made = _read_report(source)
    leaves = [_leaf(root, source, chapter) for chapter in made["chapters"]]
    _empty(out)
    if to == "site":
        from mindlab.book.site.build import build  # Sphinx takes a second to import

        pages, found = build(root, leaves, made, out)
        return pages, _failed(leaves) + found
    if to == "pdf":
        pages, found = _html(root, source, leaves, made, out / "html")
        printed = printing.print_all(pages[1:], out)
        shutil.rmtree(out / "html")
        return printed, found
    write = _html if to == "html" else _markdown
    return write(root, source, leaves, made, out)


def _read_report(source: Path) -> Report:
    path = source / "report.json"
    if not path.exists():
        raise MindlabError(f"no {path}: execute chapters first, with mindlab run")
    made: Report = json.loads(path.read_text(encoding="utf-8"))
    if not made["chapters"]:
        raise MindlabError(f"{path} lists no chapter: execute some first, with mindlab run")
    return made


def _leaf(root: Path, source: Path, chapter: dict[str, Any]) -> Leaf:
    path = source / f"{chapter['chapter']}.ipynb"
    if not path.exists():
        raise MindlabError(
            f"report.json lists {chapter['chapter']}, but there is no {path}: mindlab run again"
        )
    notebook = notebook_file.read(path)
    edition = Edition(chapter["language"], chapter["edition"])
    return Leaf(
        name=chapter["chapter"],
        title=first_heading(notebook) or chapter["chapter"],
        notebook=notebook,
        folder=root / "notebooks" / edition.folder,
        language=edition.language,
        edition=edition.kind,
        status=chapter["status"],
    )


def _empty(out: Path) -> None:
    """Makes the folder empty; refuses one that something else filled."""
    if out.exists() and any(out.iterdir()) and not (out / _MADE_HERE).exists():
        raise MindlabError(f"{out} holds files that no export made: give another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MADE_HERE).write_text("Made by mindlab export; the next export replaces this folder.\n")


def _html(
    root: Path, source: Path, leaves: list[Leaf], made: Report, out: Path
) -> tuple[list[Path], list[str]]:
    out.mkdir(exist_ok=True)
    assets = Assets(root, out, ".html", frozenset(leaf.name for leaf in leaves))
    (out / "style.css").write_text(report_page.style(), encoding="utf-8")
    (out / "report.html").write_text(report_page.as_html(made, suffix=".html"), encoding="utf-8")
    (out / "index.html").write_text(_index(leaves, made, "html"), encoding="utf-8")
    paths = [out / "index.html"]
    for leaf, page in _paged(leaves, made):
        paths.append(out / f"{leaf.name}.html")
        paths[-1].write_text(as_html(leaf, page, assets), encoding="utf-8")
    return paths, _failed(leaves) + list(dict.fromkeys(assets.found + inspection.findings(out)))


def _markdown(
    root: Path, source: Path, leaves: list[Leaf], made: Report, out: Path
) -> tuple[list[Path], list[str]]:
    assets = Assets(root, out, ".md", frozenset(leaf.name for leaf in leaves))
    lines = ["# MindLab", "", "| | chapter | status | checks |", "|---|---|---|---|"]
    paths = [out / "index.md"]
    for (leaf, page), chapter in zip(_paged(leaves, made), made["chapters"], strict=True):
        number = leaf.name.split("_")[0]
        checks = counted(chapter["checks"])
        lines.append(f"| {number} | [{leaf.title}]({leaf.name}.md) | {leaf.status} | {checks} |")
        paths.append(out / f"{leaf.name}.md")
        paths[-1].write_text(as_markdown(leaf, page, assets), encoding="utf-8")
    lines += ["", f"Executed: {report.provenance(made)}", ""]
    paths[0].write_text("\n".join(lines), encoding="utf-8")
    return paths, _failed(leaves) + list(dict.fromkeys(assets.found))


def _paged(leaves: list[Leaf], made: Report) -> list[tuple[Leaf, Any]]:
    """Each chapter with its page, between its neighbours."""
    around = [None, *leaves, None]
    line = report.provenance(made)
    return [
        (leaf, page_of(leaf, line, around[index], around[index + 2])) for index, leaf in enumerate(leaves)
    ]


def _failed(leaves: list[Leaf]) -> list[str]:
    return [f"{leaf.name}: the chapter failed in its run" for leaf in leaves if leaf.status != "passed"]


def _index(leaves: list[Leaf], made: Report, suffix: str) -> str:
    language = leaves[0].language
    rows = [
        {
            "number": leaf.name.split("_")[0],
            "name": leaf.name,
            "title": leaf.title,
            "badge": badge(leaf.status == "passed", text=leaf.status),
            "checks": counted(chapter["checks"]),
            "seconds": f"{chapter['seconds']:.0f}",
        }
        for leaf, chapter in zip(leaves, made["chapters"], strict=True)
    ]
    template = Template((HERE / "index.html").read_text(encoding="utf-8"))
    text: str = template.render(
        **_INDEX[language],
        lang="zh-CN" if language == "zh" else "en",
        rows=rows,
        suffix=suffix,
        executed=WORDS[language]["executed"],
        provenance=report.provenance(made),
        has_report=True,
    )
    return text
