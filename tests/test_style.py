"""ruff and mypy have nothing to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tool(*arguments: str) -> None:
    """Fails with what the tool says, if it says anything."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    if done.returncode:
        pytest.fail(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}", pytrace=False)


def test_ruff() -> None:
    """Would catch an unused name, a bare except, an import out of order."""
    tool("ruff", "check", ".")


def test_mypy() -> None:
    """Would catch a call with arguments of other types than the signature says, anywhere in the package."""
    tool("mypy")


def test_mypy_on_the_set_up() -> None:
    """Would catch the same in launch/, whose modules are found in their own folder."""
    tool("mypy", "--strict", "--config-file", "", *map(str, sorted((ROOT / "launch").glob("*.py"))))
