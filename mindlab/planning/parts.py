"""The pieces of a stage's time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One reason why time passes in a stage. Seconds and bytes are those of a rank, over the whole stage."""

    what: str
    """computing, memory, an axis, gather, layout change, vae or serial."""
    seconds: float
    nbytes: float = 0.0
    """Bytes that a rank sends."""


@dataclass(frozen=True)
class Stage:
    """A stage of one request or picture (of all requests of a replica, in decoding)."""

    name: str
    parts: tuple[Part, ...]
    """The longest first."""
    stages: int = 1
    """Pipeline stages: how many requests can be under way at once."""
    times: int = 1
    """How often it runs for one request: once, or for each token that is written."""

    @property
    def seconds(self) -> float:
        """From its begin to its end."""
        return sum(part.seconds for part in self.parts)

    @property
    def period(self) -> float:
        """Seconds between the ends of two, where all pipeline stages have something to do."""
        return self.seconds / self.stages

    @property
    def nbytes(self) -> float:
        """Bytes that a rank sends."""
        return sum(part.nbytes for part in self.parts)

    def share(self, what: str) -> float:
        """The share of its time that a part takes, 0 to 1."""
        seconds = sum(part.seconds for part in self.parts if part.what == what)
        return seconds / self.seconds if self.seconds else 0.0
