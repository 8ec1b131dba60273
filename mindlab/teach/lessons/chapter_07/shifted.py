"""Case 07-b: a scale that is shifted by one."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.cfg import combined
from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Case, Choice, Exercise, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_07 import guiding

Tensor = torch.Tensor


def guidance_of_a_toolbox(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """The guided prediction of this scale."""
    return eps_c + scale * (eps_c - eps_u)


def guidance_of_that_scale(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """The guided prediction of this scale."""
    return eps_u + scale * (eps_c - eps_u)


def as_in_the_paper(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """Right: the form of Ho and Salimans, whose w is one less."""
    w = scale - 1
    return (1 + w) * eps_c - w * eps_u


def _with(eps_u: Tensor, eps_c: Tensor, scale: float, *, acts: float, turned: bool = False) -> Tensor:
    """Wrong: another scale, or the branches the wrong way round."""
    if turned:
        eps_u, eps_c = eps_c, eps_u
    return eps_u + (scale + acts) * (eps_c - eps_u)


def sum_instead(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """Wrong: the weights do not add up to 1."""
    return eps_u + scale * eps_c


def difference_only(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """Wrong: the difference without what it is added to."""
    return scale * (eps_c - eps_u)


def asks_the_others(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """Wrong here: waits for ranks that are not needed."""
    dist.barrier()
    return guidance_of_that_scale(eps_u, eps_c, scale)


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, float]:
    shape = 2, trial["tokens"], 6
    eps = [inputs.normal(seed, name, *shape, rank=rank) for name in ("without", "with")]
    return eps[0], eps[1], trial["tenths"] / 10


def _one_card(given: list[tuple[Tensor, Tensor, float]]) -> list[Tensor]:
    return [((1 - s) * u.double() + s * c.double()).float() for u, c, s in given]


def _look(attempt: Attempt) -> str:
    """With which scale the result would be right, if with one at all."""
    eps_u, eps_c, scale = attempt.given[0]
    seen = attempt.values[0]
    if not isinstance(seen, torch.Tensor) or seen.shape != eps_u.shape:
        return ""
    difference = (eps_c - eps_u).double()
    acts = float(((seen - eps_u) * difference).sum() / difference.square().sum())
    if abs(acts - scale) < 1e-3 or not guiding.near(seen, eps_u + acts * difference):
        return ""
    return f"Rank 0: a scale of {scale:g} acts as one of {acts:.3g}."


REPAIR = Exercise(
    name="07-b",
    title="Too strong by one",
    statement="The guided prediction, with a scale of 0 for the prediction without the condition, and 1 for "
    "the one with it.",
    inputs=_inputs,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(
        Trial(2, sizes={"tokens": 5, "tenths": 75}),
        Trial(3, sizes={"tokens": 5, "tenths": 10}),
        Trial(2, sizes={"tokens": 3, "tenths": 0}),
    ),
    tolerance={"float32": Tolerance(1e-5, 1e-5, "differences rounded to 24 bits, and then taken 7.5 times")},
    dims=guiding.DIMS,
    hints=(
        "Try the numbers that can be checked in the head: which scale must give the one prediction, which "
        "the other?",
        "Draw a line with the two predictions as points on it, without at 0 and with at 1. Where is a scale "
        "of 7.5? Where does the program begin to count?",
        """
    return ... + scale * (eps_c - eps_u)     # from where is the difference counted?
""",
    ),
    solution=guidance_of_that_scale,
    explanation="""
The difference is added to the prediction with the condition, so the count begins at 1: a scale s acts as
s + 1. The paper's own form is $(1+w)\\epsilon_c - w\\epsilon_u$, where w = 0 is the plain prediction. Both
forms are in use, and a number from one text means something else in the other. Which form a program has
is found with two calls: $\\epsilon_u = 0$ and $\\epsilon_c = 1$ must give s.
""",
    right=(as_in_the_paper, combined),
    wrong=(
        Wrong(guidance_of_a_toolbox, r"a scale of 7\.5 acts as one of 8\.5"),
        Wrong(partial(_with, acts=-1.0), r"a scale of 7\.5 acts as one of 6\.5"),
        Wrong(partial(_with, acts=0.0, turned=True), r"a scale of 7\.5 acts as one of -6\.5"),
        Wrong(sum_instead, r"Rank 0: element"),
        Wrong(difference_only, r"Rank 0: (element|every element|.*differs)|right but for|Rank 0"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)

CASE = Case(
    name="07-b",
    title="Too strong by one",
    story="""
A toolbox for making shapes from texts guides with scales of 100, and nobody notices anything. Somebody uses
its function for pictures, with the usual 7.5. They come out a little harsher than elsewhere. With a scale of
1 nothing should be guided at all, and the pictures change all the same.
""",
    program=guidance_of_a_toolbox,
    causes=(
        Choice(
            "The two predictions are swapped.",
            "Then the pictures would be led away from the text. They are led too far towards it.",
            holds=False,
        ),
        Choice(
            "The difference is added to the wrong one of the two predictions.",
            "So the scale is counted from the conditional prediction: s acts as s + 1. At 100 that is one "
            "percent, at 1 it is twice.",
            holds=True,
        ),
        Choice(
            "The difference is taken in too low a precision.",
            "The result is off by a whole difference, not by rounding.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="threestudio, issues 127 and 289 (threestudio-project/threestudio, 2023); its authors count as "
    "the paper does, whose w is the scale less 1; rewritten",
)
