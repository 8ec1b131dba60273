"""The scripts of launch/: that they parse, what they pass on, what they exit with."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from setup_modules import LAUNCH, ROOT

SCRIPTS = sorted([*LAUNCH.glob("*.sh"), ROOT / ".ci" / "run"])


def bash(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `bash -c` says and exits with."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    """Would catch a syntax error in a script that no other test runs."""
    assert subprocess.run(["bash", "-n", str(script)], timeout=60).returncode == 0


@pytest.mark.parametrize("name", ["run.sh", "test.sh", "lab.sh"])
def test_scripts_stop_at_the_first_fault(name: str) -> None:
    """Would catch a script that goes on, and exits 0, after its set-up failed."""
    assert "set -euo pipefail" in (LAUNCH / name).read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_expansions_are_quoted(script: Path) -> None:
    """Would catch a checkout in a path with a space: $NAME outside quotes splits there."""
    for line in script.read_text().splitlines():
        bare = re.sub(r"\$\(\(.*?\)\)|\$\{(\w+)\[@\]\+\"\$\{\1\[@\]\}\"\}|\s#.*|^#.*", "", line)
        bare = re.sub(r'"(?:\$\([^()]*\)|[^"])*"|\'[^\']*\'', "", bare)
        assert not re.search(r"\$[{A-Za-z_]", bare) or line.strip().startswith("case "), line


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a path with a space, whose `mindlab` and `python` note what they were called with."""
    root = tmp_path / "a checkout"
    (root / "launch").mkdir(parents=True)
    for script in LAUNCH.glob("*.sh"):
        (root / "launch" / script.name).write_text(script.read_text())
    (root / ".venv" / "bin").mkdir(parents=True)
    for name in ("mindlab", "python", "base"):
        stub = root / ".venv" / "bin" / name
        stub.write_text(f'#!/bin/bash\necho {name} "$@" >>"{root}/calls"\n[ "$1" != "$FAIL" ]\n')
        stub.chmod(0o755)
    return root


def start(checkout: Path, name: str, *arguments: str, fail: str = "-") -> tuple[int, list[str]]:
    """A script's exit code, and the calls that it made after its set-up."""
    base = str(checkout / ".venv" / "bin" / "base")
    done = bash(f'bash "{checkout}/launch/{name}" "$@"', *arguments, MINDLAB_PYTHON=base, FAIL=fail)
    calls = (checkout / "calls").read_text().splitlines()
    return done.returncode, [each for each in calls if not each.startswith("base -c")]


def test_run_sets_up_runs_and_exports(checkout: Path) -> None:
    """Would catch a run with other chapters, other ranks or no export."""
    code, calls = start(checkout, "run.sh")
    assert code == 0
    assert calls == [
        f"base {checkout}/launch/setup.py lab docs",
        "mindlab run -p ranks=4 --out build/run",
        "mindlab export --to site --from build/run --out build/site",
    ]


def test_run_passes_arguments_on(checkout: Path) -> None:
    """Would catch an argument lost, or a default that contradicts it."""
    _, calls = start(checkout, "run.sh", "01", "-p", "ranks=8", "--jobs", "2")
    assert calls[1] == "mindlab run --out build/run 01 -p ranks=8 --jobs 2"
    _, calls = start(checkout, "run.sh", "--language", "zh")
    assert calls[-2] == "mindlab run -p ranks=4 --out build/run --language zh"


@pytest.mark.parametrize("fail", ["run", "export"])
def test_run_exits_with_the_fault(checkout: Path, fail: str) -> None:
    """Would catch a failed chapter or a failed export that exits 0; what did run is exported all the same."""
    code, calls = start(checkout, "run.sh", fail=fail)
    assert code == 1 and len(calls) == 3


@pytest.mark.parametrize("name", ["run.sh", "test.sh", "lab.sh"])
def test_a_failed_set_up_ends_it(checkout: Path, name: str) -> None:
    """Would catch chapters or tests run in an environment that is not ready."""
    code, calls = start(checkout, name, fail=f"{checkout}/launch/setup.py")
    assert code == 1 and len(calls) == 1


