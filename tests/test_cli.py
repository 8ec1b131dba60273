"""The command line: what it lists, what it refuses, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindlab import cli

COMMANDS = ("build", "run", "export", "figures", "doctor", "bench")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a command that nobody can find."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and all(f"    {command} " in text for command in COMMANDS)


def test_an_unknown_command_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a typing mistake that ends in silence."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["exprot"])
    text = capsys.readouterr().err
    assert ended.value.code == 2 and all(command in text for command in COMMANDS)


def test_chapters_may_stand_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a chapter that is refused, or lost, because an option stands before it."""
    options = cli._parse(["run", "00", "-p", "a=1", "01", "--jobs", "2"])
    assert (options.chapters, options.p, options.jobs) == (["00", "01"], ["a=1"], 2)
    for wrong in (["run", "00", "--paralel"], ["build", "00"]):
        with pytest.raises(SystemExit):
            cli.main(wrong)
    assert "unrecognized arguments: --paralel" in capsys.readouterr().err


def test_the_command_line_imports_nothing_heavy() -> None:
    """Catches a start that takes seconds, or that dies because torch does."""
    code = (
        "import sys, mindlab.cli as cli; cli.parser(); "
        "heavy = {'torch', 'numpy', 'matplotlib', 'papermill', 'nbconvert'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_mistakes_are_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches tracebacks where a person gave a wrong name."""
    assert cli.main(["run", "--root", str(tmp_path)]) == 2
    assert cli.main(["export", "--root", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("mindlab run: no notebooks in ")


def test_build_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a check whose exit code nobody can use."""
    source = tmp_path / "notebooks/src/01_a.md"
    source.parent.mkdir(parents=True)
    source.write_text("---\ntitle: A\n---\n# A\n\n```{code-cell}\n:tags: [parameters]\nn = 1\n```\n")
    assert cli.main(["build", "--check", "--root", str(tmp_path)]) == 1
    assert cli.main(["build", "--root", str(tmp_path)]) == 0
    assert cli.main(["build", "--check", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "notebooks/01_a.ipynb: missing" in said.err and "built notebooks/solutions/01_a.ipynb" in said.out


def test_the_root_is_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a command that works in one folder only."""
    from mindlab.book.builder import find_root

    (tmp_path / "notebooks/src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks")
    assert find_root() == tmp_path.resolve()


def test_python_dash_m_is_the_same_program() -> None:
    """Catches a package that cannot be run where the script is not on the path."""
    done = subprocess.run(
        [sys.executable, "-m", "mindlab", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith("mindlab ")
