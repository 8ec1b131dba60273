"""An executed chapter as text for Sphinx."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from nbconvert.exporters import TemplateExporter
from nbconvert.filters import ansi2html

from mindlab.book.assets import Assets
from mindlab.book.outputs import FOR_HTML
from mindlab.book.pages import Leaf, Page, prepare

HERE = Path(__file__).parent
_EXPORTER: Any = TemplateExporter
_NOTE = re.compile(r"^> \[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\] *\n((?:>.*\n?)+)", re.MULTILINE)


class SiteAssets(Assets):
    """Assets whose links to the project's own pages in Markdown lead to their pages of the site."""

    def __init__(self, root: Path, out: Path, chapters: frozenset[str], documents: dict[Path, str]) -> None:
        super().__init__(root, out, ".md", chapters)
        self._documents = {path.resolve(): name for path, name in documents.items()}

    def _copy(self, target: str, folder: Path, where: str) -> str:
        path, mark, place = target.partition("#")
        name = self._documents.get((folder / path).resolve())
        return f"{name}.md{mark}{place}" if name else super()._copy(target, folder, where)


def as_source(leaf: Leaf, page: Page, assets: Assets) -> str:
    """The chapter's MyST. Its notebook is changed on the way; what is wrong becomes a finding of `assets`."""
    prepare(leaf, FOR_HTML, assets)
    exporter = _EXPORTER(template_file=str(HERE / "chapter.md"))
    exporter.register_filter("flat_headings", flat_headings)
    exporter.register_filter("ansi2html", ansi2html)
    text, _ = exporter.from_notebook_node(leaf.notebook, resources={"page": page})
    return re.sub(r"\n{3,}", "\n\n", notes(str(text))).strip() + "\n"


def flat_headings(text: str) -> str:
    """Headings as bold lines: a section that begins in a fold would end outside of it."""
    return re.sub(r"^#+ +(.+)$", r"**\1**", text, flags=re.MULTILINE)


def notes(text: str) -> str:
    """GitHub's boxes (`> [!NOTE]`) as Sphinx's."""

    def box(match: re.Match[str]) -> str:
        body = re.sub(r"^> ?", "", match[2], flags=re.MULTILINE).rstrip("\n")
        return f"``````{{{match[1].lower()}}}\n{body}\n``````\n"

    return _NOTE.sub(box, text)