def test_test_passes_arguments_on(checkout: Path) -> None:
    """Would catch tests without what they need, or pytest's arguments lost."""
    _, calls = start(checkout, "test.sh", "-k", "ring or tree")
    assert calls == [f"base {checkout}/launch/setup.py lab docs dev", "python -m pytest -k ring or tree"]


def test_the_whole_test_run_takes_two_files_at_a_time(checkout: Path) -> None:
    """Would catch a run that takes twice as long, or tests of one file torn apart: they share fixtures."""
    _, calls = start(checkout, "test.sh")
    assert calls[1] == "python -m pytest -n 2 --dist loadfile"


@pytest.mark.parametrize(("version", "code"), [("3, 9, 18", 1), ("3, 10, 0", 0)])
def test_an_old_python_is_named(tmp_path: Path, version: str, code: int) -> None:
    """Would catch a syntax error's traceback on a Python that is too old, instead of what is needed."""
    stub = tmp_path / "python"
    stub.write_text(
        f'#!/bin/bash\nexec "{sys.executable}" -c "import sys; sys.version_info = ({version}); $2"\n'
    )
    stub.chmod(0o755)
    done = bash(f'. "{LAUNCH}/setup.sh"; mindlab_python', MINDLAB_PYTHON=str(stub))
    assert done.returncode == code and (str(stub) in done.stderr) == bool(code)
    assert ("3.10 or newer" in done.stderr) == bool(code)


def test_without_cann_nothing_is_said(tmp_path: Path) -> None:
    """Would catch a laptop told about a card that it does not have, or a shell left without -e."""
    script = f'set -eu; . "{LAUNCH}/npu_env.sh"; echo "${{-//[^eu]/}}"'
    done = bash(script, ASCEND_INSTALL_PATH=str(tmp_path), HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "eu\n", "")


def test_cann_is_loaded_once(tmp_path: Path) -> None:
    """Would catch a vendor's script that an unset variable or a failing command stops, or that runs twice."""
    place = tmp_path / "ascend-toolkit"
    place.mkdir()
    (place / "set_env.sh").write_text(
        'export ASCEND_HOME_PATH=/opt/cann\nexport LD_LIBRARY_PATH="/opt/cann/lib:$MINDLAB_UNSET"\n'
        "export LOADED=$((LOADED + 1))\nfalse\n"
    )
    source = f'. "{LAUNCH}/npu_env.sh"'
    variables = {"ASCEND_INSTALL_PATH": str(tmp_path), "HOME": str(tmp_path), "LD_LIBRARY_PATH": ""}
    done = bash(
        f'set -eu; {source}; {source}; echo "$ASCEND_HOME_PATH $LD_LIBRARY_PATH $LOADED"', **variables
    )
    assert (done.returncode, done.stdout) == (0, "/opt/cann /opt/cann/lib: 1\n")


def lab(code: str) -> subprocess.CompletedProcess[str]:
    """What these lines print with lab.py's names, in a process without other names of launch/."""
    return subprocess.run(
        [sys.executable, "-c", f"import lab; {code}"],
        cwd=LAUNCH,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "port"),
    [([], 8888), (["--port", "9001"], 9001), (["--port=9001"], 9001), (["--ServerApp.port=9001"], 9001)],
)
def test_lab_knows_its_port(arguments: list[str], port: int) -> None:
    """Would catch the wrong port examined before a start."""
    assert lab(f"print(lab.asked_port({arguments!r}))").stdout == f"{port}\n"


def test_lab_refuses_a_port_that_is_taken() -> None:
    """Would catch a second start that silently opens elsewhere, or ends in Jupyter's own traceback."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = lab(f"raise SystemExit(lab.main(['--port', '{port}']))")
    assert done.returncode == 1 and f"--port {port + 1}" in done.stderr


def test_lab_listens_on_this_host_alone() -> None:
    """Would catch a JupyterLab that other hosts can reach, or that moves to another port by itself."""
    line = lab("print(lab.command(['--no-browser']))").stdout
    assert "--ServerApp.ip=127.0.0.1" in line and "port_retries=0" in line
    assert line.rstrip().endswith("'--no-browser']")


def test_the_kernel_is_replaced_by_python() -> None:
    """Would catch a kernel behind a shell: an interrupt would reach the shell alone."""
    assert (LAUNCH / "kernel.sh").read_text().splitlines()[-1].startswith("exec ")
