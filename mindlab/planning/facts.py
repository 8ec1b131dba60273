"""What a topology is made of: numbers with their sources, kinds of cards, and the levels that join them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mindlab.predict import units


@dataclass(frozen=True)
class Fact:
    """A number with its source. `value` None: unknown, and no guess stands for it."""

    value: float | None
    unit: str
    source: str = ""
    date: str = ""
    """When the source was read, or what it is dated."""
    assumed: bool = False
    """True: no source says so; the source tells why this number."""

    def __str__(self) -> str:
        shown = "unknown" if self.value is None else units.pretty(self.value, self.unit)
        return f"{shown} ({'assumed: ' if self.assumed else ''}{self.source})"


@dataclass(frozen=True)
class Card:
    """One kind of card. A fact that nobody vouches for is unknown."""

    name: str
    peak: Fact
    """Dense 16-bit FLOP/s, by specification."""
    rate: Fact
    """FLOP/s that a published run reached; the source names it."""
    memory: Fact
    memory_rate: Fact


@dataclass(frozen=True)
class Level:
    """What joins the cards of one domain."""

    name: str
    domain: str
    """What one domain is: "host", "supernode"…"""
    shape: str
    """One of SHAPES."""
    size: int
    """Cards in one domain."""
    bandwidth: Fact
    """B/s of one link (mesh, trunk) or port (switch), in each direction."""
    alpha: Fact
    """Seconds that a message costs however short."""
    by_size: tuple[tuple[float, float], ...] = ()
    """(bytes, B/s that messages of that size reach), smallest first; none: `bandwidth` for all sizes."""
    sizes_source: str = ""
    """Where the table `by_size` is from."""
    sizes_date: str = ""

    def at(self, nbytes: float) -> float | None:
        """Bytes a second for messages of that size: between two of `by_size` on the log of it, flat outside.

        None where it is unknown.
        """
        if not self.by_size:
            return self.bandwidth.value
        sizes, rates = zip(*self.by_size, strict=True)
        return float(np.interp(math.log(max(nbytes, 1.0)), [math.log(size) for size in sizes], rates))

    @property
    def speed(self) -> str:
        """The bandwidth in words, with the ends of the table by size where there is one."""
        if not self.by_size:
            return str(self.bandwidth)
        ends = dict.fromkeys((self.by_size[0], self.by_size[-1]))
        shown = " to ".join(f"{units.rate(rate)} at {units.size(size)}" for size, rate in ends)
        return f"{self.bandwidth}; by size, {shown} ({self.sizes_source})"
