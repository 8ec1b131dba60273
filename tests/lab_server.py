"""JupyterLab as `bash launch/lab.sh` starts it, with everything it writes in a private folder.

Only the set-up is left out: a test must not change the environment that it runs in.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "MINDLAB_TEST_LAB"
_SEPARATE = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
_SEPARATE += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")


class Lab:
    """A server whose files are those below `folder`/work. Use as a context manager: nothing outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token, self.mark = folder, secrets.token_hex(16), secrets.token_hex(8)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Lab:
        with (self.folder / "lab.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", str(ROOT / "launch" / "lab.sh"), *self._arguments()],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_ends_with_its_parent,
            )
        try:
            until(self._answers, 60, f"JupyterLab on port {self.port}", self.log)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _arguments(self) -> list[str]:
        return [
            *("--no-browser", "--port", str(self.port), f"--IdentityProvider.token={self.token}"),
            *(f"--ServerApp.root_dir={self.work}", "--expose-app-in-browser"),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        kept.pop("MINDLAB_BULK", None)
        own = {name: str(self.folder / name.lower()) for name in _SEPARATE}
        done = self.folder / "python-that-sets-up-nothing"
        done.write_text("#!/bin/sh\nexit 0\n")
        done.chmod(0o755)
        own |= {"MINDLAB_PYTHON": str(done), "MINDLAB_PROGRESS": str(self.folder / "progress.json")}
        return {**kept, **own, MARK: self.mark}

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"lab.sh ended with {self.process.returncode}:\n{self.log()}"
        try:
            self.ask("/api/status")
        except OSError:
            return False
        return True

    def ask(self, path: str, method: str = "GET") -> Any:
        """The server's answer, never through a proxy."""
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def log(self) -> str:
        """The last that the server said."""
        return (self.folder / "lab.log").read_text(errors="replace")[-3000:]

    def processes(self) -> dict[int, str]:
        """Everything that the server started, and what that started: process id and command."""
        mine = f"{MARK}={self.mark}".encode()
        return {pid: line for pid, line in _commands() if mine in _read(pid, "environ").split(b"\0")}

    def close_kernels(self) -> None:
        """Shuts down every notebook's kernel, as Lab's menu does."""
        for session in self.ask("/api/sessions"):
            self.ask(f"/api/sessions/{session['id']}", "DELETE")

    def end(self) -> None:
        """Asks the server to end, as `kill` does, and waits until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def stop(self) -> None:
        """Ends the server if it still runs, then whatever it left behind, by process id."""
        try:
            if self.process.poll() is None:
                self.end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _ends_with_its_parent() -> None:
    """Tests that are killed leave no server behind (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def until(state: Any, seconds: float, what: str, tell: Any = str) -> None:
    """Waits until `state()` is true; fails with `what` and what `tell()` says once the seconds are over."""
    deadline = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s\n{tell()}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs (a dead one that nobody has collected does not)."""
    stat = _read(pid, "stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _commands() -> list[tuple[int, str]]:
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [(pid, _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")) for pid in found]


def _read(pid: int, name: str) -> bytes:
    try:
        return (Path("/proc") / str(pid) / name).read_bytes()
    except OSError:
        return b""
