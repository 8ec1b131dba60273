"""One run at a time into one folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindlab.errors import MindlabError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder (made if missing) for one run; raises MindlabError if another run has it.

    The lock is the kernel's: it ends with its process, however that ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise MindlabError(
                f"{folder} is in use by another run (process {owner}); wait for it or give another --out"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
