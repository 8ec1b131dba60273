"""A rank's call and a rank's state, as others see them on the board."""

from __future__ import annotations

from dataclasses import dataclass

from mindlab.trace.places import place


@dataclass(frozen=True, slots=True)
class Row:
    """One call of one rank, as the board holds it. Times: seconds of `time.monotonic()`."""

    index: int
    op: str
    group: tuple[int, ...]
    """Global ranks that take part. Group creation: those that must call it."""
    number: int
    """How many-th call of this rank on the communicator; point to point: with that peer, tag, direction.
    -1: a receive beside one from any rank, of which nobody can say which message it takes."""
    nbytes: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    peer: int | None = None
    root: int | None = None
    tag: int = 0
    reduction: str = ""
    asynchronous: bool = False
    communicator: str = ""
    """The backend's name of the group: two groups may hold the same ranks."""
    out_sizes: tuple[int, ...] = ()
    """Bytes that this rank hands to each member, where its arguments say so; coalesced: of each tensor."""
    in_sizes: tuple[int, ...] = ()
    """Bytes that this rank expects from each member, where its arguments say so."""
    created: tuple[int, ...] = ()
    """Group creation: the ranks of the new group."""
    file: str = ""
    lineno: int = 0
    blocking: bool = False
    """The rank stands inside this call (or inside the wait() of its work)."""
    failed: bool = False
    """The call raised."""
    start: float = 0.0
    end: float | None = None
    threads: int = 0
    """How many more threads the rank had when it went into the call (or into its wait())."""
    dropped: bool = False
    """The handle of the asynchronous call is gone, and nobody waited for it."""

    @property
    def line(self) -> str:
        """Where the call stands: "ring.py, line 41" or "cell, line 7"."""
        return place(self.file, self.lineno)


# The fields of a row that never change once written, in the payload's order.
PAYLOAD = (
    "op",
    "group",
    "nbytes",
    "dtype",
    "shape",
    "root",
    "tag",
    "reduction",
    "asynchronous",
    "communicator",
    "out_sizes",
    "in_sizes",
    "created",
    "file",
    "lineno",
)


@dataclass(frozen=True, slots=True)
class State:
    """What a rank is doing as a whole. `since`: seconds of `time.monotonic()`."""

    phase: str
    since: float
    job: int
    last_index: int
    """The index of the rank's last row in this job; -1 if it has none."""
    standing: int = -1
    """The index of the row that the rank stands inside; -1 if it runs its own code."""
    standing_since: float = 0.0
