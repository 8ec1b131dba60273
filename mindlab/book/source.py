"""A chapter as its writer keeps it: one MyST text, read into cells.

The format is described in docs/writing.md.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.errors import MindlabError

LANGUAGES = ("en", "zh")

_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_CODE_CELL = re.compile(r"^\{code-cell\}(?:\s+(?:ipython3|python))?\s*$")
_OPTION = re.compile(r"^:(?P<name>[\w-]+):(?P<value>.*)$")
_PROSE_KEYS = {"lang", "of", "tags"}


class SourceError(MindlabError):
    """A chapter's source cannot be read; the message names file and line."""


@dataclass(frozen=True)
class Cell:
    """One cell of the source. `line` is where it begins, counted from 1."""

    kind: str
    """"prose" or "code"."""
    text: str
    line: int
    tags: tuple[str, ...] = ()
    name: str = ""
    language: str = "en"
    """Of a prose cell; a code cell belongs to every language."""
    of: str = ""
    """In a translated cell: the fingerprint of the English cell that it renders."""

    @property
    def fingerprint(self) -> str:
        """The first 8 hex digits of SHA-256 over the text: what a translation records in `of`."""
        return hashlib.sha256(self.text.strip().encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Chapter:
    """A chapter's source: its name ("01_collectives"), front matter and cells."""

    name: str
    title: str
    languages: tuple[str, ...]
    cells: tuple[Cell, ...]
    path: Path

    @property
    def code_cells(self) -> tuple[Cell, ...]:
        """The code cells, in order."""
        return tuple(cell for cell in self.cells if cell.kind == "code")


def read_chapter(path: Path) -> Chapter:
    """The chapter in `path`; raises SourceError with file and line if it breaks the format."""
    return parse_chapter(path.read_text(encoding="utf-8"), path)


def parse_chapter(text: str, path: Path) -> Chapter:
    """The chapter whose source is `text`; `path` gives its name and stands in messages."""
    lines = text.splitlines()
    front, start = _front_matter(lines, path)
    return Chapter(
        name=path.stem,
        title=front["title"],
        languages=tuple(front["languages"]),
        cells=tuple(_Reader(lines, start, path).cells()),
        path=path,
    )


def _front_matter(lines: list[str], path: Path) -> tuple[dict[str, Any], int]:
    """The front matter, checked, and the index of the first line after it."""
    if not lines or lines[0].strip() != "---":
        raise SourceError(f"{path.name}, line 1: begin with front matter: ---, title: …, ---")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        raise SourceError(f"{path.name}, line 1: the front matter has no closing ---")
    front = yaml.safe_load("\n".join(lines[1:end])) or {}
    unknown = sorted(set(front) - {"title", "languages"})
    if unknown:
        raise SourceError(f"{path.name}: unknown front matter {', '.join(unknown)}; known: title, languages")
    if not isinstance(front.get("title"), str):
        raise SourceError(f"{path.name}: the front matter needs a title")
    front.setdefault("languages", ["en"])
    wrong = [name for name in front["languages"] if name not in LANGUAGES]
    if wrong or front["languages"][:1] != ["en"]:
        raise SourceError(f"{path.name}: languages is [en] or [en, zh], not {front['languages']}")
    return front, end + 1


@dataclass
class _Reader:
    """Walks through the lines once and yields cells."""

    lines: list[str]
    at: int
    path: Path
    meta: dict[str, Any] = field(default_factory=dict)
    prose: list[str] = field(default_factory=list)
    prose_line: int = 0
    made: list[Cell] = field(default_factory=list)

    def cells(self) -> list[Cell]:
        self.prose_line = self.at + 1
        while self.at < len(self.lines):
            self._step(self.lines[self.at])
        self._end_prose()
        return self.made

    def _step(self, line: str) -> None:
        fence = _FENCE.match(line)
        if fence and _CODE_CELL.match(fence["info"].strip()):
            self._end_prose()
            self._code_cell(fence["mark"])
            self.prose_line = self.at + 1
        elif fence and fence["info"].strip().startswith("{"):
            self._fail(f"unknown block {fence['info'].strip()!r}; only {{code-cell}} is known")
        elif fence:
            self._keep_fence(fence["mark"])
        elif line.startswith("+++"):
            self._end_prose()
            self.meta = self._metadata(line)
            self.at += 1
            self.prose_line = self.at + 1
        else:
            self.prose.append(line)
            self.at += 1

    def _code_cell(self, mark: str) -> None:
        if self.meta:
            self._fail("metadata after +++ belongs to prose; a code cell has :tags: and :name: lines")
        begin = self.at
        body = self._fenced(mark)
        options: dict[str, str] = {}
        while body and (option := _OPTION.match(body[0])):
            options[option["name"]] = option["value"].strip()
            body = body[1:]
        unknown = sorted(set(options) - {"tags", "name"})
        if unknown:
            self._fail(f"unknown option :{unknown[0]}:; known: :tags:, :name:", begin)
        tags = self._tags(options.get("tags", "[]"), begin)
        text = "\n".join(body).strip("\n").rstrip()
        self.made.append(Cell("code", text, begin + 1, tags, options.get("name", "")))

    def _keep_fence(self, mark: str) -> None:
        """An ordinary fenced block stays in the prose, whatever stands in it."""
        begin = self.at
        self._fenced(mark)
        self.prose += self.lines[begin : self.at]

    def _fenced(self, mark: str) -> list[str]:
        """The lines inside the fence that opens here; moves behind its end."""
        close = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}\s*$")
        begin = self.at
        for end in range(begin + 1, len(self.lines)):
            if close.match(self.lines[end]):
                self.at = end + 1
                return self.lines[begin + 1 : end]
        self._fail(f"the block that opens with {mark} never closes", begin)
        raise AssertionError("unreachable")

    def _end_prose(self) -> None:
        meta, prose, line = self.meta, self.prose, self.prose_line
        self.meta, self.prose = {}, []
        while prose and not prose[0].strip():
            prose, line = prose[1:], line + 1
        text = "\n".join(prose).rstrip()
        if text:
            tags = tuple(meta.get("tags", ()))
            self.made.append(Cell("prose", text, line, tags, "", meta.get("lang", "en"), meta.get("of", "")))
        elif meta:
            self._fail("a cell with metadata and no text")

    def _metadata(self, line: str) -> dict[str, Any]:
        text = line[3:].strip()
        try:
            meta = json.loads(text) if text else {}
        except json.JSONDecodeError as error:
            self._fail(f"after +++ comes JSON or nothing: {error}")
        if not isinstance(meta, dict) or set(meta) - _PROSE_KEYS:
            self._fail(f"after +++ the known keys are {', '.join(sorted(_PROSE_KEYS))}, not {text}")
        if meta.get("lang", "en") not in LANGUAGES:
            self._fail(f"lang is one of {', '.join(LANGUAGES)}, not {meta['lang']!r}")
        if (meta.get("lang", "en") == "en") == ("of" in meta):
            self._fail('"of" stands in a translated cell, and only there: {"lang": "zh", "of": "…"}')
        return meta

    def _tags(self, text: str, line: int) -> tuple[str, ...]:
        tags = yaml.safe_load(text)
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            self._fail(f":tags: is a list, :tags: [check, shown], not {text}", line)
        return tuple(tags)

    def _fail(self, message: str, at: int | None = None) -> None:
        raise SourceError(f"{self.path.name}, line {(self.at if at is None else at) + 1}: {message}")
