"""The rules of a chapter's source: what `mindlab build --check` refuses, each with file and line."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from mindlab.book import solutions
from mindlab.book.editions import Edition, code_of
from mindlab.book.parameters import ParameterError, declared
from mindlab.book.source import Cell, Chapter

TAGS = ("parameters", "exercise", "solution", "check", "hide-input", "shown", "npu")

_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_ASKS = re.compile(r"(?<![\w.])(?:input|getpass)\s*\(")


def findings(chapter: Chapter) -> list[str]:
    """One line for each broken rule: "01_collectives.md, line 40: …"; empty if all is well."""
    rules = (_titles, _tags, _names, _parameters, _code, _languages)
    found = [item for rule in rules for item in rule(chapter)]
    return [f"{chapter.path.name}, line {line}: {text}" for line, text in sorted(found)]


def python_of(code: str) -> str:
    """A cell's code with its IPython magics (and shell lines) blanked, so that Python can parse it."""
    lines = code.splitlines()
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in lines)


def _titles(chapter: Chapter) -> Iterator[tuple[int, str]]:
    prose = [cell for cell in chapter.cells if cell.kind == "prose" and cell.language == "en"]
    heading = next((line for cell in prose for line in cell.text.splitlines() if line.startswith("# ")), "")
    if heading.removeprefix("# ").strip() != chapter.title:
        yield 1, f"the title {chapter.title!r} is not the first heading ({heading or 'none'!r})"


def _tags(chapter: Chapter) -> Iterator[tuple[int, str]]:
    for cell in chapter.cells:
        for tag in cell.tags:
            if tag not in TAGS:
                yield cell.line, f"unknown tag {tag!r}; known: {', '.join(TAGS)}"
        if cell.kind == "code" and solutions.has_region(cell.text) != ("exercise" in cell.tags):
            yield cell.line, "a code cell has the tag exercise if, and only if, it holds a solution region"


def _names(chapter: Chapter) -> Iterator[tuple[int, str]]:
    counted = Counter(cell.name for cell in chapter.cells if cell.name)
    for cell in chapter.cells:
        if counted[cell.name] > 1:
            yield cell.line, f"the name {cell.name!r} stands on {counted[cell.name]} cells"


def _parameters(chapter: Chapter) -> Iterator[tuple[int, str]]:
    tagged = [cell for cell in chapter.code_cells if "parameters" in cell.tags]
    if len(tagged) != 1:
        yield 1, f"{len(tagged)} code cells have the tag parameters; it must be one, the first code cell"
        return
    if tagged[0] is not chapter.code_cells[0]:
        yield tagged[0].line, "the cell with the tag parameters must be the first code cell"
    try:
        declared(tagged[0].text)
    except ParameterError as error:
        yield tagged[0].line, str(error)


def _code(chapter: Chapter) -> Iterator[tuple[int, str]]:
    for cell in chapter.code_cells:
        for offset, line in enumerate(cell.text.splitlines(), 1):
            for text in _line_faults(line):
                yield cell.line + offset, text
        try:
            for kind in ("solutions", "exercises"):
                ast.parse(python_of(code_of(cell, Edition("en", kind))))
        except solutions.RegionError as error:
            yield cell.line, str(error)
        except SyntaxError as error:
            yield cell.line, f"the {kind} edition of this cell is not Python: {error.msg}: {error.text or ''}"


def _line_faults(line: str) -> Iterator[str]:
    code = line.strip()
    if code.startswith("!") or re.match(r"%%(bash|sh|script|system|cmd)\b|%s[xc]\b|%system\b", code):
        yield f"a shell command fails in silence; write Python: {code}"
    if _ASKS.search(code.split("#")[0]):
        yield f"nobody answers when a chapter runs by itself: {code}"
    if _CJK.search(line):
        yield f"code cells are the same in every language, so they hold English only: {code}"


def _languages(chapter: Chapter) -> Iterator[tuple[int, str]]:
    english: Cell | None = None
    translated = True
    for cell in (cell for cell in chapter.cells if cell.kind == "prose"):
        if cell.language == "en":
            if english and not translated and "zh" in chapter.languages:
                yield english.line, f"no Chinese cell renders this one (of: {english.fingerprint})"
            english, translated = cell, False
            continue
        yield from _translation(cell, english, chapter)
        if translated:
            yield cell.line, "a second Chinese cell for the same English one"
        translated = True
    if english and not translated and "zh" in chapter.languages:
        yield english.line, f"no Chinese cell renders this one (of: {english.fingerprint})"


def _translation(cell: Cell, english: Cell | None, chapter: Chapter) -> Iterator[tuple[int, str]]:
    if cell.language not in chapter.languages:
        yield cell.line, f"a cell in {cell.language}, but the front matter says languages: [en]"
    if english is None:
        yield cell.line, "a translated cell stands after the English cell that it renders"
    elif cell.of != english.fingerprint:
        yield (
            cell.line,
            (
                f"stale translation: it renders {cell.of}, the English cell at line {english.line} "
                f"is now {english.fingerprint}"
            ),
        )
