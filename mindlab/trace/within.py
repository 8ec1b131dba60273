"""Which bytes of a run belong to which groups of ranks: to one axis of a mesh, for example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mindlab.trace.measured import Measured

if TYPE_CHECKING:
    from mindlab.trace.run import Run


def sent_within(run: Run, groups: Iterable[Sequence[int]]) -> Measured:
    """Counted bytes that each rank sent by calls on one of these groups; order within a group is free."""
    wanted = {frozenset(group) for group in _checked(groups, run.ranks)}
    totals = np.zeros(run.ranks, dtype=np.int64)
    for event in run.events:
        if frozenset(event.group) in wanted:
            totals[event.rank] += sum(nbytes for _, nbytes in event.sends)
    return Measured(totals, unit="B", provenance="counted", note=str(run.sent.note))


def wire_within(run: Run, groups: Iterable[Sequence[int]]) -> Measured | None:
    """Payload that each rank sent to members of its groups, as the wire saw it; None where it saw none."""
    listed = _checked(groups, run.ranks)
    if run.wire is None or run.wire.payload is None:
        return None
    together = np.zeros((run.ranks, run.ranks), dtype=bool)
    for group in listed:
        together[np.ix_(group, group)] = True
    totals = np.where(together, np.asarray(run.wire.payload), 0).sum(axis=1)
    return Measured(totals, unit="B", provenance="wire", source=run.wire.source, note=run.wire.note)


def _checked(groups: Iterable[Sequence[int]], ranks: int) -> list[list[int]]:
    """The groups as lists; raises ValueError for a rank that the run has not."""
    listed = [list(group) for group in groups]
    for group in listed:
        if any(rank not in range(ranks) for rank in group):
            raise ValueError(f"group {tuple(group)}: the run has the ranks 0 to {ranks - 1}; name only these")
    return listed
