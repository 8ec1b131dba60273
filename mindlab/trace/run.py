"""What one experiment left behind: the only thing that crosses from doing to looking."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mindlab.trace import summary, within
from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.stated import Work
from mindlab.trace.wire import Wire


@dataclass(eq=False, repr=False)
class Run:
    """One experiment on real ranks. `values`, `printed` and `seconds` are indexed by rank.

    >>> run = ml.launch(lambda: dist.all_reduce(torch.ones(1200)), ranks=4)
    >>> [event.op for event in run.events if event.rank == 0]
    ['all_reduce']
    """

    values: list[Any]
    """What the function returned on each rank."""
    printed: list[str]
    """What each rank printed."""
    seconds: Measured
    """How long the function took on each rank (timed)."""
    events: list[Event]
    """One row a call that moves data, ordered by start."""
    backend: str
    """"gloo", "hccl" or "nccl"."""
    seed: int
    name: str = ""
    """The function's name."""
    code_hash: str = ""
    """First 12 hex digits of SHA-256 over the function's source, or over its pickled code."""
    wire: Wire | None = None
    """The rank x rank bytes that the kernel's (or card's) own counters saw; None: see `why_no_wire`."""
    why_no_wire: str = ""
    notes: list[str] = field(default_factory=list)
    """What a reader must know: guards off, a buffer changed before wait(), output cut."""
    versions: dict[str, str] = field(default_factory=dict)
    """python, torch, mindlab (and torch_npu, cann)."""
    host: str = ""
    """Kind of machine: "x86_64, 2 cores"."""
    date: str = ""
    """ISO date of the run."""
    work: list[Work] = field(default_factory=list)
    """What the code stated that it computed, by rank, in order; no event counts it."""

    @property
    def ranks(self) -> int:
        """How many ranks took part."""
        return len(self.values)

    @property
    def traffic(self) -> Measured:
        """Counted bytes, [s, r] = from rank s to rank r, from the arguments of the recorded calls."""
        matrix = np.zeros((self.ranks, self.ranks), dtype=np.int64)
        for event in self.events:
            for peer, nbytes in event.sends:
                matrix[event.rank, peer] += nbytes
        return Measured(matrix, unit="B", provenance="counted", note=self._uncounted())

    @property
    def sent(self) -> Measured:
        """Counted bytes that each rank sent to other ranks."""
        return self._by_rank("sends")

    @property
    def received(self) -> Measured:
        """Counted bytes that each rank received from other ranks."""
        return self._by_rank("receives")

    @property
    def wire_sent(self) -> Measured | None:
        """Payload bytes that each rank sent, as the wire saw it; None if it did not (`why_no_wire`)."""
        return self.wire.sent if self.wire else None

    @property
    def wire_received(self) -> Measured | None:
        """Payload bytes that each rank received, as the wire saw it; None where nothing saw it."""
        return self.wire.received if self.wire else None

    def sent_within(self, groups: Iterable[Sequence[int]]) -> Measured:
        """Counted bytes that each rank sent by calls on one of these groups, given as global ranks.

        An axis of a mesh: `run.sent_within(axis_groups({"ring": 2, "ulysses": 2})["ring"])`, with
        `mindlab.predict.meshes.axis_groups`. Raises ValueError for a rank that the run has not.
        """
        return within.sent_within(self, groups)

    def wire_within(self, groups: Iterable[Sequence[int]]) -> Measured | None:
        """Payload that each rank sent to members of its groups, as the wire saw it; or None (`why_no_wire`).

        The wire knows pairs of ranks, not groups: what other groups with two of the same ranks sent is in it.
        Two axes of one mesh never share a pair.
        """
        return within.wire_within(self, groups)

    @property
    def provenance(self) -> str:
        """One line for a figure or a page: ranks, backend, versions, machine, date."""
        torch = f"torch {self.versions['torch']}" if "torch" in self.versions else ""
        parts = [f"{self.ranks} ranks", self.backend, torch, self.host, self.date]
        return " · ".join(part for part in parts if part)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The path of the written file: `.run` for `ml.load`, `.json` for Perfetto and MindStudio Insight.

        Raises ValueError for another suffix.
        """
        from mindlab.trace import storage

        return storage.save(self, path)

    def __repr__(self) -> str:
        return summary.text(self)

    def _repr_html_(self) -> str:
        return summary.page(self)

    def _by_rank(self, direction: str) -> Measured:
        totals = np.zeros(self.ranks, dtype=np.int64)
        for event in self.events:
            totals[event.rank] += sum(nbytes for _, nbytes in getattr(event, direction))
        return Measured(totals, unit="B", provenance="counted", note=self._uncounted())

    def _uncounted(self) -> str:
        """The calls whose arguments do not say who gets what, so that a sum without them is not misread."""
        names = Counter(e.op for e in self.events if _is_uncounted(e))
        if not names or self.ranks == 1:
            return ""
        listed = ", ".join(f"{op} x{count}" for op, count in sorted(names.items()))
        return f"without {listed}: what these send is on the wire only"


def _is_uncounted(event: Event) -> bool:
    return bool(event.nbytes and len(event.group) > 1 and not event.sends and not event.receives)
