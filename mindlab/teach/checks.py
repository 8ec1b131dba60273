"""Does the formula hold? The one place that sees both a prediction and a measurement."""

from __future__ import annotations

import math
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach.diagnosis import explain
from mindlab.teach.expected import expect_error as expect_error
from mindlab.teach.parity import check_close as check_close
from mindlab.teach.reading import Reading, read, unanswered
from mindlab.teach.verdict import FAILED, NOT_ANSWERED, NOT_CHECKED, PASSED, Verdict, graded_of, settle
from mindlab.trace.run import Run

Number = int | float
FEWEST_RANKS = 3
_ROUNDING = 1e-12  # two float routes to the same number differ in the last digits


def check(
    claim: str,
    predicted: Any,
    measured: Any,
    within: Number = 0,
    *,
    run: Run | None = None,
    provenance: str | None = None,
    allow_zero: bool = False,
) -> Verdict:
    """The verdict on a claim: "passed", "not checked" or "not answered yet"; a failure raises CheckFailed.

    `predicted`: a Quantity, a number, a sequence by rank, or `...`. A Quantity with `per_rank` is compared
    rank by rank; one number must hold for every rank. `measured`: a Measured (`run.sent`, `run.wire.sent`), a
    number, or a sequence by rank. One measured number (a mean) is compared with the quantity's value.
    `within` is a relative tolerance; 0 means equal. `run` adds what was graded (backend, seed, code); a run
    that returned `...` is not answered yet. `provenance` says where a bare number comes from, else "stated".

    Fewer than 3 ranks are never a pass: at p = 2 left and right are one neighbour, and (p-1) D is 2(p-1)/p D.
    0 bytes on every rank fail, whatever was predicted, unless `allow_zero` says that nothing is the claim.
    Raises ValueError for sides that do not fit each other (units, shapes, ranks).

    >>> ml.check("a quarter", 0.25, 1 / 4)
    ✓ passed: a quarter: predicted 0.25, measured 0.25, ratio 1, provenance stated
    """
    _refuse_within(within)
    row = Verdict(claim, NOT_ANSWERED, within=within, graded={} if run is None else graded_of(run))
    unsolved = run is not None and unanswered(run.values)
    if not (unsolved or predicted is None or unanswered(predicted) or unanswered(measured)):
        _compare(row, predicted, measured, run, provenance, allow_zero)
    return settle(row)


def _compare(
    row: Verdict, predicted: Any, measured: Any, run: Run | None, provenance: str | None, allow_zero: bool
) -> None:
    """Fills the row with both sides and the verdict on them."""
    said = read(predicted, "predicted")
    row.predicted, row.unit, row.ranks = said.shown, said.unit, said.ranks
    if isinstance(predicted, Quantity):
        row.formula, row.source = predicted.formula, predicted.source
    if measured is None:
        row.verdict = NOT_CHECKED
        row.reason = (run.why_no_wire if run else "") or "no measurement: see run.why_no_wire, run.wire.note"
        return
    seen = read(measured, "measured", provenance)
    wanted = _wanted(predicted, said, seen)
    row.unit = _same_unit(said.unit, seen.unit)
    row.ranks = seen.ranks or said.ranks or (run.ranks if run else None)
    row.predicted, row.measured = wanted if len(set(wanted)) > 1 else wanted[0], seen.shown
    row.provenance = seen.provenance
    row.verdict, row.reason = _judge(wanted, seen, row.unit, row.within, row.ranks, allow_zero)


def _judge(
    wanted: tuple[Number, ...],
    seen: Reading,
    unit: str,
    within: Number,
    ranks: int | None,
    allow_zero: bool,
) -> tuple[str, str]:
    agree = all(_agree(one, other, within) for one, other in zip(wanted, seen.values, strict=True))
    difference = "" if agree else explain(wanted, seen.values, unit, ranks, by_rank=len(seen.shape) == 1)
    if ranks is not None and ranks < FEWEST_RANKS:
        why = f"{ranks} rank{'s' * (ranks != 1)}: too few to tell one pattern from another, take 3 or more"
        return NOT_CHECKED, why + (f"; here the numbers differ: {difference}" if difference else "")
    if unit == "B" and not any(seen.values) and not allow_zero:
        note = f" ({seen.note})" if seen.note else ""
        return FAILED, f"nothing was measured: 0 B everywhere{note}. A check of nothing proves nothing"
    if agree:
        return PASSED, ""
    allowed = f" (allowed: {units.number(within * 100)} %)" if within else ""
    return FAILED, difference + allowed


def _agree(wanted: Number, seen: Number, within: Number) -> bool:
    if wanted == seen:
        return True
    if not (math.isfinite(wanted) and math.isfinite(seen)):
        return False
    rounding = _ROUNDING if isinstance(wanted, float) or isinstance(seen, float) else 0
    return abs(seen - wanted) <= max(within, rounding) * abs(wanted)


def _wanted(predicted: Any, said: Reading, seen: Reading) -> tuple[Number, ...]:
    """The prediction for each measured number."""
    if said.shape == seen.shape:
        return said.values
    if not said.shape and len(seen.shape) == 1:
        ranks = seen.shape[0]
        return predicted.by_rank(ranks) if isinstance(predicted, Quantity) else said.values * ranks
    if not said.shape:
        raise ValueError(f"measured is {_by(seen)}: compare one number a rank, such as run.wire.sent")
    raise ValueError(f"predicted is {_by(said)}, measured is {_by(seen)}: give both in one shape")


def _by(reading: Reading) -> str:
    return ("one number", "one number a rank", "rank x rank")[len(reading.shape)] + (
        f" {reading.shape}" if reading.shape else ""
    )


def _same_unit(said: str, seen: str) -> str:
    if said and seen and said != seen:
        raise ValueError(f"predicted is in {said!r}, measured in {seen!r}: convert one of them first")
    return said or seen


def _refuse_within(within: Number) -> None:
    if not 0 <= within < 1:
        raise ValueError(
            f"within={within!r}: give a relative tolerance from 0 (equal) to below 1, such as 0.05"
        )
