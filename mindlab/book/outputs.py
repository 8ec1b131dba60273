"""What of an executed notebook a page shows: one form of each output, and no dead widget."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from nbformat import NotebookNode

from mindlab.book.assets import SUFFIXES, Assets
from mindlab.book.executed import SKIPPED, is_executable, place, tags
from mindlab.book.mathml import mathml, set_output
from mindlab.book.notebook_file import node

FOR_HTML = (
    "text/html",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/latex",
    "text/plain",
)
FOR_MARKDOWN = (
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/latex",
    "text/plain",
    "text/html",
)
_WIDGET = "application/vnd.jupyter.widget-view+json"
_DEAD = re.compile(r"could not be displayed|not able to be represented|<Figure size \d+x\d+", re.IGNORECASE)
_ARIA = re.compile(r"<svg[^>]*\baria-label=\"(?P<alt>[^\"]+)\"")


def settle(notebook: NotebookNode, chapter: str, order: tuple[str, ...], assets: Assets) -> None:
    """Leaves each output in one form, pictures as files. What is wrong becomes a finding of `assets`."""
    notebook.metadata.pop("widgets", None)
    idle = [cell for cell in notebook.cells if is_executable(cell) and cell.execution_count is None]
    if idle:
        rest = f", nor were {len(idle) - 1} after it" if idle[1:] else ""
        assets.found.append(f"{chapter}, {place(notebook, idle[0])}: was not executed{rest}")
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        where = f"{chapter}, {place(notebook, cell)}"
        kept = [_settled(output, chapter, where, order, assets) for output in cell.outputs]
        cell.outputs = [output for output in kept if output is not None]
        if SKIPPED in tags(cell):
            cell.metadata["skipped"] = True


def _settled(
    output: NotebookNode, chapter: str, where: str, order: tuple[str, ...], assets: Assets
) -> NotebookNode | None:
    if output.output_type == "error":
        assets.found.append(f"{where}: ends in {output.ename}: {output.evalue}".rstrip(": "))
        return output
    if output.output_type == "stream":
        if "Traceback (most recent call last)" in output.text:
            assets.found.append(f"{where}: prints a traceback")
        return output if output.text.strip() else None
    data = output.data
    kind = next((kind for kind in order if kind in data), "")
    if not kind or (kind == "text/plain" and _WIDGET in data):
        if _WIDGET in data or "application/javascript" in data:
            assets.found.append(f"{where}: leaves a widget or script without a picture of its own")
        return None
    if kind == "text/plain" and _DEAD.search(data[kind]):
        assets.found.append(f"{where}: could not be displayed: {data[kind][:60]}")
    return _with(output, kind, _form(kind, output, chapter, where, order, assets))


def _form(
    kind: str, output: NotebookNode, chapter: str, where: str, order: tuple[str, ...], assets: Assets
) -> tuple[str, str]:
    """The form that a page shows, as (mime type, text)."""
    if kind in SUFFIXES:
        alt = _alt(output, kind)
        if not alt:
            assets.found.append(f"{where}: a picture without an alt text")
        link = assets.store(chapter, kind, output.data[kind])
        if order is FOR_HTML:
            return "picture", f'<figure><img src="{link}" alt="{html.escape(alt)}"></figure>'
        return "text/markdown", f"![{' '.join(alt.split()).replace('[', '(').replace(']', ')')}]({link})"
    if order is not FOR_HTML:
        return kind, output.data[kind]
    if kind == "text/latex":
        tex = output.data[kind].strip().strip("$")
        return "text/html", formula(where, assets, block=True)(tex)
    if kind == "text/html":
        return kind, set_output(output.data[kind], formula(where, assets))
    return kind, output.data[kind]


def formula(where: str, assets: Assets, *, block: bool = False) -> Callable[[str], str]:
    """A function from TeX to MathML; TeX that cannot be set stays as code and becomes a finding."""

    def set_tex(tex: str) -> str:
        try:
            return mathml(tex, block=block)
        except ValueError as error:
            assets.found.append(f"{where}: {error}")
            return f"<code>{html.escape(tex)}</code>"

    return set_tex


def _alt(output: NotebookNode, kind: str) -> str:
    """The alt text that the picture brings: in its metadata, or inside its SVG."""
    metadata: dict[str, Any] = output.get("metadata", {})
    said = metadata.get(kind, {}).get("alt") if isinstance(metadata.get(kind), dict) else None
    inside = _ARIA.search(output.data[kind][:5000]) if kind == "image/svg+xml" else None
    return str(said or metadata.get("alt") or (html.unescape(inside["alt"]) if inside else ""))


def _with(output: NotebookNode, kind: str, form: tuple[str, str]) -> NotebookNode:
    output.data = node({form[0]: form[1]})
    return output
