"""The face of the package: what it exports, that all of it is described, and that importing it is cheap."""

from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed

import mindlab

PACKAGE = Path(mindlab.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", sorted(mindlab._HOMES))
def test_every_public_name_is_there_and_described(name: str) -> None:
    """Would catch a name that the documentation promises and no module holds, or one without a word on it."""
    value = getattr(mindlab, name)
    assert inspect.getdoc(value), name


@pytest.mark.parametrize("name", sorted(mindlab._HOMES))
def test_the_example_of_every_public_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch an example that was right once, and a name without one."""
    monkeypatch.chdir(tmp_path)
    scope = {"ml": mindlab, "torch": torch, "dist": torch.distributed, "__name__": "__main__"}
    text = inspect.getdoc(getattr(mindlab, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, scope, name, None, None)
    assert test.examples, "it has no example"
    words: list[str] = []
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.DocTestRunner(optionflags=flags).run(test, out=words.append).failed == 0, "".join(words)


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Would catch an import at the top that starts torch in the notebook's process, or needs CANN."""
    code = (
        "import mindlab, sys; print(sorted({'torch', 'numpy', 'matplotlib', 'IPython'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout == "[]\n"


def test_an_unknown_name_lists_the_known() -> None:
    """Would catch a misspelt name that leaves a learner without a hint."""
    with pytest.raises(AttributeError, match="launch"):
        mindlab.lunch  # noqa: B018


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_their_public_parts_are_described(path: Path) -> None:
    """Would catch a module, class or function whose purpose is left to guess."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module"
    undescribed = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not undescribed


def test_no_file_for_everything() -> None:
    """Would catch the file into which all that has no place goes."""
    assert not {path.stem for path in FILES} & {"utils", "util", "common", "helpers", "misc", "manager"}
