"""The editions of a chapter: which there are, where each lies, and the notebook of one.

English and Chinese, exercises and solutions. Everything here is a pure function of the source.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindlab.book import solutions
from mindlab.book.links import chapter_of, is_elsewhere, rewrite
from mindlab.book.source import Cell, Chapter

EDITIONS = ("exercises", "solutions")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

_LANGUAGE_LINE = re.compile(r'^language = "en"', re.MULTILINE)


@dataclass(frozen=True)
class Edition:
    """One of the four editions: a language ("en", "zh") and what it shows ("exercises", "solutions")."""

    language: str = "en"
    kind: str = "solutions"

    @property
    def folder(self) -> str:
        """Where its notebooks lie below notebooks/: "", "solutions", "zh" or "zh/solutions"."""
        parts = ["zh"] if self.language == "zh" else []
        parts += ["solutions"] if self.kind == "solutions" else []
        return "/".join(parts)

    def path(self, notebooks: Path, chapter: str) -> Path:
        """The notebook of a chapter in this edition."""
        return notebooks / self.folder / f"{chapter}.ipynb"


def editions_of(chapter: Chapter) -> list[Edition]:
    """The editions that a chapter has: two for each of its languages."""
    return [Edition(language, kind) for language in chapter.languages for kind in EDITIONS]


def notebook(chapter: Chapter, edition: Edition) -> dict[str, Any]:
    """The chapter's notebook in one edition, as nbformat 4.5: no outputs, ids from the content."""
    seen: dict[str, int] = {}
    cells = [_cell(cell, edition, seen) for cell in chapter.cells if _belongs(cell, edition)]
    metadata = {
        "kernelspec": KERNELSPEC,
        "language_info": {"name": "python"},
        "mindlab": {
            "chapter": chapter.name,
            "digest": digest(cells),
            "edition": edition.kind,
            "language": edition.language,
            "source": f"src/{chapter.path.name}",
        },
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def notebook_text(chapter: Chapter, edition: Edition) -> str:
    """The notebook as the text of its file: always the same for the same source."""
    return json.dumps(notebook(chapter, edition), ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def digest(cells: list[dict[str, Any]]) -> str:
    """A fingerprint of the cells' texts: it tells a notebook as built from one that a person changed."""
    texts = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def code_of(cell: Cell, edition: Edition) -> str:
    """A code cell's text in an edition: solutions shown or opened, the parameter `language` set."""
    code = solutions.solved(cell.text) if edition.kind == "solutions" else solutions.opened(cell.text)
    if "parameters" in cell.tags and edition.language != "en":
        code = _LANGUAGE_LINE.sub(f'language = "{edition.language}"', code)
    return code


def cell_id(kind: str, text: str, seen: dict[str, int]) -> str:
    """An id from the content: 12 hex digits, and a counter where the same cell comes again."""
    name = hashlib.sha256(f"{kind}\n{text}".encode()).hexdigest()[:12]
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}-{seen[name]}"


def _belongs(cell: Cell, edition: Edition) -> bool:
    if edition.kind == "exercises" and "solution" in cell.tags:
        return False
    return cell.kind == "code" or cell.language == edition.language


def _cell(cell: Cell, edition: Edition, seen: dict[str, int]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(cell.tags)} if cell.tags else {}
    if cell.name:
        metadata["name"] = cell.name
    if "hide-input" in cell.tags:
        metadata["jupyter"] = {"source_hidden": True}
    text = code_of(cell, edition) if cell.kind == "code" else _relinked(cell.text, edition)
    made = {
        "cell_type": "markdown" if cell.kind == "prose" else "code",
        "id": cell_id(cell.kind, text, seen),
        "metadata": metadata,
        "source": text.splitlines(keepends=True),
    }
    return made if cell.kind == "prose" else {**made, "execution_count": None, "outputs": []}


def _relinked(text: str, edition: Edition) -> str:
    """Prose whose relative links, written as seen from notebooks/, hold from the edition's folder.

    Links to other chapters stay: every edition has its own.
    """
    if not edition.folder:
        return text

    return rewrite(text, lambda target: _from_folder(target, edition.folder))


def _from_folder(target: str, folder: str) -> str:
    return target if is_elsewhere(target) or chapter_of(target) else posixpath.relpath(target, folder)
