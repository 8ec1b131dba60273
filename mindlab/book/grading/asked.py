"""What a chapter asks: its exercises and case files, and the names that its notebook gives the answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from mindlab.book import builder, solutions
from mindlab.book.source import SourceError, read_chapter
from mindlab.errors import UnknownName
from mindlab.teach import registry

_CALL = re.compile(r"""\b(?:exercise|case)\(\s*["']([\w.-]+)["']\s*\)""")


@dataclass(frozen=True)
class Asked:
    """One exercise of a chapter, and the name of the function that answers it."""

    exercise: str
    function: str


@dataclass(frozen=True)
class Chapter:
    """A chapter that has exercises: "01_collectives", number "01"."""

    name: str
    asked: tuple[Asked, ...]

    @property
    def number(self) -> str:
        """The first part of its name: "01"."""
        return self.name.split("_")[0]


def chapters(root: Path) -> list[Chapter]:
    """The chapters of the book that have something to grade."""
    names = {path.stem.split("_")[0]: path for path in builder.sources(root)}
    found = [_chapter(number, names.get(number)) for number in registry.chapters()]
    return [chapter for chapter in found if chapter.asked]


def choose(known: Iterable[Chapter], word: str) -> Chapter:
    """The chapter with this number or name; raises UnknownName."""
    known = list(known)
    stem = Path(word).name.removesuffix(".ipynb").removesuffix(".md")
    number = stem.zfill(2) if stem.isdigit() else stem
    for chapter in known:
        if number in (chapter.name, chapter.number):
            return chapter
    raise UnknownName("chapter with exercises", word, [chapter.name for chapter in known])


def belongs(
    notebook: NotebookNode, known: Iterable[Chapter], default: Chapter | None = None
) -> Chapter | None:
    """The chapter of a notebook: by its metadata, else `default`, else by the exercises that it names."""
    known = list(known)
    said = notebook.metadata.get("mindlab", {}).get("chapter")
    by_name = next((chapter for chapter in known if chapter.name == said), None)
    if by_name or default:
        return by_name or default
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    named = {name for text in code for name in _CALL.findall(text)}
    defined = {name for text in code for name in re.findall(r"^\s*def (\w+)", text, re.MULTILINE)}
    scores = [
        (sum((one.exercise in named) + (one.function in defined) for one in chapter.asked), chapter)
        for chapter in known
    ]
    score, best = max(scores, key=lambda pair: pair[0], default=(0, None))
    return best if score else None


def answers_in(code: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(exercise, function) of each `exercise("01.2").check(function)` in these cells, also of case files,
    and where the exercise has a variable: `case = ml.case("01-b")`, later `case.check(function)`.
    """
    variables: dict[str, str] = {}
    for statement in (statement for text in code for statement in _statements(text)):
        match statement:
            case ast.Assign(targets=[ast.Name(id=variable)], value=made):
                variables[variable] = _named(made, {})
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(value=task, attr="check"), args=[ast.Name(id=function), *_]):
                    if name := _named(task, variables):
                        yield name, function


def _named(task: ast.expr, variables: dict[str, str]) -> str:
    """The name of the exercise or case that an expression is; "" if it is none."""
    match task:
        case ast.Name(id=variable):
            return variables.get(variable, "")
        case ast.Call(func=maker, args=[ast.Constant(value=str(name)), *_]):
            return name if _ending(maker) in ("exercise", "case") else ""
    return ""


def _chapter(number: str, source: Path | None) -> Chapter:
    named: dict[str, str] = {}
    if source is not None:
        try:
            cells = [cell.text for cell in read_chapter(source).cells if cell.kind == "code"]
            named = dict(answers_in(solutions.solved(text) for text in cells))
        except (SourceError, ValueError):  # mindlab build names what is wrong with it
            pass
    tasks = [(one.name, one.solution) for one in registry.exercises(number)]
    tasks += [(one.name, one.repair.solution) for one in registry.cases(number) if one.name in named]
    asked = [Asked(name, named.get(name, solution.__name__)) for name, solution in tasks]
    return Chapter(source.stem if source else number, tuple(asked))


def _statements(text: str) -> list[ast.stmt]:
    """The statements of a cell; none if it is not Python. Lines of magic are left out."""
    lines = [line if not line.lstrip().startswith(("%", "!")) else "" for line in text.splitlines()]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError):
        return []


def _ending(node: ast.expr) -> str:
    """The last name of `ml.exercise` or `exercise`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
