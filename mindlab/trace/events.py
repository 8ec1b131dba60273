"""One row for one call of torch.distributed that moves data, as one rank saw it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One transfer or collective on one rank. Ranks are global; sizes are bytes; times are seconds.

    `sends` and `receives` hold (rank, bytes) pairs and are filled only where the call's arguments say who
    gets what: point to point, all_gather, all_to_all, gather, scatter, broadcast. A reduction may be
    combined on the way, so its arguments do not say it and both stay empty.
    """

    rank: int
    """The rank that made the call."""
    index: int
    """The number of this call on this rank, from 0."""
    op: str
    """The name in torch.distributed: "send", "irecv", "all_reduce", "all_to_all_single"…"""
    group: tuple[int, ...]
    """The global ranks of the group."""
    nbytes: int
    """Point to point: the message. Collective: what this rank hands in (its output, if it hands in none)."""
    dtype: str
    """"float32", "bfloat16"…; "object" for the object forms; "" where no tensor is involved."""
    start: float
    """Seconds since the experiment began, on a clock common to all ranks."""
    end: float | None
    """When the data was there (an asynchronous call: its true end); None if nobody waited for it."""
    peer: int | None = None
    """The other end of a point-to-point call."""
    root: int | None = None
    """The source or destination of a rooted collective."""
    shape: tuple[int, ...] = ()
    tag: int = 0
    reduction: str = ""
    """"sum", "max"… for a reduction."""
    asynchronous: bool = False
    label: str = ""
    """The last `ml.step("…")` before the call."""
    line: str = ""
    """Where the call stands: "cell 3, line 2", "ring.py, line 41"."""
    code: str = ""
    """The text of that line."""
    sends: tuple[tuple[int, int], ...] = ()
    receives: tuple[tuple[int, int], ...] = ()
    waited: int | None = None
    """Asynchronous: how many events and works of this rank came before its wait(); None where nobody saw
    one (not waited for, by a future, or in an old file)."""

    @property
    def is_point_to_point(self) -> bool:
        """True for send, recv, isend, irecv (also inside batch_isend_irecv)."""
        return self.op in ("send", "isend", "recv", "irecv")
