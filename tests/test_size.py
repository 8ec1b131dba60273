"""Files and functions that a person can read in one go."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES, FUNCTION = 300, 40


def files(*folders: str) -> list[Path]:
    """The Python files of these folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_files_are_short() -> None:
    """Would catch a file that grew past one concept."""
    long = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files("mindlab", "tests", "launch", "figures")
    }
    assert not {name: count for name, count in long.items() if count > LINES}


def test_functions_are_short() -> None:
    """Would catch a function with more than one level of abstraction."""
    long = [
        f"{path.name}:{node.lineno} {node.name}"
        for path in files("mindlab", "launch", "figures")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION
    ]
    assert not long
