"""A submission from its file to its rows: executed, its functions taken out, each judged."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from mindlab.book import executed, leftovers, notebook_file
from mindlab.book.grading import handover, submissions
from mindlab.book.grading.asked import answers_in
from mindlab.book.grading.judging import Checker
from mindlab.book.grading.session import Session
from mindlab.book.task import START_SECONDS, Outcome, Task

Told = Callable[[int, int], None]

_DEATHS = 2
"""How many cells may end the kernel; each is left out when the notebook is executed anew."""

_ALONG = 50_000_000
"""Bytes of other files that may lie beside a notebook and go with it."""


@dataclass(frozen=True)
class Sitting(Task):
    """One submission to grade. `chapter` is its key; `asked` holds (exercise, function)."""

    asked: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    backend: str = ""
    check_timeout: float = 120.0
    along: bool = False
    """Whether the files beside it are the learner's own."""

    @property
    def patience(self) -> float:
        """Seconds after which a worker that does not even notice its own deadlines is given up."""
        return self.timeout + len(self.asked) * self.check_timeout + 3 * START_SECONDS


@dataclass
class Left:
    """What the execution of a submission left behind."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each name is, as `handover` describes it."""
    notes: list[str] = field(default_factory=list)
    unfinished: str = ""
    """Why not every cell ran; "" if all did."""


def sit(task: Sitting, told: Told = lambda done, of: None) -> Outcome:
    """The Outcome of a submission: `checks` holds one row for each exercise, `error` the notes.

    `told(k, n)` is called before the k-th of n code cells and exercises. The executed notebook lies at
    `task.output`; the submission itself is only read.
    """
    began = time.monotonic()
    try:
        notebook, note = submissions.read(Path(task.notebook))
    except submissions.Unreadable as error:
        return Outcome(task.chapter, "failed", 0.0, str(error), _all(task, str(error)))
    with _folder(task) as folder:
        left = _executed(task, notebook, folder, told)
        left.notes[:0] = [f"the file {note}"] if note else []
        notebook_file.write(notebook, Path(task.output))
    rows = _judged(task, notebook, left, told)
    ending = "failed" if any(row["state"] == "did not run" for row in rows) else "passed"
    return Outcome(task.chapter, ending, round(time.monotonic() - began, 3), "\n".join(left.notes), rows)


