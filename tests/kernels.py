"""A real Jupyter kernel for tests: run cells, read their outputs, interrupt, kill."""

from __future__ import annotations

import sys
import time
from typing import Any

from jupyter_client.manager import KernelManager

START = "import mindlab as ml\nimport torch\nimport torch.distributed as dist\n"


class Notebook:
    """A kernel of this environment. Use as a context manager; nothing outlives the block."""

    def __init__(self, first: str = START) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.first = first

    def __enter__(self) -> Notebook:
        self.manager.start_kernel()
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        if self.first:
            self.run(self.first)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)

    @property
    def pid(self) -> int:
        """The kernel's process id."""
        return int(self.manager.provisioner.pid)  # type: ignore[union-attr,attr-defined]

    def send(self, code: str) -> str:
        """Start a cell and do not wait for it; returns its id."""
        return self.client.execute(code)

    def finish(self, ident: str, timeout: float = 60) -> list[dict[str, Any]]:
        """The outputs of a started cell."""
        outputs: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != ident:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return outputs
            if kind in ("stream", "display_data", "execute_result", "error"):
                outputs.append({"kind": kind, **content})

    def run(self, code: str, timeout: float = 60) -> list[dict[str, Any]]:
        """The outputs of one cell, run to its end."""
        return self.finish(self.send(code), timeout)

    def text(self, code: str, timeout: float = 60) -> str:
        """The text of one cell's outputs: streams, results, errors."""
        return text_of(self.run(code, timeout))


def text_of(outputs: list[dict[str, Any]]) -> str:
    """Outputs as one text."""
    parts = []
    for output in outputs:
        if output["kind"] == "stream":
            parts.append(output["text"])
        elif output["kind"] == "error":
            parts.append("\n".join(output["traceback"]))
        else:
            parts.append(str(output["data"].get("text/plain", "")))
    return "\n".join(parts)
