"""Executed chapters as pages: HTML by a subclass of nbconvert's exporter, Markdown by nbconvert's own."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter, MarkdownExporter, TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from mindlab.book.assets import Assets
from mindlab.book.executed import tags
from mindlab.book.links import rewrite
from mindlab.book.outputs import FOR_HTML, FOR_MARKDOWN, formula, settle

HERE = Path(__file__).parent
WORDS = {
    "en": {
        "contents": "Contents",
        "before": "previous",
        "after": "next",
        "solution": "Solution",
        "code": "Code",
        "executed": "Executed",
        "skipped": "Not executed here: it needs Ascend NPUs.",
    },
    "zh": {
        "contents": "目录",
        "before": "上一章",
        "after": "下一章",
        "solution": "参考答案",
        "code": "代码",
        "executed": "运行环境",
        "skipped": "此处未运行：需要昇腾 NPU。",
    },
}
_MARKDOWN: Any = MarkdownExporter
_SCRIPT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_NOTE = re.compile(r"\s*<p>\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*(?:<br\s*/?>)?\s*")


@dataclass(frozen=True)
class Leaf:
    """One executed chapter on its way to a page."""

    name: str
    title: str
    notebook: NotebookNode
    folder: Path
    """The folder of the notebook that was executed: its links hold from there."""
    language: str
    edition: str
    status: str


@dataclass(frozen=True)
class Page:
    """What a template needs beside the notebook."""

    title: str
    lang: str
    words: dict[str, str]
    provenance: str
    before: Leaf | None
    after: Leaf | None
    edition: str

    def is_solution(self, cell: NotebookNode) -> bool:
        """True for a cell that a reader opens only to compare."""
        if self.edition != "solutions":
            return False
        return "solution" in tags(cell) or (cell.cell_type == "code" and "exercise" in tags(cell))


def page_of(leaf: Leaf, provenance: str, before: Leaf | None, after: Leaf | None) -> Page:
    """The page of a chapter between its neighbours."""
    return Page(
        title=leaf.title,
        lang="zh-CN" if leaf.language == "zh" else "en",
        words=WORDS[leaf.language],
        provenance=provenance,
        before=before,
        after=after,
        edition=leaf.edition,
    )


def as_html(leaf: Leaf, page: Page, assets: Assets) -> str:
    """The chapter's HTML. Its notebook is changed on the way; what is wrong becomes a finding of `assets`."""
    prepare(leaf, FOR_HTML, assets)
    exporter = _Html(leaf.name, assets)
    text, _ = exporter.from_notebook_node(leaf.notebook, resources={"page": page})
    return str(text)


def as_markdown(leaf: Leaf, page: Page, assets: Assets) -> str:
    """The chapter's Markdown, with one link for each picture and no script."""
    prepare(leaf, FOR_MARKDOWN, assets)
    exporter: Any = _MARKDOWN(template_file=str(HERE / "chapter.md"))
    exporter.register_filter("without_scripts", _without_scripts)
    text, _ = exporter.from_notebook_node(leaf.notebook, resources={"page": page})
    return re.sub(r"\n{3,}", "\n\n", str(text)).strip() + "\n"


def _without_scripts(text: str) -> str:
    return _SCRIPT.sub("", text).strip()


def first_heading(notebook: NotebookNode) -> str:
    """The text of the first heading, or ""."""
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    lines = [line for text in prose for line in text.splitlines() if line.startswith("# ")]
    return re.sub(r"[*`]", "", lines[0][2:]).strip() if lines else ""


def prepare(leaf: Leaf, order: tuple[str, ...], assets: Assets) -> None:
    """Settles the outputs (see `outputs`) and turns the links of the prose to where they lead from a page."""
    settle(leaf.notebook, leaf.name, order, assets)
    for cell in leaf.notebook.cells:
        if cell.cell_type == "markdown":
            first = next((line for line in cell.source.splitlines() if line.strip()), "")[:50]
            move = partial(assets.relocate, folder=leaf.folder, where=f"{leaf.name}, prose {first!r}")
            cell.source = rewrite(cell.source, move)


class _Html(HTMLExporter):
    """nbconvert's exporter with our template, MathML and notes; loads nothing from the net."""

    def __init__(self, chapter: str, assets: Assets) -> None:
        super().__init__(template_file=str(HERE / "chapter.html"))  # type: ignore[no-untyped-call,unused-ignore]
        self._chapter, self._assets = chapter, assets
        register: Any = self.register_filter
        highlight: Any = Highlight2HTML
        register("highlight_code", highlight(pygments_lexer="ipython3", parent=self))

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **options: Any) -> Any:
        """The page. HTMLExporter's own would hide a missing alt text behind a hollow one."""
        return TemplateExporter.from_notebook_node(self, nb, resources, **options)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Prose as HTML."""
        renderer = _Renderer(self._chapter, self._assets)
        return str(MarkdownWithMath(renderer=renderer).render(source))


class _Renderer(IPythonRenderer):
    """Markdown to HTML with formulas as MathML, GitHub's note boxes, and tables that scroll by themselves."""

    def __init__(self, chapter: str, assets: Assets) -> None:
        super().__init__(escape=False)
        where = f"{chapter}, prose"
        self._inline, self._block = formula(where, assets), formula(where, assets, block=True)

    def inline_math(self, body: str) -> str:
        return self._inline(body)

    def block_math(self, body: str) -> str:
        return self._block(body)

    def latex_environment(self, name: str, body: str) -> str:
        return self._block(f"\\begin{{{name}}}{body}\\end{{{name}}}")

    def table(self, text: str) -> str:
        return f'<div class="wide"><table>{text}</table></div>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        made = super().block_code(code, info)
        return f'<div class="code">{made}</div>\n'

    def block_quote(self, text: str) -> str:
        note = _NOTE.match(text)
        if not note:
            return str(super().block_quote(text))
        kind = note[1].lower()
        return (
            f'<div class="note {kind}" role="note"><p class="title">{html.escape(note[1].title())}</p>\n'
            f"<p>{text[note.end() :]}</div>\n"
        )
