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
from typing import Any

from mindlab.book.execution import execute
from mindlab.book.kernel import ThisPython
from mindlab.book.task import Outcome, Task

LOST = 86
"""The exit code of a worker whose runner is gone."""


def main() -> None:
    """Serves tasks until the runner says that there are no more."""
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    logging.getLogger("papermill").setLevel(logging.ERROR)
    while (line := tasks.get()) != "done":
        _serve(Task(**json.loads(line)), news)


def _read(tasks: queue.Queue[str]) -> None:
    for line in sys.stdin:
        tasks.put(line.strip())
        if line.strip() == "done":
            return
    ThisPython.kill_current()
    os._exit(LOST)


def _serve(task: Task, news: Any) -> None:
    def told(count: int, total: int) -> None:
        news.write(json.dumps({"chapter": task.chapter, "cell": count, "of": total}) + "\n")

    try:
        outcome = execute(task, told)
    except Exception as problem:  # noqa: BLE001 - the other chapters go on; the report names this one
        traceback.print_exc()
        outcome = Outcome(task.chapter, "failed", 0.0, f"could not be executed: {problem!r}")
    news.write(json.dumps({"chapter": task.chapter, "outcome": outcome.as_dict()}) + "\n")


if __name__ == "__main__":
    main()
