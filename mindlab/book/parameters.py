"""A chapter's parameters: what its first code cell declares, and values given for a run."""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.errors import MindlabError, UnknownName

_KINDS = {bool: "bool", int: "int", float: "float", str: "str", list: "list", type(None): "None"}
_EXAMPLES = {"bool": "true", "int": "4", "float": "0.5", "str": "text", "list": "[1, 2]"}


class ParameterError(MindlabError):
    """A parameter that is not a literal, or a value that does not fit it."""


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell: `ranks = 4  # how many ranks`."""

    name: str
    value: Any
    help: str = ""
    optional: bool = False
    """None is a value of it."""

    @property
    def kind(self) -> str:
        """ "bool", "int", "float", "str", "list" or "None"."""
        return _KINDS[type(self.value)]


def declared(code: str) -> list[Parameter]:
    """The parameters that a cell declares; raises ParameterError unless it is literals, one a line."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ParameterError(f"the parameters are not Python: {error.msg}") from None
    comments = _comments(code)
    made: list[Parameter] = []
    for statement in tree.body:
        made.append(_declaration(statement, comments.get(statement.lineno, "")))
        if statement.lineno != statement.end_lineno:
            raise ParameterError(f"parameter {made[-1].name!r} takes more than one line")
    names = [parameter.name for parameter in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError(f"parameter {twice[0]!r} is declared twice")
    return made


def parse_assignment(text: str) -> tuple[str, str]:
    """("ranks", "8") from "ranks=8"."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise ParameterError(f"-p {text}: write -p name=value")
    return name.strip(), value.strip()


def fit(given: Mapping[str, str], chapters: Mapping[str, Iterable[Parameter]]) -> dict[str, dict[str, Any]]:
    """Values by chapter, typed as each declares them.

    A chapter gets the values that it knows. Raises UnknownName for a name that no chapter declares and
    ParameterError for a value of another type.
    """
    known = {name: {p.name: p for p in parameters} for name, parameters in chapters.items()}
    every = {name: None for parameters in known.values() for name in parameters}
    for name in given:
        if name not in every:
            raise UnknownName("parameter", name, every)
    return {
        chapter: {
            name: value_of(parameters[name], text, chapter)
            for name, text in given.items()
            if name in parameters
        }
        for chapter, parameters in known.items()
    }


def value_of(parameter: Parameter, text: str, chapter: str = "") -> Any:
    """The value that `text` gives for a parameter; its type is that of the declared literal."""
    try:
        if text in ("None", "null") and (parameter.optional or parameter.kind == "None"):
            return None
        return _typed(text, parameter.value)
    except (ValueError, yaml.YAMLError) as error:
        where = f" in {chapter}" if chapter else ""
        example = _EXAMPLES.get(parameter.kind, "4")
        detail = f" ({error})" if isinstance(error, _Hint) else ""
        raise ParameterError(
            f"-p {parameter.name}={text}: {parameter.name} is of type {parameter.kind}{where} "
            f"(it says {parameter.name} = {parameter.value!r}){detail}; "
            f"for example -p {parameter.name}={example}"
        ) from None


class _Hint(ValueError):
    """A ValueError whose words help the person."""


def _typed(text: str, like: Any) -> Any:
    if isinstance(like, bool):
        return _bool(text)
    if isinstance(like, int):
        return _int(text)
    if isinstance(like, float):
        return _float(text)
    if isinstance(like, str):
        return _str(text)
    if isinstance(like, list):
        return _list(text, like)
    return _guessed(text)


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d[\d_]*", text):
        raise ValueError
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Hint("a finite number")
    return value


def _str(text: str) -> str:
    """The text as it stands, without a pair of quotes around it."""
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _list(text: str, like: list[Any]) -> list[Any]:
    """A list in YAML's flow form. Its scalars stay text until they meet the declared type."""
    if text.startswith("("):
        raise _Hint("a tuple cannot travel; write a list")
    read = yaml.load(text, Loader=yaml.BaseLoader)
    if not isinstance(read, list):
        raise ValueError
    kinds = {type(item) for item in like}
    pattern = like[0] if len(kinds) == 1 else None
    return [_item(item, pattern) for item in read]


def _item(item: Any, like: Any) -> Any:
    if isinstance(item, list):
        if like is not None and not isinstance(like, list):
            raise ValueError
        inner = like[0] if isinstance(like, list) and like else None
        return [_item(part, inner) for part in item]
    if not isinstance(item, str) or isinstance(like, list):
        raise ValueError
    return _typed(item, like)


def _guessed(text: str) -> Any:
    """For a parameter that says None: the plainest type that fits."""
    if text in ("None", "null"):
        return None
    for reader in (_int, _float, _bool):
        try:
            return reader(text)
        except ValueError:
            continue
    return _list(text, []) if text.startswith(("[", "(")) else _str(text)


def _declaration(statement: ast.stmt, comment: str) -> Parameter:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value, annotation = statement.targets[0], statement.value, ""
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value, annotation = statement.target, statement.value, ast.unparse(statement.annotation)
    else:
        raise ParameterError(f"line {statement.lineno} of the parameters is not name = literal")
    if not isinstance(target, ast.Name):
        raise ParameterError(f"line {statement.lineno} of the parameters is not name = literal")
    return Parameter(target.id, _literal(target.id, value), comment, "None" in annotation)


def _literal(name: str, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        raise ParameterError(
            f"parameter {name!r} is not a literal; what is computed goes into the next cell"
        ) from None
    if not _is_plain(value):
        raise ParameterError(f"parameter {name!r} is not an int, float, bool, str, None or list of these")
    return value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return type(value) in _KINDS


def _comments(code: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}
