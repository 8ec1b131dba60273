"""Where in the person's code a call stands: file, line, text, and the words for it."""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import linecache
import os
import re
import sys
import sysconfig
from types import CodeType, FrameType
from typing import NamedTuple

cells: dict[str, str] = {}
"""A notebook's cell files and what a person calls them: "/tmp/ipykernel_1/2.py" -> "cell 3"."""

_PERSON, _LIBRARY, _MINDLAB = range(3)
_kinds: dict[str, int] = {}


class Place(NamedTuple):
    """One spot of source: the line, and the instruction, which tells two calls on one line apart."""

    file: str
    lineno: int
    code: CodeType | None = None
    instruction: int = 0

    @property
    def name(self) -> str:
        """The file as a person knows it: "cell 3", or its path."""
        return cells.get(self.file, self.file)

    @property
    def words(self) -> str:
        """ "cell 3, line 2" or "ring.py, line 41"."""
        return place(self.name, self.lineno)


NOWHERE = Place("", 0)


def place(file: str, lineno: int) -> str:
    """The words for a line of source: its file's base name, or "cell" for a file that a kernel made."""
    if not file:
        return "an unknown line"
    parts = file.replace("\\", "/").split("/")
    in_cell = any(part.startswith("ipykernel_") for part in parts) or file.startswith("<ipython")
    return f"{'cell' if in_cell else parts[-1]}, line {lineno}"


def find(frame: FrameType | None) -> Place:
    """The innermost frame of the person's code; of mindlab's own, if there is none."""
    ours: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        kind = _kinds.get(file)
        if kind is None:
            kind = _kinds[file] = _kind(file)
        if kind == _PERSON:
            return Place(file, frame.f_lineno, frame.f_code, frame.f_lasti)
        if kind == _MINDLAB and ours is None:
            ours = frame
        frame = frame.f_back
    return (
        NOWHERE if ours is None else Place(ours.f_code.co_filename, ours.f_lineno, ours.f_code, ours.f_lasti)
    )


def text(spot: Place) -> str:
    """The text of the line, "" where it cannot be read."""
    return plain_code(linecache.getline(spot.file, spot.lineno)).strip()


def plain_code(text: str) -> str:
    """Code without the remarks that only a checker of types or of style reads."""
    return re.sub(r"[ \t]*# (?:type: ignore|noqa)[^\n]*", "", text)


def argument(spot: Place) -> str:
    """How the person wrote the tensor of this send or receive ("k"); "" where it cannot be told."""
    source = _segment(spot)
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if not isinstance(tree, ast.Call):
        return ""
    called = tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")
    for keyword in tree.keywords:
        if keyword.arg == "tensor":
            return ast.unparse(keyword.value)
    position = 1 if called == "P2POp" else 0
    return ast.unparse(tree.args[position]) if len(tree.args) > position else ""


def _segment(spot: Place) -> str:
    """The text of the call itself: exact from Python 3.11 on, else its line if that is one expression."""
    span = _span(spot)
    if span is None:
        return text(spot).rstrip(";")
    first, last, begin, stop = span
    lines = [linecache.getline(spot.file, number).encode() for number in range(first, last + 1)]
    if not all(lines):
        return ""
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace")


def _span(spot: Place) -> tuple[int, int, int, int] | None:
    if spot.code is None or sys.version_info < (3, 11):
        return None
    at = spot.instruction // 2
    found = next(itertools.islice(spot.code.co_positions(), at, at + 1), None)
    if found is None or None in found:
        return None
    return found


def _kind(file: str) -> int:
    if file in cells or "ipykernel_" in file or file.startswith("<ipython"):
        return _PERSON
    if file.startswith("<frozen"):
        return _LIBRARY
    if _under(file, (_home("mindlab"),)):
        # A program of a lesson stands for the person's own code: its lines are what there is to look at.
        return _PERSON if f"{os.sep}teach{os.sep}lessons{os.sep}" in file else _MINDLAB
    if "site-packages" in file or "dist-packages" in file or _under(file, _libraries()):
        return _LIBRARY
    return _PERSON


def _under(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(tuple(folder + os.sep for folder in folders if folder))


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (paths["stdlib"], paths["platstdlib"], _home("torch"), _home("torch_npu"))


@functools.cache
def _home(package: str) -> str:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return os.path.abspath(places[0]) if places else ""
