"""By which factor a number is off, and which well-known mistake makes that factor."""

from __future__ import annotations

from collections.abc import Sequence

from mindlab.predict import units

Number = int | float


def explain(
    predicted: Sequence[Number], measured: Sequence[Number], unit: str, ranks: int | None, *, by_rank: bool
) -> str:
    """How `measured` differs from `predicted`, and on the likely cause where it is known."""
    wrong = [index for index, pair in enumerate(zip(predicted, measured, strict=True)) if pair[0] != pair[1]]
    first = wrong[0] if wrong else 0
    said, seen = predicted[first], measured[first]
    factor = common_factor(predicted, measured)
    start = _who(wrong, first, len(measured)) if by_rank else "measured"
    sentence = f"{start} {units.with_base(seen, unit)}, {_times(seen, said, unit)}"
    right = [str(rank) for rank in range(len(measured)) if rank not in wrong]
    if by_rank and right:
        sentence += f" (rank{'s' * (len(right) > 1)} {', '.join(right)} as predicted)"
    causes = _pattern(predicted, measured) if by_rank else ""
    if not causes and factor is not None:
        causes = cause(factor, ranks, unit)
    return f"{sentence}. {causes}".strip() if causes else sentence


def common_factor(predicted: Sequence[Number], measured: Sequence[Number]) -> float | None:
    """Measured over predicted where it is the same for all ranks (within 1 %), else None."""
    if not all(predicted) or not all(measured):
        return None
    factors = [float(seen) / float(said) for said, seen in zip(predicted, measured, strict=True)]
    mean = sum(factors) / len(factors)
    return mean if all(abs(factor - mean) <= 0.01 * abs(mean) for factor in factors) else None


def cause(factor: float, ranks: int | None, unit: str) -> str:
    """The well-known mistakes that make this factor, as sentences; empty where none is known."""
    known = [text for value, text in _causes(ranks, unit) if abs(factor / value - 1) <= 0.004]
    several = f"At p = {ranks} several mistakes make this factor. " if len(known) > 1 and ranks else ""
    return several + " Or: ".join(known)


def _causes(ranks: int | None, unit: str) -> list[tuple[float, str]]:
    causes = _causes_by_ranks(ranks) if ranks and ranks > 2 and unit == "B" else []
    causes += [
        (2.0, "Twice: are send and receive added, or do two phases run where one is predicted?"),
        (0.5, "Half: is one of two phases missing (the all-gather after the reduce-scatter), or does the "
              "prediction add send and receive?"),
    ]  # fmt: skip
    if unit == "B":
        causes += [
            (1024**2 / 1000**2, "1.049 = 1 MiB / 1 MB: the prediction takes MB for MiB."),
            (1000**2 / 1024**2, "0.9537 = 1 MB / 1 MiB: the prediction takes MiB for MB."),
            (1.024, "1.024 = 1 KiB / 1 kB: the prediction takes kB for KiB."),
            (8.0, "8: are these bits, not bytes?"),
            (1 / 8, "1/8: is the prediction in bits, not bytes?"),
        ]
    return causes


def _causes_by_ranks(ranks: int) -> list[tuple[float, str]]:
    p = ranks
    return [
        (p / 2, f"p/2 = {p / 2:g}: does the whole tensor travel in each step, (p-1)·D, where one chunk of p "
                "would do, 2(p-1)/p·D?"),
        (2 / p, f"2/p = {2 / p:.3g}: is the prediction a whole tensor a step, (p-1)·D, where chunks make "
                "2(p-1)/p·D?"),
        (p, f"p = {p}: is the measured number the total of all ranks, or the prediction made from one rank's "
            "shard (D is the full tensor)? Or does the whole tensor travel where one chunk of p would do?"),
        (1 / p, f"1/p = {1 / p:.3g}: is the prediction the total of all ranks, where one rank's bytes are "
                "measured?"),
        (p / (p - 1), f"p/(p-1) = {p / (p - 1):.3g}: does a rank also send its own part, which can stay?"),
        ((p - 1) / p, f"(p-1)/p = {(p - 1) / p:.3g}: does it forget that a rank's own part stays?"),
        (p - 1.0, f"p-1 = {p - 1}: is the prediction one step of the p-1?"),
        (1 / (p - 1), f"1/(p-1) = {1 / (p - 1):.3g}: is only one step of the p-1 done?"),
    ]  # fmt: skip


def _pattern(predicted: Sequence[Number], measured: Sequence[Number]) -> str:
    """What the ranks show only together: same mean, same numbers on other ranks."""
    ranks = len(measured)
    if len(set(predicted)) == 1 and len(set(measured)) > 1 and _close(sum(predicted), sum(measured)):
        return "The mean over ranks is right, the ranks differ: give itemsize= for each rank's exact bytes."
    for shift in range(1, ranks):
        turned = [measured[(rank + shift) % ranks] for rank in range(ranks)]
        if len(set(predicted)) > 1 and turned == list(predicted):
            return f"The right numbers on the wrong ranks: what rank 0 should have is on rank {shift}."
    return ""


def _close(one: Number, other: Number) -> bool:
    return abs(one - other) <= 1e-9 * abs(one)


def _who(wrong: list[int], first: int, ranks: int) -> str:
    return "every rank: measured" if len(wrong) == ranks else f"rank {first}: measured"


def _times(seen: Number, said: Number, unit: str) -> str:
    """ "2 times the predicted 6 KiB (6,144 B)"; the difference, where the factor is nearly 1."""
    predicted = f"the predicted {units.with_base(said, unit)}"
    if not said:
        return "where nothing was predicted"
    factor = float(seen) / float(said)
    if not 0.99 < factor < 1.01:
        return f"{factor:.4g} times {predicted}"
    word = "more" if seen > said else "less"
    return f"{units.with_base(abs(seen - said), unit)} {word} than {predicted}"
