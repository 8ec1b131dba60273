"""Reading and writing .ipynb files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode


def read(path: Path) -> NotebookNode:
    """The notebook in a file, as nbformat 4."""
    made: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call,unused-ignore]
    return made


def write(notebook: NotebookNode, path: Path) -> None:
    """Writes a notebook in one step: a reader sees the old file or the new one."""
    partial = path.with_name(path.name + ".tmp")
    text = nbformat.writes(notebook)  # type: ignore[no-untyped-call,unused-ignore]
    partial.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    os.replace(partial, path)


def node(values: dict[str, Any]) -> NotebookNode:
    """A part of a notebook from plain values."""
    made: NotebookNode = nbformat.from_dict(values)  # type: ignore[no-untyped-call,unused-ignore]
    return made