@contextmanager
def _folder(task: Sitting) -> Iterator[str]:
    """A private folder to run in, with what else the learner handed in: so that nothing is written there."""
    with tempfile.TemporaryDirectory(prefix="mindlab-grade-", ignore_cleanup_errors=True) as made:
        home = Path(task.notebook).parent
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) if task.along else 0
        if task.along and size <= _ALONG:
            shutil.copytree(home, made, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.ipynb", ".*"))
        yield made


def _executed(task: Sitting, notebook: NotebookNode, folder: str, told: Told) -> Left:
    """Executes the cells; once more without a cell that ended the kernel."""
    left, end = Left(), time.monotonic() + task.timeout
    left_out: set[int] = set()
    try:
        while True:
            fatal = _attempt(task, notebook, folder, left, left_out, end, told)
            if fatal is None:
                return left
            left_out.add(fatal)
            if len(left_out) > _DEATHS or time.monotonic() > end:
                left.unfinished = left.notes[-1]
                return left
    finally:
        _end(task, left)


def _attempt(
    task: Sitting,
    notebook: NotebookNode,
    folder: str,
    left: Left,
    left_out: set[int],
    end: float,
    told: Told,
) -> int | None:
    """Runs the cells not in `left_out` and takes the answers; the one that killed the kernel, or None."""
    session = None
    try:
        session = Session(_environment(task, folder), folder)
        cells = [(k, cell) for k, cell in enumerate(notebook.cells) if executed.is_executable(cell)]
        for count, (index, cell) in enumerate(cells, 1):
            told(count, len(cells) + len(task.asked))
            if index not in left_out and not _run(session, task, notebook, cell, left, end):
                return index
            if time.monotonic() > end:
                left.unfinished = f"took longer than {task.timeout:g} s (--deadline); stopped at cell {count}"
                left.notes.append(left.unfinished)
                break
        _again(session, task, notebook, left, end)
        _take_answers(session, task, notebook, folder, left)
    except RuntimeError as error:  # jupyter_client says so that a kernel did not start
        left.unfinished = f"its kernel did not start: {error}"
        left.notes.append(left.unfinished)
    finally:
        if session:
            session.end()
    return None


def _run(
    session: Session, task: Sitting, notebook: NotebookNode, cell: NotebookNode, left: Left, end: float
) -> bool:
    """Executes one cell; False if its kernel is gone."""
    seconds = max(0.1, min(task.cell_timeout, end - time.monotonic()))
    ending = session.execute(cell, seconds)
    if not ending:
        return True
    where = executed.place(notebook, cell)
    if ending == "too slow":
        left.notes.append(f"{where}: interrupted after {seconds:.0f} s")
        return True
    left.notes.append(f"{where}: {ending}; executed again without it")
    reason = {"output_type": "error", "ename": "RunEnded", "evalue": ending, "traceback": [ending]}
    cell.outputs.append(notebook_file.node(reason))
    return False


def _again(session: Session, task: Sitting, notebook: NotebookNode, left: Left, end: float) -> None:
    """Cells that lacked a name run a second time: somebody moved a cell, and its name exists by now."""
    lacking = [cell for cell in notebook.cells if _lacks_a_name(cell)]
    for cell in lacking:
        if time.monotonic() < end and not _run(session, task, notebook, cell, left, end):
            return
    mended = [executed.place(notebook, cell) for cell in lacking if not _lacks_a_name(cell)]
    left.notes += [f"{where}: stands before what it needs; executed a second time" for where in mended]


def _lacks_a_name(cell: NotebookNode) -> bool:
    return any(out.output_type == "error" and out.ename == "NameError" for out in cell.get("outputs", []))


def _take_answers(session: Session, task: Sitting, notebook: NotebookNode, folder: str, left: Left) -> None:
    """Takes the functions out of the kernel by name, also by the name that the learner's own cells check."""
    own = dict(answers_in(cell.source for cell in notebook.cells if cell.cell_type == "code"))
    names = [name for _, name in task.asked] + list(own.values())
    handle, target = tempfile.mkstemp(prefix="mindlab-answers-")
    os.close(handle)
    text = Path(handover.__file__).read_text(encoding="utf-8")
    code = (
        # A learner may have put anything in the place of globals().
        f"(lambda scope, own: (exec({text!r}, own), own['hand_over'](scope, {names!r}, {target!r})))"
        "((lambda: 0).__globals__, {'__name__': 'hand_over'})"
    )
    try:
        session.run_hidden(code, 60.0)
        found = json.loads(Path(target).read_text(encoding="utf-8") or "null")
    except (ValueError, OSError):
        found = None
    finally:
        Path(target).unlink(missing_ok=True)
    if not isinstance(found, dict):
        left.unfinished = "its kernel did not hand over the functions (what was put in Python's own place?)"
        left.notes.append(left.unfinished)
        return
    left.answers = found | {exercise: found[name] for exercise, name in own.items() if name in found}


def _judged(task: Sitting, notebook: NotebookNode, left: Left, told: Told) -> tuple[dict[str, Any], ...]:
    cells = sum(executed.is_executable(cell) for cell in notebook.cells)
    with tempfile.TemporaryDirectory(prefix="mindlab-check-") as empty, open(os.devnull, "w") as log:
        checker = Checker(_environment(task, empty), log, empty)
        try:
            rows = []
            for count, (exercise, function) in enumerate(task.asked, 1):
                told(cells + count, cells + len(task.asked))
                answer = left.answers.get(function) or left.answers.get(exercise)
                verdict = _verdict(task, exercise, function, answer, left, checker)
                rows.append({"exercise": exercise, "function": function, **verdict})
            return tuple(rows)
        finally:
            checker.close()
            leftovers.end_marked(task.mark)


def _verdict(
    task: Sitting, exercise: str, function: str, answer: dict[str, Any] | None, left: Left, checker: Checker
) -> dict[str, Any]:
    if answer is None:
        if left.unfinished:
            return {"state": "did not run", "says": left.unfinished}
        return {"state": "not found", "says": f"The notebook defines no {function}."}
    if answer["kind"] == "blank":
        return {"state": "not answered", "says": ""}
    if answer["kind"] == "value":
        return {"state": "failed", "says": f"This is no function, but {answer['shown']}."}
    if answer["kind"] == "stuck":
        return {"state": "failed", "says": f"The function cannot travel to the ranks: {answer['why']}."}
    question = {
        "exercise": exercise,
        "answer": answer,
        "seed": task.seed,
        "backend": task.backend,
        "timeout": task.check_timeout / 2,  # more than a learner's own: several submissions share this host
    }
    return {**checker.judge(question, task.check_timeout), "source": answer["source"]}


def _environment(task: Sitting, folder: str) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if name != "MINDLAB_STRICT"}
    return {**given, "MINDLAB_RUN": task.mark, "IPYTHONDIR": os.path.join(folder, ".ipython")}


def _end(task: Sitting, left: Left) -> None:
    """Nothing of a learner's outlives its kernel. Our own ranks need a moment to see that it is gone."""
    left.notes += [
        f"left a process behind: {process}"
        for process in leftovers.end_marked(task.mark, grace=1.0)
        if "mindlab.ranks" not in process
    ]
    left.notes[:] = dict.fromkeys(left.notes)


def _all(task: Sitting, why: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"exercise": exercise, "function": function, "state": "did not run", "says": why}
        for exercise, function in task.asked
    )
