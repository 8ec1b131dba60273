"""Memory that processes share: a file without a name, reached by its descriptor alone."""

from __future__ import annotations

import os
import tempfile


def anonymous_file(size: int) -> int:
    """The descriptor of a new file of `size` bytes that has no name and ends with its last descriptor."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("mindlab")
    else:  # macOS
        fd, path = tempfile.mkstemp(prefix="mindlab-")
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd
