"""Worker processes, one a chapter at a time each, and what they report back."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from mindlab.book.task import Outcome, Task


class Worker:
    """One process of `module`, which serves tasks; dies with this one, because its stdin ends."""

    def __init__(self, environment: dict[str, str], log: IO[str], module: str) -> None:
        reader, writer = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(writer)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(writer,),
            env=environment,
            text=True,
            start_new_session=True,  # Ctrl-C is for the runner; it ends us in order
        )
        os.close(writer)
        self.reader = reader
        self.task: Task | None = None
        self.deadline = 0.0
        self._rest = b""

    def give(self, task: Task) -> None:
        """Hands over the next chapter."""
        self.task, self.deadline = task, time.monotonic() + task.patience
        self._say(json.dumps(asdict(task)))

    def read(self) -> list[dict[str, Any]] | None:
        """The news that are there; None at the end of the worker."""
        data = os.read(self.reader, 65536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def dismiss(self, *, kill: bool = False, patience: float = 10.0) -> int:
        """Ends the process; returns its exit code."""
        if not kill:
            self._say("done")
        with contextlib.suppress(OSError):
            assert self.process.stdin
            self.process.stdin.close()
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(patience)
        os.close(self.reader)
        return code

    def _say(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()


class Pool:
    """Executes tasks on `jobs` workers. `news` is called with every message, `ended` with every outcome."""

    def __init__(
        self,
        environment: dict[str, str],
        log_path: Path,
        news: Callable[[dict[str, Any]], None],
        ended: Callable[[Outcome], None],
        module: str = "mindlab.book.worker",
    ) -> None:
        self.environment, self.log_path = environment, log_path
        self.news, self.ended, self.module = news, ended, module
        self.workers: list[Worker] = []

    def run(self, tasks: Sequence[Task], jobs: int) -> None:
        """Executes every task; returns when the last has ended. Interrupts leave no worker behind."""
        waiting = list(tasks)
        with open(self.log_path, "w", encoding="utf-8") as log, selectors.DefaultSelector() as selector:
            try:
                for _ in range(min(jobs, len(waiting))):
                    self._hire(selector, log)
                while waiting or any(worker.task for worker in self.workers):
                    self._hand_out(waiting, selector, log)
                    for key, _ in selector.select(timeout=0.5):
                        self._listen(key.data, selector)
                    self._enforce(selector)
            finally:
                self._close(selector)

    def _hire(self, selector: selectors.BaseSelector, log: IO[str]) -> None:
        worker = Worker(self.environment, log, self.module)
        self.workers.append(worker)
        selector.register(worker.reader, selectors.EVENT_READ, worker)

    def _hand_out(self, waiting: list[Task], selector: selectors.BaseSelector, log: IO[str]) -> None:
        if waiting and not self.workers:
            self._hire(selector, log)
        for worker in self.workers:
            if worker.task is None and waiting:
                worker.give(waiting.pop(0))
                assert worker.task
                self.news({"chapter": worker.task.chapter})

    def _listen(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        messages = worker.read()
        if messages is None:
            self._lost(worker, selector, "died", "the process that executes it ended (see run.log)")
            return
        for message in messages:
            if "outcome" in message:
                worker.task = None
                self.ended(Outcome(**message["outcome"]))
            else:
                self.news(message)

    def _enforce(self, selector: selectors.BaseSelector) -> None:
        """The last resort: a chapter whose worker does not even notice its own deadline."""
        for worker in list(self.workers):
            if worker.task and time.monotonic() > worker.deadline:
                text = f"took longer than {worker.task.patience:g} s and did not stop"
                self._lost(worker, selector, "timeout", text)

    def _lost(self, worker: Worker, selector: selectors.BaseSelector, ending: str, text: str) -> None:
        selector.unregister(worker.reader)
        self.workers.remove(worker)
        worker.dismiss(kill=True)
        if worker.task:
            self.ended(Outcome(worker.task.chapter, ending, 0.0, text))

    def _close(self, selector: selectors.BaseSelector) -> None:
        for worker in self.workers:
            selector.unregister(worker.reader)
            worker.dismiss(kill=worker.task is not None)
        self.workers.clear()
