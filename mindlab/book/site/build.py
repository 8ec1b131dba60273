"""`mindlab export --to site`: the sources, Sphinx over them, and what is wrong with the result."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from mindlab.book import inspection, report, report_page
from mindlab.book.pages import WORDS, Leaf, page_of
from mindlab.book.report import Report
from mindlab.book.site import documents
from mindlab.book.site.chapter import HERE, SiteAssets, as_source
from mindlab.draw import cjk
from mindlab.errors import MindlabError

_WARNING = re.compile(
    r"^(?:.*?/src/)?(?P<where>[^\s:]+?)(?:\.md)?(?::(?P<line>\d+))?: WARNING: (?P<text>.*)$"
)
_CONF = "from mindlab.book.site.documents import settings\nglobals().update(settings())\n"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build(root: Path, leaves: list[Leaf], made: Report, out: Path) -> tuple[list[Path], list[str]]:
    """The site's pages (the start page first) and the findings. `out` is there, and nothing else fills it."""
    with tempfile.TemporaryDirectory(prefix="mindlab-") as folder:
        source = Path(folder) / "src"
        found = write(root, leaves, made, source)
        found += _sphinx(source, out, Path(folder) / "trees")
    for name in (".buildinfo", "objects.inv"):  # of use to other builds, not to readers
        (out / name).unlink(missing_ok=True)
    if (out / "_sources").exists():
        (out / "_sources").rmdir()
    pages = sorted(out.glob("*.html"), key=lambda path: (path.name != "index.html", path.name))
    return pages, list(dict.fromkeys(found + inspection.findings(out)))


def write(root: Path, leaves: list[Leaf], made: Report, source: Path) -> list[str]:
    """Writes what Sphinx reads into `source`; the findings."""
    (source / "extra").mkdir(parents=True)
    (source / "static").mkdir()
    for path in (HERE / "site.css", HERE.parent / "cells.css", cjk.FONT):
        shutil.copyfile(path, source / "static" / path.name)
    (source / "conf.py").write_text(_CONF, encoding="utf-8")
    chapters = frozenset(leaf.name for leaf in leaves)
    assets = SiteAssets(root, source / "extra", chapters, documents.documents(root))
    line = report.provenance(made)
    last = documents.provenance(f"Site of the run of {line}")
    _page(source, "index", documents.start(leaves, made) + last)
    for name, text in documents.texts(root, assets):
        _page(source, name, f"{text}\n{last}")
    for leaf in leaves:
        text = as_source(leaf, page_of(leaf, line, None, None), assets)
        said = f"{WORDS[leaf.language]['executed']}: {line}"
        head = f"---\nlanguage: {'zh-CN' if leaf.language == 'zh' else 'en'}\n---\n\n"
        _page(source, leaf.name, head + text + documents.provenance(said))
    _move_pictures(source)
    page = report_page.as_html(made, suffix=".html")
    (source / "extra" / "report.html").write_text(page, encoding="utf-8")
    return assets.found


def _page(source: Path, name: str, text: str) -> None:
    (source / f"{name}.md").write_text(text, encoding="utf-8")


def _move_pictures(source: Path) -> None:
    """Pictures of the prose lie where Sphinx looks for them, too."""
    if (source / "extra" / "files").exists():
        shutil.copytree(source / "extra" / "files", source / "files")


def _sphinx(source: Path, out: Path, trees: Path) -> list[str]:
    """Runs Sphinx; its warnings are findings."""
    said, warnings = io.StringIO(), io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            source,
            source,
            out,
            trees,
            "html",
            status=said,
            warning=warnings,
            freshenv=True,
        )
        app.build()
    if not (out / "index.html").exists():
        raise MindlabError(f"Sphinx made no page: {warnings.getvalue().strip()[-2000:]}")
    return [_finding(line) for line in _COLOUR.sub("", warnings.getvalue()).splitlines() if line.strip()]


def _finding(line: str) -> str:
    match = _WARNING.match(line)
    if not match:
        return f"sphinx: {line.strip()}"
    return f"{match['where']}: {match['text']}"
