"""The kernel that executes a chapter: this very Python, whatever kernels the user's home holds."""

from __future__ import annotations

import signal
import sys
from typing import Any, ClassVar

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager


def this_python(*arguments: str) -> KernelSpec:
    """A kernel of `sys.executable`, started with these arguments.

    Not looked up: a kernel named python3 in the user's home would win over this environment.
    """
    return KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *arguments],
        display_name="Python 3 (ipykernel)",
        language="python",
        interrupt_mode="signal",
        metadata={"debugger": False},
    )


class ThisPython(AsyncKernelManager):
    """A kernel manager whose kernel runs `sys.executable`.

    `current` is the manager of the kernel that runs now; `exit_code` says how the last one ended by itself.
    """

    current: ClassVar[ThisPython | None] = None
    exit_code: ClassVar[int | None] = None

    @property
    def kernel_spec(self) -> KernelSpec:
        """This Python; a shell command that fails raises."""
        return this_python("--IPKernelApp.extra_extensions=mindlab.book.shell")

    async def start_kernel(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Starts the kernel and remembers it."""
        ThisPython.current, ThisPython.exit_code = self, None
        await super().start_kernel(**kwargs)

    async def is_alive(self) -> bool:  # type: ignore[override]
        """Whether the kernel's process runs; notes its exit code once it does not."""
        process = getattr(self.provisioner, "process", None)
        if process is not None and process.poll() is not None:
            ThisPython.exit_code = process.poll()
        return bool(await super().is_alive())

    @classmethod
    def kill_current(cls) -> None:
        """Ends the running kernel at once. For a worker that is about to end itself."""
        process = getattr(getattr(cls.current, "provisioner", None), "process", None)
        if process is not None and process.poll() is None:
            process.kill()


def describe_exit(code: int | None) -> str:
    """A process's exit code in words: "exit code 1", "killed by SIGKILL (out of memory?)"."""
    if code is None:
        return "its exit code is unknown"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
