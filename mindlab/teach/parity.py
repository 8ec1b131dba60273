"""The same numbers as one card, on every rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mindlab.teach.reading import unanswered
from mindlab.teach.verdict import FAILED, NOT_ANSWERED, NOT_CHECKED, PASSED, Verdict, graded_of, settle
from mindlab.trace.run import Run

if TYPE_CHECKING:
    import torch

# How far the order of additions alone can move a result, as a share of |reference|. Half formats:
# four units in the last place, the worst case of eight roundings (a sum over nine ranks). float32: 84 units,
# enough for contractions of some thousand terms. Whole numbers have no order to blame.
_ROUNDING = {
    "float64": (1e-12, "float64 sums in another order"),
    "float32": (1e-5, "float32 sums in another order"),
    "float16": (2.0**-8, "four units in the last place of float16"),
    "bfloat16": (2.0**-5, "four units in the last place of bfloat16"),
    "complex64": (1e-5, "float32 sums in another order"),
    "complex128": (1e-12, "float64 sums in another order"),
}


_EXACT = (0.0, "whole numbers: equal")


@dataclass(frozen=True)
class Gap:
    """How far one rank's result is from its reference: the largest difference, and what is allowed there."""

    error: float
    complaint: str = ""
    allowed: float = 0.0


def check_close(
    sharded: Any,
    reference: Any,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    claim: str = "the same numbers as one card",
    run: Run | None = None,
    allow_zero: bool = False,
) -> Verdict:
    """The verdict on "as one card"; raises CheckFailed where a rank has other numbers.

    `sharded`: one result a rank (`run.values`), or one tensor. `reference`: the tensor of one card, which
    every rank must have, or a list with each rank's own part. Every element of every rank must hold
    |sharded - reference| <= atol + rtol |reference|. Without both, atol is a share of the largest reference,
    what another order of additions can do: 1e-12 float64, 1e-5 float32, 2^-5 bfloat16, 2^-8 float16, else 0.
    Another shape or dtype, NaN on one side, a result that is the reference itself, and an all-zero reference
    (unless `allow_zero`) fail. `...` or None answer nothing yet; fewer than 3 ranks are not checked.

    >>> ml.check_close([1.0, 1.0, 1.0], 1.0)  # doctest: +ELLIPSIS
    ✓ passed: the same numbers as one card: largest difference 0, allowed there 1e-05, on 3 ranks ...
    """
    graded = {} if run is None else graded_of(run)
    if _empty(sharded) or _empty(reference):
        return settle(Verdict(claim, NOT_ANSWERED, graded=graded))
    by_rank = isinstance(sharded, (list, tuple))
    silent = _silent_rank(sharded) if by_rank else None
    if silent is not None:
        reason = f"rank {silent} returned None: is a `return` missing?"
        return settle(Verdict(claim, FAILED, "one card's numbers", graded=graded, reason=reason))
    ours = [_tensor(value, rank) for rank, value in enumerate(sharded if by_rank else [sharded])]
    theirs = _references(reference, len(ours))
    row = Verdict(claim, PASSED, "one card's numbers", graded=graded)
    _compare(row, by_rank, ours, theirs, (atol, rtol), allow_zero)
    return settle(row)


def _compare(
    row: Verdict,
    by_rank: bool,
    ours: list[torch.Tensor],
    theirs: list[torch.Tensor],
    tolerances: tuple[float | None, float | None],
    allow_zero: bool,
) -> None:
    """Fill the row: how far the results are apart, how far they may be, and the verdict."""
    _refuse_tolerance(*tolerances)
    allowed = [limits(tensor, *tolerances) for tensor in theirs]
    gaps = [gap(*three) for three in zip(ours, theirs, allowed, strict=True)]
    why = _words(theirs[0], *tolerances)
    row.verdict, row.reason = _judge(gaps, by_rank, _vacuous(ours, theirs, allow_zero), why)
    errors = tuple(gap.error for gap in gaps)
    row.measured = errors if by_rank else errors[0]
    row.within = max(float(limit.max()) if limit.numel() else 0.0 for limit in allowed)
    row.allowed = max(gaps, key=lambda gap: gap.error).allowed
    row.ranks = len(ours) if by_rank else None


def _silent_rank(values: Any) -> int | None:
    """The first rank that returned nothing; None where all returned something."""
    if not values:
        raise ValueError("no results to compare: give one a rank, such as run.values")
    return next((rank for rank, value in enumerate(values) if value is None), None)


def _judge(gaps: list[Gap], by_rank: bool, vacuous: str, why: str) -> tuple[str, str]:
    bad = [f"rank {rank}: {gap.complaint}" if by_rank else gap.complaint
           for rank, gap in enumerate(gaps) if gap.complaint]  # fmt: skip
    right = [str(rank) for rank, gap in enumerate(gaps) if not gap.complaint]
    agreeing = f" (rank{'s' * (len(right) > 1)} {', '.join(right)} right)" if bad and right else ""
    found = (
        bad[0] + (f"; {len(bad)} of {len(gaps)} ranks are wrong{agreeing}" if by_rank else "") if bad else ""
    )
    if by_rank and len(gaps) < 3:
        few = f"{len(gaps)} rank{'s' * (len(gaps) != 1)}: too few to tell a pattern, take 3 or more"
        return NOT_CHECKED, few + (f"; here {found}" if found else "")
    if vacuous or found:
        return FAILED, vacuous or f"{found}. {why}"
    return PASSED, why


