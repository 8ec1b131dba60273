"""Case 12-b: a published speed-up of more than the number of cards."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Case, Choice, Exercise, Tolerance, Trial, Wrong

Tensor = torch.Tensor
Row = tuple[int, str, float]


def speed_up(rows: list[Row], which: int) -> Tensor:
    """How many times as fast row `which` is as one card."""
    first = rows[0]
    return torch.tensor(first[2] / rows[which][2], dtype=torch.float64)


def repaired(rows: list[Row], which: int) -> Tensor:
    """How many times as fast row `which` is as one card."""
    _, kernels, seconds = rows[which]
    alone = next(took for cards, same, took in rows if cards == 1 and same == kernels)
    return torch.tensor(alone / seconds, dtype=torch.float64)


def by_kernels(rows: list[Row], which: int) -> Tensor:
    """Right: the rows on one card, by their kernels."""
    alone = {kernels: took for cards, kernels, took in rows if cards == 1}
    return torch.tensor(alone[rows[which][1]] / rows[which][2], dtype=torch.float64)


def nearest_before(rows: list[Row], which: int) -> Tensor:
    """Right: the last row on one card with the same kernels."""
    alone = [took for cards, kernels, took in rows if (cards, kernels) == (1, rows[which][1])][-1]
    return torch.tensor(alone, dtype=torch.float64) / rows[which][2]


def _by(form: Callable[[list[Row], Row], float]) -> Callable[[list[Row], int], Tensor]:
    def answer(rows: list[Row], which: int) -> Tensor:
        return torch.tensor(form(rows, rows[which]), dtype=torch.float64)

    return answer


def _alone(rows: list[Row]) -> list[float]:
    return [took for cards, _, took in rows if cards == 1]


TABLES: dict[str, tuple[list[Row], int]] = {
    "published": ([(1, "as shipped", 3907.32), (1, "fused", 3787.61), (8, "fused", 480.20)], 2),
    "one card": ([(1, "as shipped", 3907.32), (1, "fused", 3787.61), (8, "fused", 480.20)], 1),
    "shuffled": (
        [(1, "fused", 50.0), (1, "as shipped", 80.0), (4, "as shipped", 25.0), (4, "fused", 13.0)],
        2,
    ),
    "slower": ([(1, "compiled", 12.0), (1, "eager", 30.0), (2, "eager", 16.0), (2, "compiled", 7.0)], 3),
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[list[Row], int]:
    rows, which = next(case for name, case in TABLES.items() if trial.sizes.get(name))
    return list(rows), which


def _one_card(given: list[tuple[list[Row], int]]) -> list[Tensor]:
    return [by_kernels(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """The row, and both speed-ups."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, Tensor) or seen.numel() != 1 or abs(float(seen - wanted)) <= 1e-9:
        return ""
    rows, which = attempt.given[0]
    cards, kernels, _ = rows[which]
    row = f"{cards} card{'s' * (cards > 1)}, {kernels}"
    return (
        f"{row}: the answer is {float(seen):.3g} times; the same kernels on one card give "
        f"{float(wanted):.3g}."
    )


REPAIR = Exercise(
    name="12-b",
    title="8.13 times on eight cards",
    statement="""
`rows` are measurements: (cards, kernels, seconds). Return, as a float64 tensor, how many times as fast row
`which` is as one card that runs the same kernels. There is such a row for each kind of kernels.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=tuple(Trial(2, sizes={name: 1}) for name in TABLES),
    tolerance={"float64": Tolerance(1e-12, 1e-12, "one division in float64")},
    hints=(
        "Two things changed between the first row and the last. Which of them is asked about?",
        "Put the rows in a table: kernels down, cards across. A speed-up by cards compares two cells of "
        "one row.",
        """
    _, kernels, seconds = rows[which]
    alone = ...                  # the seconds of one card with these kernels
    return torch.tensor(alone / seconds, dtype=torch.float64)
""",
    ),
    solution=repaired,
    explanation="""
3907.32 / 480.20 is 8.14, and two things are in it: fused operators, 1.03 times, and eight cards, 7.89
times. A speed-up above the number of cards is a sign to look for a second change: other kernels, another
batch, a cache, memory that no longer overflows. The planner puts rows on one card beside others only where
the kernels agree.
""",
    right=(by_kernels, nearest_before),
    wrong=(
        Wrong(speed_up, r"8 cards, fused: the answer is 8\.14 times; .* on one card give 7\.89"),
        Wrong(
            _by(lambda rows, row: _alone(rows)[-1] / row[2]), r"2 cards, compiled: the answer is 4\.29 times"
        ),
        Wrong(
            _by(lambda rows, row: min(_alone(rows)) / row[2]), r"4 cards, as shipped: the answer is 2 times"
        ),
        Wrong(
            _by(lambda rows, row: max(_alone(rows)) / row[2]), r"8 cards, fused: the answer is 8\.14 times"
        ),
        Wrong(
            _by(lambda rows, row: sum(_alone(rows)) / len(_alone(rows)) / row[2]),
            r"the answer is 8\.01 times",
        ),
        Wrong(_by(lambda rows, row: float(row[0])), r"8 cards, fused: the answer is 8 times"),
        Wrong(
            _by(lambda rows, row: next(t for c, k, t in rows if c == 1 and k == row[1]) / row[2] / row[0]),
            r"8 cards, fused: the answer is 0\.986 times",
        ),
    ),
)

CASE = Case(
    name="12-b",
    title="8.13 times on eight cards",
    story="""
A report on HunyuanVideo prints 3907.32 s on one card as shipped, 3787.61 s with fused operators, and for
eight cards with Ulysses 480.20 s: 8.13 times as fast (8.137, cut off). A reader concludes that Ulysses scales
better than linearly and plans sixteen cards with it.
""",
    program=speed_up,
    causes=(
        Choice(
            "Eight cards have eight times the cache, so more than 8 is usual.",
            "Nothing of this size lives in a card's cache, and with the same kernels it is less than 8.",
            holds=False,
        ),
        Choice(
            "The row on one card runs other kernels than the row on eight.",
            "Between the two rows both the operators and the cards changed. The row with the same "
            "operators is "
            "3787.61 s.",
            holds=True,
        ),
        Choice(
            "Without the time of the VAE a speed-up cannot be judged.",
            "All three are the seconds of the diffusion transformer alone.",
            holds=False,
        ),
        Choice(
            "The times are medians and the mean should be taken.",
            "No choice of mean makes one card faster than itself.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="hicann/cann-recipes-infer, an older hunyuan_video_optimization.md (09c48e1): speed-ups "
    "against 3907.32 s",
)
