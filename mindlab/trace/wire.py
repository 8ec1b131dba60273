"""What the kernel's own counters saw on each pair of ranks, and how much of it was framing."""

from __future__ import annotations

from dataclasses import dataclass

from mindlab.trace.measured import Measured


@dataclass(frozen=True, eq=False)
class Wire:
    """Bytes that really went over each directed pair of ranks during one experiment.

    `total`, `framing` and `payload` are rank x rank (from, to); total = payload + framing.
    `framing` and `payload` are None where the messages on some pair cannot be told; `note` says which.
    """

    total: Measured
    framing: Measured | None
    payload: Measured | None
    source: str
    """"TCP_INFO of gloo's sockets"."""
    note: str = ""

    @property
    def sent(self) -> Measured | None:
        """Payload that each rank sent, or None where the payload cannot be told."""
        return None if self.payload is None else self.payload.sum(axis=1)

    @property
    def received(self) -> Measured | None:
        """Payload that each rank received, or None where the payload cannot be told."""
        return None if self.payload is None else self.payload.sum(axis=0)
