"""Case 08-b: a pipeline that idles for more than all of its time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from mindlab.planning.schedules import schedule
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Case, Choice, Exercise, Tolerance, Trial, Wrong
from mindlab.trace.slots import idle_share

Tensor = torch.Tensor
STAGES = {
    "equal": (1.0, 1.0, 1.0, 1.0),
    "last": (1.0, 1.0, 1.0, 2.0),
    "first": (3.0, 1.0),
    "mixed": (2.0, 5.0, 1.0),
}


def idle_of(seconds: Tensor, microbatches: int) -> Tensor:
    """The share of all stages' time in which they do nothing."""
    p = len(seconds)
    return torch.tensor((p - 1) / microbatches, dtype=torch.float64)


def repaired(seconds: Tensor, microbatches: int) -> Tensor:
    """The share of all stages' time in which they do nothing."""
    p = len(seconds)
    whole = seconds.sum() + (microbatches - 1) * seconds.max()
    return 1 - microbatches * seconds.sum() / (p * whole)


def by_boxes(seconds: Tensor, microbatches: int) -> Tensor:
    """Right: from the boxes of the schedule."""
    return torch.tensor(idle_share(schedule(seconds.tolist(), microbatches)), dtype=torch.float64)


def stage_by_stage(seconds: Tensor, microbatches: int) -> Tensor:
    """Right: each stage's own idle share, averaged."""
    whole = seconds.sum() + (microbatches - 1) * seconds.max()
    return (1 - microbatches * seconds / whole).mean()


def _by(formula: Callable[[Tensor, int, int], Tensor | float], seconds: Tensor, microbatches: int) -> Tensor:
    return torch.as_tensor(formula(seconds, microbatches, len(seconds)), dtype=torch.float64)


def _formula(formula: Callable[[Tensor, int, int], Tensor | float]) -> Callable[..., Tensor]:
    return partial(_by, formula)


def at_most_all(seconds: Tensor, microbatches: int) -> Tensor:
    """Wrong: the ratio, cut off at 1."""
    return idle_of(seconds, microbatches).clamp(max=1)


def for_equal_stages(seconds: Tensor, microbatches: int) -> Tensor:
    """Wrong: right where all stages take alike."""
    p = len(seconds)
    return torch.tensor((p - 1) / (microbatches + p - 1), dtype=torch.float64)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, int]:
    stages = next(times for name, times in STAGES.items() if trial.sizes.get(name))
    return torch.tensor(stages, dtype=torch.float64), trial["microbatches"]


def _one_card(given: list[tuple[Tensor, int]]) -> list[Tensor]:
    return [by_boxes(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """Which stages and how many micro-batches, and both shares."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, Tensor) or seen.numel() != 1 or abs(float(seen - wanted)) <= 1e-9:
        return ""
    stages, count = attempt.given[0]
    return (
        f"Stages of {stages.tolist()} and {count} micro-batch{'es' * (count > 1)}: the answer is "
        f"{100 * float(seen):.1f} %; of the boxes {100 * float(wanted):.1f} % are idle."
    )


REPAIR = Exercise(
    name="08-b",
    title="150 % idle",
    statement="""
The idle share of a forward-only pipeline: of the time of all stages, from the first begin to the last end,
the share in which they do nothing. `seconds` (float64) is what each stage takes for one micro-batch.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(
        Trial(2, sizes={"equal": 1, "microbatches": 2}),
        Trial(2, sizes={"equal": 1, "microbatches": 32}),
        Trial(2, sizes={"last": 1, "microbatches": 8}),
        Trial(2, sizes={"first": 1, "microbatches": 1}),
        Trial(2, sizes={"mixed": 1, "microbatches": 3}),
    ),
    tolerance={"float64": Tolerance(1e-9, 0.0, "a few divisions in float64")},
    hints=(
        "A share of what? Write down the whole first, and then which part of it is work.",
        "Draw the boxes as a rectangle: as many rows as stages, as long as everything takes. How much of its "
        "area is covered by boxes? With one slow stage, how long is it?",
        """
    whole = ...                 # from the first begin to the last end
    work = ...                  # of all stages together
    return 1 - work / ...       # of the whole rectangle
""",
    ),
    solution=repaired,
    explanation="""
Two numbers go by the name of bubble. $\\frac{p-1}{m}$ is idle time over **working** time (Narayanan et al.
2021); it may be above 1. $\\frac{p-1}{m+p-1}$ is idle time over **all** time (Huang et al. 2019). For many
micro-batches they meet: 9.4 % and 8.6 % at p = 4, m = 32. Both are for equal stages. With any stages the
rectangle is $\\sum t_i + (m-1)\\max t_i$ long, and many micro-batches do not help against a slow stage:
the share goes to $1 - \\bar t / \\max t$.
""",
    right=(by_boxes, stage_by_stage),
    wrong=(
        Wrong(idle_of, r"2 micro-batches: the answer is 150\.0 %; of the boxes 60\.0 % are idle"),
        Wrong(at_most_all, r"the answer is 100\.0 %; of the boxes 60\.0 %"),
        Wrong(for_equal_stages, r"1\.0, 2\.0\] and 8 micro-batches: the answer is 27\.3 %; of the boxes"),
        Wrong(_formula(lambda t, m, p: (p - 1) / (m + p)), r"the answer is 50\.0 %; of the boxes 60\.0 %"),
        Wrong(_formula(lambda t, m, p: m / (m + p - 1)), r"the answer is 40\.0 %; of the boxes 60\.0 %"),
        Wrong(
            _formula(lambda t, m, p: 1 - m * t.sum() / (p * (m + p - 1) * t.max())),
            r"2\.0\] and 8 micro-batches: the answer is 54\.5 %",
        ),
        Wrong(
            _formula(lambda t, m, p: 1 - m * t.sum() / (p * (t.sum() + (m - 1) * t.mean()))),
            r"and 8 micro-batches: the answer is 27\.3 %",
        ),
    ),
)

CASE = Case(
    name="08-b",
    title="150 % idle",
    story="""
A planning sheet takes the seconds of each stage and the number of micro-batches, and says which share of the
cards' time is idle. It was reviewed with 4 stages and 32 micro-batches: 9.4 %, and about 9 % were measured.
Somebody enters 2 micro-batches and reads 150 %. Somebody else has a last stage twice as slow as the others;
the sheet promises 38 % for 8 micro-batches, whatever the stages take.
""",
    program=idle_of,
    causes=(
        Choice(
            "The formula holds for m larger than p only.",
            "Below p the pipeline is never full, but its boxes and gaps can be counted as well.",
            holds=False,
        ),
        Choice(
            "It is idle time over working time, not over all time; and it takes all stages for equal.",
            "(p-1)/m compares the gaps with the boxes. For many micro-batches both ratios are small and "
            "nearly equal, so the review could not tell.",
            holds=True,
        ),
        Choice(
            "It leaves out the time of the transfers.",
            "With transfers more would be idle, not less than 150 %.",
            holds=False,
        ),
        Choice(
            "It is the formula for training, where a backward pass doubles the bubble.",
            "The backward pass doubles boxes and gaps alike: the ratio stays.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="two definitions that are often exchanged: Huang et al., GPipe (2019), section 2.3; Narayanan et "
    "al. (2021), section 2.2",
)
