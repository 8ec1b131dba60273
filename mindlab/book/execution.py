"""Execute one chapter with papermill; the notebook with its outputs stays, however it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import papermill  # type: ignore[import-untyped,unused-ignore]
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from mindlab.book import executed, leftovers, notebook_file
from mindlab.book.engine import ENGINE
from mindlab.book.kernel import ThisPython, describe_exit
from mindlab.book.task import Outcome, Task

Told = Callable[[int, int], None]


def execute(task: Task, told: Told = lambda done, of: None) -> Outcome:
    """The outcome of one chapter; `told(k, n)` is called before the k-th of n code cells.

    The notebook, as far as it came, lies at `task.output`, without anything that differs between equal runs.
    """
    partial = Path(task.output).with_suffix(".part.ipynb")
    began = time.monotonic()
    watch, ending, error = _attempt(task, partial, told)
    if ending == "died" and watch.count == 0:
        # Kernels that start at the same time can take each other's ports. Once more; never a failed cell.
        watch, ending, error = _attempt(task, partial, told)
    seconds = time.monotonic() - began
    left = leftovers.end_marked(task.mark) if task.mark else []
    return _finish(task, partial, watch.index, ending, error, seconds, left)


def _attempt(task: Task, partial: Path, told: Told) -> tuple[_Watch, str, str | None]:
    """Runs the chapter once: the watch, how it ended, and why if the end came from outside its cells."""
    notebook = _prepared(task)
    watch = _Watch(notebook, task, told)
    ending, error = "passed", None
    try:
        _papermill(notebook, partial, task, watch)
    except papermill.exceptions.PapermillExecutionError:
        ending = "failed"
    except CellTimeoutError:
        ending, error = "timeout", watch.limit
    except DeadKernelError:
        ending, error = "died", f"the kernel died ({describe_exit(ThisPython.exit_code)})"
    except RuntimeError as problem:  # the kernel did not start: nbclient says it with a bare RuntimeError
        ending, error = "died", f"the kernel did not start: {problem}"
    return watch, ending, error


def _prepared(task: Task) -> NotebookNode:
    """The notebook to execute; cells with a tag in `skip_tags` are marked so that they are skipped."""
    notebook = notebook_file.read(Path(task.notebook))
    for cell in notebook.cells:
        if set(task.skip_tags) & set(cell.metadata.get("tags", [])):
            cell.metadata.setdefault("tags", []).append(executed.SKIPPED)
    return notebook


def _papermill(notebook: NotebookNode, partial: Path, task: Task, watch: _Watch) -> None:
    os.environ["MINDLAB_RUN"] = task.mark
    papermill.execute_notebook(
        notebook,
        str(partial).replace("{", "{{").replace("}", "}}"),  # papermill formats paths
        parameters=task.parameters,
        kernel_name="python3",
        engine_name=ENGINE,
        progress_bar=False,
        cwd=str(Path(task.notebook).parent),
        kernel_manager_class=ThisPython,
        timeout_func=watch.allowed,
        on_cell_execute=watch.begins,
    )


def _finish(
    task: Task, partial: Path, index: int, ending: str, error: str | None, seconds: float, left: list[str]
) -> Outcome:
    """Reads what papermill left, judges it, and puts the cleaned notebook in its place."""
    notebook = notebook_file.read(partial)
    if error:
        error = executed.note_end(notebook, index, error)
    else:
        faults = executed.faults(notebook)
        faults += [f"left a process behind: {process}" for process in left]
        error = "\n".join(faults) or ("papermill says that it failed" if ending == "failed" else None)
        ending = "failed" if faults else ending
    checks = executed.checks(notebook)
    executed.clean(notebook)
    notebook_file.write(notebook, Path(task.output))
    partial.unlink()
    return Outcome(task.chapter, ending, round(seconds, 3), error, tuple(checks))


class _Watch:
    """Knows which cell runs, and how long it may."""

    def __init__(self, notebook: NotebookNode, task: Task, told: Told) -> None:
        self.total = sum(executed.is_executable(cell) for cell in notebook.cells) + bool(task.parameters)
        self.task, self.told = task, told
        self.index, self.count = 0, 0
        self.end = time.monotonic() + task.timeout
        self.limit = ""

    def begins(self, *, cell: NotebookNode, cell_index: int) -> None:
        """Called before each code cell."""
        self.index, self.count = cell_index, self.count + 1
        self.told(self.count, self.total)

    def allowed(self, cell: NotebookNode) -> float:
        """Seconds for this cell: its own limit, or what is left of the chapter's."""
        left = max(self.end - time.monotonic(), 0.1)
        if left < self.task.cell_timeout:
            self.limit = f"the chapter took longer than {self.task.timeout:g} s (--timeout)"
            return left
        self.limit = f"took longer than {self.task.cell_timeout:g} s (--cell-timeout)"
        return self.task.cell_timeout
