"""What learners handed in: which notebooks there are, whose they are, and what stands in them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from mindlab.book import notebook_file
from mindlab.book.editions import KERNELSPEC, cell_id
from mindlab.errors import MindlabError

LARGEST = 100_000_000
"""Bytes of a notebook that is read; a larger one holds outputs that nobody needs."""


class Unreadable(MindlabError):
    """A file that is no notebook; says why."""


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in. `key` is its path below the folder, which names it everywhere."""

    key: str
    learner: str
    path: Path

    def fingerprint(self) -> str:
        """SHA-256 of the file: tells one that changed since it was graded."""
        digest = hashlib.sha256()
        try:
            with open(self.path, "rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
        except OSError:
            return ""
        return digest.hexdigest()


def find(folder: Path, chapters: Sequence[str] = ()) -> list[Submission]:
    """The notebooks in `folder`, by key: one file a learner, or one folder a learner.

    A learner's name is the first folder's, or the file's without the chapter's name in it. Raises
    MindlabError if there is none.
    """
    if not folder.is_dir():
        raise MindlabError(f"{folder} is not a folder: give the one that holds the learners' notebooks")
    paths = sorted(path for path in folder.rglob("*.ipynb") if path.is_file() and not _hidden(path, folder))
    if not paths:
        raise MindlabError(f"{folder} holds no notebook (*.ipynb), nor does a folder in it")
    return [
        Submission(path.relative_to(folder).as_posix(), _learner(path.relative_to(folder), chapters), path)
        for path in paths
    ]


def read(path: Path) -> tuple[NotebookNode, str]:
    """The notebook without its outputs, and a note where its text had to be mended ("" if not).

    Reads what other programs leave: UTF-16, a byte order mark, bytes that are no UTF-8, cells without ids
    or with the same one, notebooks of format 3. Raises Unreadable.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST:
            most = f"at most {LARGEST / 1e6:.0f} MB are read (clear its outputs)"
            raise Unreadable(f"{size / 1e6:,.0f} MB; {most}")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    if not data.strip():
        raise Unreadable("the file is empty")
    text, note = _decoded(data)
    return _rebuilt(_parsed(text)), note


def _hidden(path: Path, folder: Path) -> bool:
    """Whether a program keeps it for itself: .ipynb_checkpoints, __MACOSX, ._name."""
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part in ("__MACOSX", "__pycache__") for part in parts)


def _learner(below: Path, chapters: Sequence[str]) -> str:
    if len(below.parts) > 1:
        return below.parts[0]
    stem = below.stem
    for chapter in chapters:
        stem = re.sub(re.escape(chapter), "", stem, flags=re.IGNORECASE)
    return stem.strip(" _-.()") or below.stem


def _decoded(data: bytes) -> tuple[str, str]:
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding), "" if encoding in ("utf-8", "utf-8-sig") else f"was {encoding}"
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")  # JSON's own signs and all code are ASCII
        return text, f"is not UTF-8: {text.count(chr(0xFFFD))} characters were replaced"


def _parsed(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not a notebook: no JSON ({str(error)[:80]})") from None
    if isinstance(read, dict) and isinstance(read.get("worksheets"), list):
        try:
            read = dict(nbformat.reads(text, as_version=4))  # type: ignore[no-untyped-call,unused-ignore]
        except Exception as error:  # noqa: BLE001 - whatever an old file breaks in the converter
            raise Unreadable(f"a notebook of format 3 that cannot be converted: {error!r:.80}") from None
    if not isinstance(read, dict) or not isinstance(read.get("cells"), list):
        raise Unreadable("not a notebook: it has no cells")
    return read


def _rebuilt(read: dict[str, Any]) -> NotebookNode:
    """Only what is needed: kind, text and tags of each cell, in a notebook that is valid."""
    seen: dict[str, int] = {}
    cells = [made for cell in read["cells"] if isinstance(cell, dict) if (made := _cell(cell, seen))]
    metadata: dict[str, Any] = {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    given = read.get("metadata")
    if isinstance(given, dict) and isinstance(given.get("mindlab"), dict):
        metadata["mindlab"] = given["mindlab"]
    return notebook_file.node({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _cell(cell: dict[str, Any], seen: dict[str, int]) -> dict[str, Any] | None:
    kind, source = cell.get("cell_type"), cell.get("source", "")
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    if kind not in ("code", "markdown", "raw"):
        return None
    tags = (cell.get("metadata") or {}).get("tags") if isinstance(cell.get("metadata"), dict) else None
    metadata = {"tags": [str(tag) for tag in tags]} if isinstance(tags, list) and tags else {}
    made = {"cell_type": kind, "id": cell_id(kind, text, seen), "metadata": metadata, "source": text}
    return {**made, "execution_count": None, "outputs": []} if kind == "code" else made
