"""Numbers that remember where they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

PROVENANCES = ("derived", "counted", "wire", "timed", "modelled", "published")


class Measured(np.ndarray):
    """A numpy array (by rank, or rank x rank) with a unit and a provenance.

    Element [s, r] of a matrix is what rank s sent to rank r. Arithmetic and slices keep the provenance.
    `provenance` is one of PROVENANCES; `source` says by which means; `note` what is not in the number.
    """

    unit: str
    provenance: str
    source: str
    note: str

    def __new__(
        cls, values: Any, *, unit: str, provenance: str, source: str = "", note: str = ""
    ) -> Measured:
        if provenance not in PROVENANCES:
            raise ValueError(f"provenance {provenance!r}: choose one of {', '.join(PROVENANCES)}")
        array = np.asarray(values).view(cls)
        array.unit, array.provenance, array.source, array.note = unit, provenance, source, note
        return array

    def __array_finalize__(self, parent: Any) -> None:
        for name in ("unit", "provenance", "source", "note"):
            setattr(self, name, getattr(parent, name, ""))

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        plain = np.asarray(self)
        if self.unit in ("s", ""):  # sixteen digits of a time or a share say nothing after the fourth
            plain = np.vectorize(lambda value: float(f"{value:.4g}"), otypes=[float])(plain)
        unit = f" {self.unit}" if self.unit else ""
        return f"{plain.tolist()}{unit} ({self.provenance}{note})"

    def __str__(self) -> str:
        return repr(self)
