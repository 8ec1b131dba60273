"""How a call, a size and a rank's standing are said."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mindlab.trace.calls import CREATIONS, RECEIVES, SENDS
from mindlab.trace.row import Row, State

_FROM = frozenset({"broadcast", "scatter", "broadcast_object_list", "scatter_object_list"})


def call(row: Row) -> str:
    """The call with its partner: "recv from rank 1", "broadcast from rank 0", "all_reduce"."""
    tag = f" with tag {row.tag}" if row.tag else ""
    if row.op in SENDS:
        return f"{row.op} to rank {row.peer}{tag}"
    if row.op in RECEIVES:
        return f"{row.op} from {'any rank' if row.peer is None else f'rank {row.peer}'}{tag}"
    if row.op in CREATIONS:
        return f"{row.op} of {ranks(row.created)}"
    if row.root is not None:
        return f"{row.op} {'from' if row.op in _FROM else 'to'} rank {row.root}"
    return row.op


def data(row: Row) -> str:
    """The data of a call: "5 x float32 (20 B)", "(2, 3) float32, sum"; "" where there is none."""
    if not row.dtype:
        return ""
    if row.dtype == "object":
        return "an object" if row.shape in ((), (1,)) else f"{row.shape[0]} objects"
    if row.op == "all_reduce_coalesced" and not row.shape and row.out_sizes:
        return f"{row.dtype}, tensors of {', '.join(map(str, row.out_sizes[:8]))} B, {row.reduction}"
    shape = f"{row.shape[0]} x" if len(row.shape) == 1 else f"shape {tuple(row.shape)}"
    many = f"{shape} " if row.shape else ""
    return f"{many}{row.dtype} ({row.nbytes} B)" + (f", {row.reduction}" if row.reduction else "")


def full(rank: int, row: Row) -> str:
    """One line: "rank 1: all_reduce, 5 x float32 (20 B), sum (its call 2; cell 3, line 7)"."""
    what = data(row)
    return f"rank {rank}: {call(row)}{', ' + what if what else ''} (its call {row.index}; {row.line})"


def ranks(members: Sequence[int]) -> str:
    """ "rank 1", "ranks 0, 2 and 3"."""
    names = [str(rank) for rank in members]
    if len(names) < 2:
        return f"rank {names[0]}" if names else "no rank"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def standing(rank: int, rows: Sequence[Row], state: State, job: int) -> str:
    """One line on where the rank stands."""
    if state.job != job or state.phase in ("idle", "ready"):
        return f"rank {rank} has not started"
    if state.phase == "done":
        return f"rank {rank} has returned"
    if state.phase == "failed":
        return f"rank {rank} has failed"
    inside = [row for row in rows if row.blocking]
    if inside:
        row = inside[-1]
        since = state.standing_since if state.standing == row.index else row.start
        verb = "waits in wait() of" if row.asynchronous else "waits in"
        seconds = max(0.0, time.monotonic() - since)
        return f"rank {rank} {verb} {call(row)} (its call {row.index}; {row.line}) for {seconds:.1f} s"
    if not rows:
        return f"rank {rank} is running its own code, no call yet"
    last = rows[-1]
    return f"rank {rank} is running its own code, last call {call(last)} (call {last.index}, {last.line})"
