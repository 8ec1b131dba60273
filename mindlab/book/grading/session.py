"""One kernel that executes a learner's cells: errors go on, a deadline interrupts, then kills."""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any, ClassVar

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import output_from_msg

from mindlab.book.capped import Capped
from mindlab.book.kernel import describe_exit, this_python

START_SECONDS = 60.0
GRACE_SECONDS = 5.0
"""For a cell that was interrupted to stop; then its kernel is killed."""

_LOOK_SECONDS = 0.5


class Manager(KernelManager):
    """A kernel manager whose kernel runs this Python."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """This Python, whatever is installed."""
        return this_python()


class Session:
    """A running kernel. `end` it, whatever happened."""

    current: ClassVar[Session | None] = None
    """The one that runs now, for a worker that must end itself."""

    def __init__(self, environment: dict[str, str], folder: str) -> None:
        self.manager = Manager()
        self.client: BlockingKernelClient | None = None
        Session.current = self
        # What it says on its own goes nowhere: a learner's os.system would fill our log.
        self.manager.start_kernel(env=environment, cwd=folder, stdout=-3, stderr=-3)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_SECONDS)

    def execute(self, cell: NotebookNode, seconds: float) -> str:
        """How the cell ended: "" (also with an error of its own), "too slow", or how its kernel died."""
        assert self.client
        identity = self.client.execute(cell.source, allow_stdin=False, stop_on_error=False)
        cell.outputs = []
        kept = Capped(cell.outputs)
        ending = self._follow(identity, cell, kept, time.monotonic() + seconds)
        if ending != "too slow":
            return ending
        end = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < end:
            self.manager.interrupt_kernel()
            ending = self._follow(identity, cell, kept, time.monotonic() + 1.0)
            if ending != "too slow":
                return ending or "too slow"
        self.kill()
        return f"did not stop when it was interrupted after {seconds:g} s"

    def run_hidden(self, code: str, seconds: float) -> str:
        """As `execute`, for code that is not a learner's: it leaves no trace in the notebook."""
        assert self.client
        identity = self.client.execute(code, silent=True, store_history=False, allow_stdin=False)
        cell = NotebookNode(outputs=[])  # type: ignore[no-untyped-call,unused-ignore]
        return self._follow(identity, cell, Capped(cell.outputs), time.monotonic() + seconds)

    def kill(self) -> None:
        """Ends the kernel at once."""
        process = getattr(self.manager.provisioner, "process", None)
        if process is not None and process.poll() is None:
            process.kill()

    def end(self) -> None:
        """Ends kernel and client."""
        Session.current = None
        with contextlib.suppress(Exception):  # a kernel that is gone, or that a learner took apart
            if self.client:
                self.client.stop_channels()
        self.kill()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=True)

    def _follow(self, identity: str, cell: NotebookNode, kept: Capped, end: float) -> str:
        """Takes in what the cell says until it is done, the time is over, or the kernel is gone."""
        assert self.client
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return "too slow"
            try:
                message = self.client.get_iopub_msg(timeout=min(left, _LOOK_SECONDS))
            except queue.Empty:
                if not self.manager.is_alive():
                    process = getattr(self.manager.provisioner, "process", None)
                    return f"ended its kernel ({describe_exit(process.poll() if process else None)})"
                continue
            if message["parent_header"].get("msg_id") != identity:
                continue
            if _take(message, cell, kept):
                return ""


def _take(message: dict[str, Any], cell: NotebookNode, kept: Capped) -> bool:
    """Puts a message into the cell; True if it says that the cell is done."""
    kind, content = message["msg_type"], message["content"]
    if kind == "status":
        return bool(content["execution_state"] == "idle")
    if kind == "execute_input":
        cell["execution_count"] = content["execution_count"]
    elif kind == "clear_output" and not content.get("wait"):
        cell.outputs.clear()
    elif kind in ("stream", "display_data", "execute_result", "error"):
        with contextlib.suppress(ValueError, KeyError):
            kept.add(output_from_msg(message))  # type: ignore[no-untyped-call,unused-ignore]
    return False
