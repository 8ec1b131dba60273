"""The notebook that this process serves, if it serves one. Never imports IPython itself."""

from __future__ import annotations

import sys
from typing import Any


def shell() -> Any:
    """The running IPython shell, that of a notebook or of a terminal; None outside of both."""
    ipython: Any = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def is_kernel() -> bool:
    """Whether this process is a notebook's kernel."""
    return hasattr(shell(), "kernel")
