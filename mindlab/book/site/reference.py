"""The reference of the public names, from their signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import mindlab

MODULES = {
    "volume": "Bytes: mindlab.volume",
    "seconds": "Seconds: mindlab.seconds",
    "memory": "Memory: mindlab.memory",
    "flops": "Work: mindlab.flops",
    "collectives": "Algorithms: mindlab.collectives",
    "draw": "Pictures: mindlab.draw",
}
"""The public modules, with their pages' titles; one that is not named here gets its own name as title."""

_FENCE = "`" * 8
_SPECIAL = re.compile(r"([\\*_<>$\[\]|~])")
_SPAN = re.compile(r"(`+[^`]*`+)")


def names() -> dict[str, Any]:
    """Every public name of mindlab that is no module, in the package's order."""
    found = {name: getattr(mindlab, name) for name in mindlab._HOMES}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def modules() -> dict[str, str]:
    """Every public module of mindlab, with the title of its page."""
    public = [name for name in mindlab._HOMES if inspect.ismodule(getattr(mindlab, name))]
    return {name: MODULES.get(name, f"mindlab.{name}") for name in public}


def members(module: Any) -> dict[str, Any]:
    """The public functions and classes of a module, in its order."""
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    return {name: getattr(module, name) for name in listed if not name.startswith("_")}


def examples(value: Any) -> str:
    """The examples in a docstring, as doctest reads them; "" if it has none."""
    return "\n\n".join(block for block in _blocks(inspect.getdoc(value) or "") if block.startswith(">>>"))


def pages() -> Iterator[tuple[str, str]]:
    """(name, text) of every page: the names of mindlab itself, then each public module."""
    links = "\n".join(f"reference_{name}" for name in modules())
    head = (
        "# Reference\n\n`import mindlab as ml`. What the examples show is what the tests run.\n\n"
        f"{_FENCE}{{toctree}}\n:maxdepth: 1\n\n{links}\n{_FENCE}\n"
    )
    yield "reference", head + _kinds(names())
    for name, title in modules().items():
        module = getattr(mindlab, name)
        text = "\n\n".join(entry(f"ml.{name}.{key}", value) for key, value in members(module).items())
        yield f"reference_{name}", f"# {title}\n\n{described(module)}\n\n{text}\n"


def entry(full: str, value: Any) -> str:
    """One name: signature, description, and for a class its attributes."""
    if inspect.isclass(value):
        fault = issubclass(value, BaseException)
        kind, call = ("exception" if fault else "class"), ("" if fault else signature(value))
    else:
        kind, call = "function", signature(value)
    inside = described(value)
    if inspect.isclass(value):
        inside += "\n\n" + "\n\n".join(_attribute(name, text) for name, text in attributes(value))
    return f"{_FENCE}`{{py:{kind}}} {full}{call}\n{inside}\n{_FENCE}`"


def signature(value: Any) -> str:
    """ "(fn, *args: Any, ranks: int = 4) -> Run", annotations as they are written."""
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    plain = given.replace(return_annotation=inspect.Signature.empty) if inspect.isclass(value) else given
    text = str(plain)
    for annotation in {p.annotation for p in given.parameters.values()} | {given.return_annotation}:
        written = getattr(annotation, "__forward_arg__", annotation)  # a NamedTuple keeps a ForwardRef
        if isinstance(written, str):
            text = text.replace(f"ForwardRef({written!r})", written).replace(repr(written), written)
    return text.replace("<factory>", "...").replace("= Ellipsis", "= ...")


def described(value: Any) -> str:
    """A docstring as MyST: its prose, its examples, its drawings in plain text."""
    made = []
    for block in _blocks(inspect.getdoc(value) or ""):
        if block.startswith(">>>"):
            made.append(f"{_FENCE}{{code-block}} pycon\n{block}\n{_FENCE}")
        elif block.startswith("    "):
            made.append(f"{_FENCE}{{code-block}} text\n{textwrap.dedent(block)}\n{_FENCE}")
        else:
            made.append("".join(_plain(part) for part in _SPAN.split(block)))
    return "\n\n".join(made)


def attributes(value: type) -> Iterator[tuple[str, str]]:
    """(name, description) of a class's described public fields, properties and methods."""
    yield from _fields(value)
    for name, member in vars(value).items():
        text = inspect.getdoc(member) if not name.startswith("_") else ""
        if isinstance(member, property) and text:
            yield name, text
        elif inspect.isfunction(member) and text:
            yield f"{name}{re.sub(r'^.self(, )?', '(', signature(member))}", text


def _kinds(found: dict[str, Any]) -> str:
    """The entries, functions before classes before errors."""
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": []}
    for name, value in found.items():
        is_error = inspect.isclass(value) and issubclass(value, BaseException)
        kind = "Errors" if is_error else "Classes" if name[0].isupper() else "Functions"
        groups[kind].append(entry(f"ml.{name}", value))
    return "".join(f"\n## {kind}\n\n" + "\n\n".join(texts) + "\n" for kind, texts in groups.items() if texts)


def _attribute(name: str, text: str) -> str:
    kind = "method" if "(" in name else "attribute"
    prose = "\n\n".join("".join(_plain(part) for part in _SPAN.split(block)) for block in _blocks(text))
    return f"{_FENCE}{{py:{kind}}} {name}\n{prose}\n{_FENCE}"


def _fields(value: type) -> Iterator[tuple[str, str]]:
    """The fields whose description stands below them, as in a dataclass."""
    try:
        source = inspect.getsource(importlib.import_module(value.__module__))
    except (OSError, TypeError):
        return
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    body = next((node.body for node in classes if node.name == value.__name__), [])
    for field, below in itertools.pairwise(body):
        is_named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = ast.unparse(field).split(":")[0]
            if not name.startswith("_"):
                yield name, inspect.cleandoc(str(below.value.value))


def _blocks(text: str) -> list[str]:
    """The paragraphs; an example is dedented, and apart from the text before it."""
    made: list[str] = []
    for part in re.split(r"\n\s*\n", text):
        lines = part.strip("\n").splitlines()
        first = next((k for k, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        made += ["\n".join(lines[:first]), textwrap.dedent("\n".join(lines[first:]))]
    return [block for block in made if block.strip()]


def _plain(part: str) -> str:
    """Text that Markdown shows as it is written; code in backticks stays code."""
    return part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part)
