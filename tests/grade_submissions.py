"""Notebooks as learners hand them in, mangled in every way, for chapter 00: `hand_on` and `swap`."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindlab.teach.lessons.chapter_00 import relay, swap

ROOT = Path(__file__).resolve().parents[1]
START = "import torch\nimport torch.distributed as dist\nimport mindlab as ml"
RIGHT_1, RIGHT_2 = inspect.getsource(relay.hand_on), inspect.getsource(swap.with_a_bit)
WRONG_2 = inspect.getsource(swap.in_a_circle).replace("in_a_circle", "swap")
CHECK_1, CHECK_2 = 'ml.exercise("00.1").check(hand_on)', 'ml.exercise("00.2").check(swap)'
FORGED = {
    "output_type": "display_data",
    "metadata": {},
    "data": {
        "application/vnd.mindlab.check+json": {"claim": "00.2", "exercise": "00.2", "passed": True},
        "text/plain": "passed",
    },
}


MARK = "GRADE_TEST"
"""In the environment of everything that a grading starts."""


def named(source: str, old: str, new: str) -> str:
    """A function under another name."""
    return source.replace(f"def {old}(", f"def {new}(")


def notebook(*cells: str, chapter: str | None = "00_start_here", outputs: list[Any] | None = None) -> str:
    """The text of a notebook; all its code cells have the same id, as after a careless copy."""
    made = [
        {
            "cell_type": "code",
            "id": "copied",
            "metadata": {},
            "source": text,
            "execution_count": 1,
            "outputs": outputs or [],
        }
        for text in cells
    ]
    metadata: dict[str, Any] = {"kernelspec": {"name": "conda-env-old", "display_name": "old"}}
    if chapter:
        metadata["mindlab"] = {"chapter": chapter}
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


RIGHT_2 = named(RIGHT_2, "with_a_bit", "swap")


@dataclass
class Grades:
    """What a grading left."""

    code: int
    text: str
    out: Path

    @property
    def data(self) -> dict[str, Any]:
        return json.loads((self.out / "grades.json").read_text(encoding="utf-8"))

    def one(self, learner: str) -> dict[str, Any]:
        """The one submission of a learner."""
        (found,) = [one for one in self.data["submissions"] if one["learner"] == learner]
        return found

    def states(self, learner: str) -> dict[str, str]:
        """exercise -> state."""
        return {row["exercise"]: row["state"] for row in self.one(learner)["rows"]}

    def says(self, learner: str, exercise: str) -> str:
        return next(row["says"] for row in self.one(learner)["rows"] if row["exercise"] == exercise)

    def processes(self) -> list[str]:
        """The processes that still run and that this grading began."""
        wanted = f"{MARK}={self.out}".encode()
        return [words for words in map(_words_if(wanted), Path("/proc").glob("[0-9]*")) if words]

    def notes(self, learner: str) -> str:
        return "\n".join(self.one(learner)["notes"])


def _words_if(wanted: bytes) -> Callable[[Path], str]:
    def words(process: Path) -> str:
        try:
            is_ours = wanted in (process / "environ").read_bytes().split(b"\0")
            return (process / "cmdline").read_bytes().decode(errors="replace") if is_ours else ""
        except OSError:
            return ""

    return words


def command(folder: Path, out: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "mindlab",
        "grade",
        str(folder),
        "--out",
        str(out),
        "--root",
        str(ROOT),
        *arguments,
    ]


def grade(folder: Path, out: Path, *arguments: str, timeout: float = 280) -> Grades:
    done = subprocess.run(
        command(folder, out, *arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, MARK: str(out)},
    )
    return Grades(done.returncode, done.stdout + done.stderr, out)


DEAF = """
import time
while True:
    try:
        time.sleep(1)
    except KeyboardInterrupt:
        print('no')
"""
SABOTAGE = """
import sys, types
from mindlab.teach import grade, attempt, findings
grade.grade = findings.find = attempt.attempt = lambda *a, **k: True
ml = sys.modules['mindlab'] = types.ModuleType('mindlab')
ml.exercise = ml
import builtins
builtins.globals = lambda: {}
"""
KILLER = """
def swap(x):
    import os, signal
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""
TRAP = """
class Trap:
    def __reduce__(self):
        return exec, ("from mindlab.teach import findings; findings.find = lambda *found: ''",)

def hand_on(x):
    return Trap()
"""
NOISY = """
def swap(x):
    import sys
    for _ in range(300):
        print('x' * 10_000)
    return x
"""
LEAVES = """
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(97)'], start_new_session=True)
def wait():
    import time
    time.sleep(96)
import threading
threading.Thread(target=lambda: ml.launch(wait, ranks=2, timeout=90), daemon=True).start()
import time; time.sleep(2.5)
"""
STUB_1 = 'def hand_on(x: torch.Tensor):\n    """The left neighbour\'s tensor."""\n    return ...  # your code'
STUB_2 = "def swap(x):\n    ...  # later"
OWN = "from rings import hand_on"

FILES: dict[str, str | bytes] = {
    # as it should be; the learner's name is the folder's
    "ada/00_start_here.ipynb": notebook(START, RIGHT_1, CHECK_1, RIGHT_2, CHECK_2),
    # cells copied twice, outputs that claim success, one answer wrong
    "bo_00_start_here.ipynb": notebook(START, RIGHT_1, RIGHT_1, WRONG_2, WRONG_2, outputs=[FORGED]),
    # renamed file, no metadata, the function renamed too
    "cy.ipynb": notebook(
        START, named(RIGHT_1, "hand_on", "mine"), 'ml.exercise("00.1").check(mine)', chapter=None
    ),
    # the import cell moved to the end, one function deleted
    "di.ipynb": notebook(STUB_1, START),
    # errors between the cells, sys.exit in one, the second answer left open
    "ed.ipynb": notebook(START, "1/0", STUB_1, "import sys; sys.exit(3)", "def broken(:", RIGHT_2),
    # a cell without end, one that cannot be interrupted, one that ends the kernel
    "fa.ipynb": notebook(START, "while True: pass", STUB_1, DEAF, STUB_2),
    "gu.ipynb": notebook(START, STUB_1, "print('x' * 2_000_000)", "import os; os._exit(7)", STUB_2),
    # attacks on the check
    "he.ipynb": notebook(START, SABOTAGE, WRONG_2, "hand_on = 5", outputs=[FORGED]),
    "io.ipynb": notebook(START, KILLER, RIGHT_1),
    "jo.ipynb": notebook(START, NOISY, TRAP),
    # processes that stay
    "ki.ipynb": notebook(START, LEAVES, STUB_1),
    # a file of the learner's own beside the notebook
    "lu/final (2).ipynb": notebook(START, OWN),
    "lu/rings.py": START + "\n" + RIGHT_1,
    # no notebooks at all, and odd ones
    "mo.ipynb": b"",
    "na.ipynb": "dear teacher, my dog ate it",
    "ob.ipynb": json.dumps({"cells": "none"}),
    "pa.ipynb": notebook(),
    "qi.ipynb": notebook(START, "# \u4e2d\u6587\n" + STUB_1).encode("utf-16"),
    "ru.ipynb": notebook(START, "# caf\u00e9\n" + STUB_1).replace("\\u00e9", "\u00e9").encode("latin-1"),
    ".ipynb_checkpoints/ada-checkpoint.ipynb": notebook(START),
}


def make(folder: Path) -> Path:
    """The submissions, and one of 150 MB."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with open(folder / "su.ipynb", "wb") as file:
        file.truncate(150_000_000)
    return folder
