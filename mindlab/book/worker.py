"""The process that executes chapters: tasks come as JSON lines on stdin, news go out on a pipe.

`python -m mindlab.book.worker FD`. When stdin ends, the runner is gone (even by SIGKILL), so the running
kernel is ended and this process too.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from mindlab.book.execution import Told, execute
from mindlab.book.kernel import ThisPython
from mindlab.book.task import Outcome, Task

T = TypeVar("T", bound=Task)

LOST = 86
"""The exit code of a worker whose runner is gone."""


def serve(kind: type[T], work: Callable[[T, Told], Outcome], lost: Callable[[], None]) -> None:
    """Does `work` for each task until the runner says that there are no more; `lost` if it is gone."""
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(tasks, lost), daemon=True).start()
    logging.getLogger("papermill").setLevel(logging.ERROR)
    while (line := tasks.get()) != "done":
        _serve(kind(**json.loads(line)), work, news)


def _read(tasks: queue.Queue[str], lost: Callable[[], None]) -> None:
    for line in sys.stdin:
        tasks.put(line.strip())
        if line.strip() == "done":
            return
    lost()
    os._exit(LOST)


def _serve(task: T, work: Callable[[T, Told], Outcome], news: Any) -> None:
    def told(count: int, total: int) -> None:
        news.write(json.dumps({"chapter": task.chapter, "cell": count, "of": total}) + "\n")

    try:
        outcome = work(task, told)
    except Exception as problem:  # noqa: BLE001 - the other chapters go on; the report names this one
        traceback.print_exc()
        outcome = Outcome(task.chapter, "failed", 0.0, f"could not be executed: {problem!r}")
    news.write(json.dumps({"chapter": task.chapter, "outcome": outcome.as_dict()}) + "\n")


if __name__ == "__main__":
    serve(Task, execute, ThisPython.kill_current)
