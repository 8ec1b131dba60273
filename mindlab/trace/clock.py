"""One clock for all ranks.

On one host nothing needs doing: events are stamped with CLOCK_MONOTONIC, which all its processes share
(clock_gettime(2)). For ranks of other hosts the difference is estimated from requests and their replies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Sample(NamedTuple):
    """One request: when it was sent and its reply came back (here), and what the other clock said between."""

    sent: float
    there: float
    received: float


class Offset(NamedTuple):
    """The other clock is `seconds` ahead of this one, give or take `error` seconds."""

    seconds: float
    error: float


def offset(samples: Iterable[Sample | tuple[float, float, float]]) -> Offset:
    """How far the other clock is ahead, in seconds, with a bound on the error.

    The sample with the shortest way there and back wins, its middle is taken for the moment of the reply, and
    half of that way bounds the error (Cristian, "Probabilistic clock synchronization", Distributed Computing
    3, 1989). Raises ValueError without samples, or for a reply that came before its request.
    """
    best: Offset | None = None
    for sent, there, received in samples:
        if received < sent:
            raise ValueError(
                f"the reply came at {received} s, before its request at {sent} s: one clock a host"
            )
        half = (received - sent) / 2
        if best is None or half < best.error:
            best = Offset(there - (sent + half), half)
    if best is None:
        raise ValueError("no samples: ask the other clock at least once")
    return best
