"""The chapters that a run may execute, and the ones that a person asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindlab.book import notebook_file
from mindlab.book.builder import is_edited
from mindlab.book.editions import Edition, notebook_text
from mindlab.book.parameters import Parameter, ParameterError, declared
from mindlab.book.source import SourceError, read_chapter
from mindlab.errors import MindlabError, UnknownName


@dataclass(frozen=True)
class Entry:
    """One chapter's notebook in one edition, with the parameters that it declares."""

    name: str
    path: Path
    parameters: tuple[Parameter, ...]


def entries(root: Path, edition: Edition, asked: Sequence[str] = ()) -> list[Entry]:
    """The chapters asked for, in the book's order; all of them if none is asked for.

    A chapter is asked for by its number or its name. Raises UnknownName with the known ones, and
    MindlabError for a notebook that cannot be executed.
    """
    paths = {path.stem: path for path in _notebooks(root, edition)}
    if not paths:
        raise MindlabError(f"no notebooks in {root / 'notebooks' / edition.folder}: run mindlab build")
    names = {_resolve(word, list(paths)) for word in asked} or set(paths)
    return [Entry(name, paths[name], _parameters(paths[name])) for name in sorted(names)]


def stale(root: Path, entry: Entry, edition: Edition) -> str:
    """Why the notebook is not what its source says; "" if it is, or if it has no source."""
    source = root / "notebooks" / "src" / f"{entry.name}.md"
    if not source.exists():
        return ""
    try:
        current = notebook_text(read_chapter(source), edition)
    except (SourceError, ValueError) as error:
        return f"its source is broken: {error}"
    if entry.path.read_text(encoding="utf-8") == current:
        return ""
    return "it was changed by hand" if is_edited(entry.path) else "its source is newer: mindlab build"


def _notebooks(root: Path, edition: Edition) -> list[Path]:
    return sorted((root / "notebooks" / edition.folder).glob("[0-9][0-9]_*.ipynb"))


def _resolve(word: str, names: list[str]) -> str:
    stem = Path(word).name.removesuffix(".ipynb").removesuffix(".md")
    number = stem.zfill(2) if stem.isdigit() else stem
    found = [name for name in names if name == stem or name.split("_")[0] == number]
    if len(found) != 1:
        raise UnknownName("chapter", word, names)
    return found[0]


def _parameters(path: Path) -> tuple[Parameter, ...]:
    notebook = notebook_file.read(path)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise MindlabError(f"{path}: {len(tagged)} cells have the tag parameters; it must be one")
    try:
        return tuple(declared(tagged[0].source))
    except ParameterError as error:
        raise MindlabError(f"{path}: {error}") from None
