"""Has answers judged by a checker process, each with a deadline of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import IO, Any


class Checker:
    """A process of `mindlab.book.grading.checker`; a new one follows where an answer ended or held it."""

    def __init__(self, environment: dict[str, str], log: IO[str], folder: str) -> None:
        self.environment, self.log, self.folder = environment, log, folder
        self._process: subprocess.Popen[str] | None = None
        self._reader = -1

    def judge(self, question: dict[str, Any], deadline: float) -> dict[str, Any]:
        """{"state", "says", …}: what the check says within `deadline` seconds, or why it said nothing."""
        self._start()
        assert self._process and self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        line = self._line(time.monotonic() + deadline)
        if line is not None and line.endswith(b"\n"):
            verdict: dict[str, Any] = json.loads(line)
            return verdict
        self.close(kill=True)
        if line is None:
            return {"state": "failed", "says": f"The check did not end within {deadline:g} s."}
        return {"state": "failed", "says": "The answer ended the process that checks it."}

    def close(self, *, kill: bool = False) -> None:
        """Ends the process, if there is one; its ranks end with it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            assert process.stdin
            process.stdin.close()
        if kill:
            process.kill()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        os.close(self._reader)

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close(kill=True)
        self._reader, writer = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mindlab.book.grading.checker", str(writer)],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            pass_fds=(writer,),
            env=self.environment,
            cwd=self.folder,  # an empty one: Python looks for modules there first
            text=True,
            start_new_session=True,
        )
        os.close(writer)

    def _line(self, end: float) -> bytes | None:
        """The next line; without its end if the process ended before; None at the deadline."""
        data = b""
        while not data.endswith(b"\n"):
            if not select.select([self._reader], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            part = os.read(self._reader, 65536)
            if not part:
                return data.rstrip(b"\n")
            data += part
        return data
