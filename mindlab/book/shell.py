"""An IPython extension for runs: a shell command that fails raises, where IPython goes on in silence."""

from __future__ import annotations

import subprocess
from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython at the kernel's start: `!command` and `x = !command` raise CalledProcessError."""
    if shell.has_trait("system_raise_on_error"):  # IPython 9
        shell.system_raise_on_error = True
        return
    before, getoutput = shell.system, shell.getoutput

    def system(command: str) -> None:
        before(command)
        if code := shell.user_ns.get("_exit_code", 0):
            raise subprocess.CalledProcessError(code, command)

    def checked_output(command: str, split: bool = True, depth: int = 0) -> Any:
        # IPython 8 forgets the code of `x = !command`; bash hands it over in a last line.
        said = getoutput(f"{command}\necho $?", split=True, depth=depth + 1)
        code = int(said.pop())
        if code:
            raise subprocess.CalledProcessError(code, command)
        return said if split else "\n".join(said)

    shell.system, shell.getoutput = system, checked_output