def gap(ours: torch.Tensor, theirs: torch.Tensor, allowed: torch.Tensor) -> Gap:
    """How far one result is from its reference, with the `limits` of each element; equal infinities agree."""
    if ours.shape != theirs.shape:
        return Gap(float("nan"), f"shape {tuple(ours.shape)}, one card has {tuple(theirs.shape)}")
    if ours.dtype != theirs.dtype:
        return Gap(float("nan"), f"dtype {_name(ours.dtype)}, one card has {_name(theirs.dtype)}")
    if not ours.numel():
        return Gap(0.0)
    apart = _apart(ours, theirs)
    bad = mismatch(ours, theirs, allowed)
    most, there = float(apart.max()), float(allowed.flatten()[apart.argmax()])
    if not bad.any():
        return Gap(most, "", there)
    at = tuple(int(i) for i in bad.nonzero()[0])
    return Gap(most, _complaint(ours, theirs, at, int(bad.sum()), most), there)


def mismatch(ours: torch.Tensor, theirs: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Which elements are beyond their `limits`; equal infinities agree, and NaN agrees with NaN only."""
    return (_apart(ours, theirs) > allowed) | ((allowed == 0) & ~_same(ours, theirs))


def near(tensor: torch.Tensor) -> float:
    """What rounding explains of a result of this dtype, as a share; 0 for whole numbers."""
    return _ROUNDING.get(_name(tensor.dtype), _EXACT)[0]


def _apart(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """|ours - theirs| in double precision; infinite where one of them is NaN or another infinity."""
    import torch

    wide = torch.complex128 if ours.is_complex() else torch.float64
    apart = (ours.to(wide) - theirs.to(wide)).abs()
    return torch.where(_same(ours, theirs), 0.0, torch.nan_to_num(apart, nan=torch.inf))


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    return (ours == theirs) | ((ours != ours) & (theirs != theirs))


def _complaint(
    ours: torch.Tensor, theirs: torch.Tensor, at: tuple[int, ...], count: int, error: float
) -> str:
    seen, wanted = (tensor[at].item() for tensor in (ours, theirs))
    return (
        f"element {list(at)} is {seen:.6g}, one card has {wanted:.6g} "
        f"({count} of {ours.numel()} elements wrong, largest difference {error:.3g})"
    )


def limits(wanted: torch.Tensor, atol: float | None = None, rtol: float | None = None) -> torch.Tensor:
    """How far each element may be from `wanted`: atol + rtol x |element|, by default what rounding explains.

    The default is a share of the element, or of the tensor's median where that is larger: a small result of
    large terms has their rounding, but one huge element (a mask of -1e9) excuses nothing elsewhere.
    """
    import torch

    size = torch.nan_to_num(
        wanted.to(torch.complex128 if wanted.is_complex() else torch.float64).abs(), nan=0.0, posinf=0.0
    )
    if atol is not None or rtol is not None:
        return (atol or 0.0) + (rtol or 0.0) * size
    share, _ = _ROUNDING.get(_name(wanted.dtype), _EXACT)
    counted = size[size > 0]
    typical = float(counted.median()) if counted.numel() else 0.0
    return share * size.clamp(min=typical)


def _words(wanted: torch.Tensor, atol: float | None, rtol: float | None) -> str:
    if atol is not None or rtol is not None:
        return (
            f"Allowed: {atol or 0:g} + {rtol or 0:g} x |reference|" if atol or rtol else "Allowed: 0 (equal)"
        )
    share, words = _ROUNDING.get(_name(wanted.dtype), _EXACT)
    if not share:
        return f"Allowed: 0 ({words})"
    return f"Allowed: {share:.3g} x |reference|, or x its median where that is larger ({words})"


def _refuse_tolerance(atol: float | None, rtol: float | None) -> None:
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not 0 <= value < float("inf"):
            raise ValueError(f"{name}={value!r}: take a number from 0, and no infinity")


def _vacuous(ours: list[torch.Tensor], theirs: list[torch.Tensor], allow_zero: bool) -> str:
    """Why the comparison proves nothing; empty where it does."""
    for rank, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one is other or (one.numel() and one.data_ptr() == other.data_ptr()):
            return (
                f"the reference is rank {rank}'s own result: ranks that agree can all be wrong. "
                "Compute it on one card"
            )
    if any(tensor.numel() and bool((tensor != tensor).all()) for tensor in theirs):
        return "the reference is all NaN: a comparison with it proves nothing"
    if not any(tensor.numel() for tensor in theirs):
        return "the reference has no element: nothing was compared"
    if not allow_zero and not any(bool((tensor != 0).any()) for tensor in theirs):
        return "the reference is all zeros: too many mistakes give zeros (allow_zero=True if it is the claim)"
    return ""


def _references(reference: Any, ranks: int) -> list[torch.Tensor]:
    if not isinstance(reference, (list, tuple)):
        return [_tensor(reference, None)] * ranks
    if len(reference) != ranks:
        raise ValueError(
            f"reference holds {len(reference)} parts for {ranks} ranks: give one a rank, or one tensor"
        )
    return [_tensor(value, None) for value in reference]


def _tensor(value: Any, rank: int | None) -> torch.Tensor:
    """The value as a tensor on the CPU; raises TypeError for what is none."""
    import torch

    where = "reference" if rank is None else f"rank {rank}'s result"
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (tuple, list, dict)):
        raise TypeError(f"{where} is a {type(value).__name__} of {len(value)}: choose one tensor of it")
    try:
        return torch.as_tensor(value)
    except (TypeError, RuntimeError, ValueError) as error:
        raise TypeError(f"{where} is a {type(value).__name__}: give a tensor or a number") from error


def _empty(value: Any) -> bool:
    """No answer yet: None, `...`, or a sequence that holds `...`."""
    return value is None or unanswered(value)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
