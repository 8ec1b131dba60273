"""How long work takes that computes and reads memory at once; reached through `ml.seconds`."""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity


def roofline(flop: float, nbytes: float, *, rate: float, memory_rate: float) -> Quantity:
    r"""Seconds of work that computes and reads at once: the longer of both. Williams et al. 2009.

    `rate` in FLOP/s, `memory_rate` in B/s. Below rate / memory_rate FLOP a byte the memory decides.

    >>> roofline(2e12, 1e9, rate=1e14, memory_rate=1e12).value
    0.02
    >>> roofline(1e9, 1e9, rate=1e14, memory_rate=1e12).value
    0.001
    """
    for name, value in (("flop", flop), ("nbytes", nbytes)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name}={value!r}: give a number from 0 on")
    for name, value in (("rate", rate), ("memory_rate", memory_rate)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name}={value!r}: give a number above 0")
    formula = r"\max\left(\frac{F}{\mathrm{rate}},\ \frac{n}{\mathrm{memory\ rate}}\right)"
    return Quantity(max(flop / rate, nbytes / memory_rate), "s", formula, sources.WILLIAMS, name="roofline")
