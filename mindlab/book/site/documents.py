"""The pages beside the chapters: the start page, those of docs/, glossary and reference."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mindlab.book.assets import Assets
from mindlab.book.links import rewrite
from mindlab.book.pages import Leaf
from mindlab.book.report import Report
from mindlab.book.report_page import badge, counted
from mindlab.book.site import glossary, reference
from mindlab.book.site.chapter import notes

USE = ("install", "running", "instructors", "grading", "measured", "design")
"""Those of docs/ that the site shows, in this order. The rest is for writers, who have the checkout."""

_TITLE = "# A workbook on multi\u2011card parallel inference"
_LEAD = (
    "A notebook cell runs on several cards, shows what moved between them, and holds the textbook's formula "
    "against it. Each chapter was executed to make its page; the last line of a page says when, and on what."
)


# The colours of cells.css; the rest of them are the theme's own.
_LIGHT = {
    "good": "#1a7f45",
    "bad": "#b3261e",
    "open": "#8a6100",
    "good-wash": "#e9f6ee",
    "bad-wash": "#fcebea",
    "open-wash": "#fbf3df",
    "note-wash": "#eaf2fb",
    "verdict": "none",
    "frame": "0",
    "color-code-background": "#f6f8fa",
    "color-brand-primary": "#0b5cad",
    "color-brand-content": "#0b5cad",
    "color-brand-visited": "#5a4fa3",
}
_DARK = {
    "good": "#62d08f",
    "bad": "#ff8f86",
    "open": "#e5b95c",
    "good-wash": "#15291d",
    "bad-wash": "#331b1a",
    "open-wash": "#2d2512",
    "note-wash": "#172535",
    "verdict": "brightness(1.9) saturate(.8)",
    "frame": ".4rem",
    "color-code-background": "#1d2228",
    "color-brand-primary": "#79b8ff",
    "color-brand-content": "#79b8ff",
    "color-brand-visited": "#b7a8ff",
}


def documents(root: Path) -> dict[Path, str]:
    """The files of docs/ that have a page, and the page's name. README.md is the start page."""
    return {root / "docs" / f"{name}.md": name for name in USE} | {root / "README.md": "index"}


def texts(root: Path, assets: Assets) -> Iterator[tuple[str, str]]:
    """(name, MyST) of every page beside the chapters but the start page."""
    for name in USE:
        path = root / "docs" / f"{name}.md"
        move = partial(assets.relocate, folder=path.parent, where=f"docs/{path.name}")
        yield name, notes(rewrite(path.read_text(encoding="utf-8"), move))
    yield "glossary", glossary.page(root)
    yield from reference.pages()


def start(leaves: list[Leaf], made: Report) -> str:
    """The start page: every chapter with its state, the other pages, and the tree that the sidebar shows."""
    chapters = [leaf.name for leaf in leaves if leaf.name < "90"]
    others = [leaf.name for leaf in leaves if leaf.name >= "90"]
    trees = {
        "Chapters": chapters,
        "Set up and use": list(USE[:4]),
        "How it works": [*USE[4:], *others],
        "Look up": ["glossary", "reference"],
    }
    parts = [_TITLE, _LEAD, _table(leaves, made), _beside(others)]
    parts += [_tree(caption, names) for caption, names in trees.items() if names]
    return "\n\n".join(parts) + "\n"


def provenance(line: str) -> str:
    """The last line of a page."""
    return f'\n``````{{raw}} html\n<p class="provenance">{html.escape(line)}</p>\n``````\n'


def _table(leaves: list[Leaf], made: Report) -> str:
    rows = ["| | chapter | status | checks | seconds |", "|---|---|---|---|--:|"]
    for leaf, chapter in zip(leaves, made["chapters"], strict=True):
        number, seconds = leaf.name.split("_")[0], f"{chapter['seconds']:.0f}"
        state = badge(leaf.status == "passed", text=leaf.status)
        title = re.sub(r"([|\[\]])", r"\\\1", leaf.title)
        checks = counted(chapter["checks"])
        rows.append(f"| {number} | [{title}]({leaf.name}.md) | {state} | {checks} | {seconds} |")
    rows += ["", '<p>Every check, one by one: <a href="report.html">report of the run</a>.</p>']
    return "\n".join(rows)


def _beside(others: list[str]) -> str:
    lines = [
        "- [Install](install.md): on a laptop, on an NPU host, in a container, without network.",
        "- [For instructors](instructors.md): run everything, hand out, grade.",
        "- [How it is measured](measured.md): what stands behind every number.",
        "- [Glossary](glossary.md) in English and Chinese; [reference](reference.md) of the public names.",
    ]
    lines += [f"- [Every picture]({name}.md), from a real run." for name in others if "pictures" in name]
    return "## Beside the chapters\n\n" + "\n".join(lines)


def _tree(caption: str, names: list[str]) -> str:
    listed = "\n".join(names)
    return f"``````{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n``````"


def settings() -> dict[str, Any]:
    """What Sphinx is told. Nothing of it names an address: the theme, too, loads from its own folder."""
    return {
        "project": "MindLab",
        "html_title": "MindLab",
        "extensions": ["myst_parser", "mindlab.book.site.extension"],
        "html_theme": "furo",
        "html_theme_options": {
            "footer_icons": [],
            "light_css_variables": _LIGHT,
            "dark_css_variables": _DARK,
        },
        "html_static_path": ["static"],
        "html_extra_path": ["extra"],
        "html_css_files": ["site.css"],
        "html_math_renderer": "mathml",
        "html_search_language": "en-zh",
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "html_use_index": False,
        "html_domain_indices": False,
        "myst_enable_extensions": ["dollarmath", "amsmath", "deflist"],
        "myst_heading_anchors": 5,
        "myst_heading_slug_func": "mindlab.book.site.extension.slug",
        "suppress_warnings": ["myst.header"],
        "add_module_names": False,
        "maximum_signature_line_length": 110,
        "highlight_language": "text",
        "pygments_style": "friendly",
        "pygments_dark_style": "github-dark",
    }
