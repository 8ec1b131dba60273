"""Build the editions of every chapter, or say which are stale."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mindlab.book import rules
from mindlab.book.editions import EDITIONS, Edition, digest, editions_of, notebook_text
from mindlab.book.source import LANGUAGES, Chapter, SourceError, read_chapter
from mindlab.errors import MindlabError


def find_root(start: Path | None = None) -> Path:
    """The project's folder: the nearest one, from here upwards, that has notebooks/; else the package's.

    Raises MindlabError if there is none.
    """
    here = (start or Path.cwd()).resolve()
    candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    for folder in candidates:
        if (folder / "notebooks" / "src").is_dir():
            return folder
    raise MindlabError(f"no notebooks/src at or above {here}: go to a copy of the project, or give --root")


def sources(root: Path) -> list[Path]:
    """The sources of all chapters, in their order."""
    return sorted((root / "notebooks" / "src").glob("[0-9][0-9]_*.md"))


def planned(root: Path, chapters: list[Chapter]) -> dict[Path, str]:
    """The text of every notebook that the sources give, by path."""
    notebooks = root / "notebooks"
    return {
        edition.path(notebooks, chapter.name): notebook_text(chapter, edition)
        for chapter in chapters
        for edition in editions_of(chapter)
    }


def build(root: Path, *, force: bool = False) -> tuple[list[Path], list[str]]:
    """Writes the notebooks that are stale; returns their paths and the findings.

    A broken source leaves every notebook as it was. A notebook that a person changed is not overwritten
    unless `force`: somebody's answers may stand in it.
    """
    chapters, found = _read(root)
    if found:
        return [], found
    plan = planned(root, chapters)
    stale = [path for path, text in plan.items() if not _is_current(path, text)]
    kept = [path for path in stale if not force and path.exists() and is_edited(path)]
    for path in stale:
        if path not in kept:
            _write(path, plan[path])
    found = [
        f"{path.relative_to(root)}: changed by hand, so not overwritten; "
        "save it under another name, or mindlab build --force"
        for path in kept
    ]
    return [path for path in stale if path not in kept], found


def is_edited(path: Path) -> bool:
    """True unless the notebook's cells are those that it was built with (outputs do not matter)."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        return bool(read["metadata"]["mindlab"]["digest"] != digest(read["cells"]))
    except (ValueError, KeyError, TypeError):
        return True


def check(root: Path) -> list[str]:
    """The findings: broken rules, stale editions, notebooks without a source. Empty if all is well."""
    chapters, found = _read(root)
    plan = planned(root, chapters) if not found else {}
    for path, text in plan.items():
        if not _is_current(path, text):
            state = "stale" if path.exists() else "missing"
            found.append(f"{path.relative_to(root)}: {state}; run mindlab build")
    if plan:
        found += [f"{path.relative_to(root)}: no source gives it" for path in _extra(root, plan)]
    return found


def _read(root: Path) -> tuple[list[Chapter], list[str]]:
    chapters: list[Chapter] = []
    found: list[str] = []
    for path in sources(root):
        try:
            chapters.append(read_chapter(path))
            found += rules.findings(chapters[-1])
        except SourceError as error:
            found.append(str(error))
    if not chapters and not found:
        found.append("notebooks/src holds no chapter (NN_name.md)")
    return chapters, found


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _extra(root: Path, plan: dict[Path, str]) -> list[Path]:
    """Notebooks named like chapters, in the editions' folders, that no source gives."""
    folders = {Edition(language, kind).folder for language in LANGUAGES for kind in EDITIONS}
    found = [path for folder in folders for path in (root / "notebooks" / folder).glob("[0-9][0-9]_*.ipynb")]
    return sorted(path for path in found if path not in plan)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
