"""What the site adds to Sphinx: MathML, search in two languages, excerpts that need no server."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from mindlab.book.mathml import mathml
from mindlab.book.site.search import SearchBoth

_LOG = logging.getLogger(__name__)
_MARKUP = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^<>]*>", re.DOTALL)
# Sphinx's search fetches each page that it found, for an excerpt; from a disk a page may fetch nothing.
_ANSWER = """
(() => {
  const net = window.fetch, name = (url) => decodeURI(String(url)).split(/[?#]/)[0].split("/").pop();
  window.fetch = (url, ...more) => {
    const text = EXCERPTS[name(url)];
    return text === undefined ? net(url, ...more) : Promise.resolve(new Response(text));
  };
})();
"""


def slug(title: str) -> str:
    """The place of a heading as JupyterLab and nbconvert name it: one link holds everywhere."""
    return title.strip().replace(" ", "-")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_search_language(SearchBoth)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    texts: dict[str, str] = {}

    def keep(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
        if tree is not None:
            texts[f"{page}.html"] = f'<div role="main">{_text(tree)}</div>'
            context["language"] = (app.env.metadata.get(page) or {}).get("language", "en")
        if page == "search":
            app.add_js_file("excerpts.js")

    def write(app: Sphinx, error: Exception | None) -> None:
        if error is None:
            text = f"const EXCERPTS = {json.dumps(texts, ensure_ascii=False)};{_ANSWER}"
            (Path(app.outdir) / "_static" / "excerpts.js").write_text(text, encoding="utf-8")

    app.connect("html-page-context", keep)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_set(node, block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_set(node, block=True)}</div>')
    raise nodes.SkipNode


def _set(node: Any, *, block: bool) -> str:
    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        _LOG.warning("%s", error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _text(node: Any) -> str:
    """The words of a page, its sections marked by their ids: what an excerpt is cut from."""
    if isinstance(node, nodes.raw):
        return html.escape(html.unescape(_MARKUP.sub(" ", node.astext())))
    if isinstance(node, nodes.Text):
        return html.escape(node.astext())
    inside = "".join(_text(child) for child in node.children)
    if isinstance(node, nodes.section):
        return f'<section id="{html.escape(node["ids"][0])}">{inside}</section>'
    return inside if isinstance(node, nodes.Inline) else f"{inside}\n"
