"""Run a function on every rank: pool, worker, backends, watchdog."""

from __future__ import annotations

import sys


def inside_a_rank() -> bool:
    """Whether this process is one of the ranks."""
    worker = sys.modules.get("mindlab.ranks.worker")
    return bool(worker and worker.inside)
