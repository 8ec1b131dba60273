"""The packages that pyproject.toml names, one a line: `.venv/bin/python launch/pyproject.py [extra...]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

FILE = Path(__file__).resolve().parents[1] / "pyproject.toml"


def named(content: dict[str, Any], extras: list[str]) -> list[str]:
    """What is needed to build the project, to run it, and for the given extras. Raises KeyError."""
    optional = content["project"]["optional-dependencies"]
    lists = [
        content["build-system"]["requires"],
        content["project"]["dependencies"],
        *(optional[e] for e in extras),
    ]
    return [requirement for each in lists for requirement in each]


if __name__ == "__main__":
    CONTENT = tomllib.loads(FILE.read_text(encoding="utf-8"))
    KNOWN = list(CONTENT["project"]["optional-dependencies"])
    if UNKNOWN := [extra for extra in sys.argv[1:] if extra not in KNOWN]:
        raise SystemExit(f"unknown extra {UNKNOWN[0]!r}; known: {', '.join(KNOWN)}")
    print("\n".join(named(CONTENT, sys.argv[1:])))
