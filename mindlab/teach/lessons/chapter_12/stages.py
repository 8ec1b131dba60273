"""Case 12-c: degrees of all stages multiplied, though the stages use the same cards one after the other."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm, prod

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Case, Choice, Exercise, Trial, Wrong

Stages = list[dict[str, int]]


def cards_needed(stages: Stages) -> int:
    """How many cards it takes."""
    cards = 1
    for degrees in stages:
        cards *= prod(degrees.values())
    return cards


def repaired(stages: Stages) -> int:
    """How many cards it takes."""
    needed = []
    for degrees in stages:
        axes = {axis: size for axis, size in degrees.items() if axis != "expert"}
        needed.append(max(prod(axes.values()), degrees.get("expert", 1)))
    return max(needed)


def in_one_line(stages: Stages) -> int:
    """Right: the largest stage, experts on ranks that are there."""
    return max(
        max(prod(size for axis, size in degrees.items() if axis != "expert"), degrees.get("expert", 1))
        for degrees in stages
    )


def one_after_the_other(stages: Stages) -> int:
    """Right: keep the most that a stage has needed."""
    most = 1
    for degrees in stages:
        here = 1
        for axis, size in degrees.items():
            here *= 1 if axis == "expert" else size
        most = max(most, here, degrees.get("expert", 1))
    return most


def _by(form: Callable[[Stages], int]) -> Callable[[Stages], int]:
    def answer(stages: Stages) -> int:
        return form(stages)

    return answer


PLANS: dict[str, Stages] = {
    "picture": [{"cfg": 2, "ulysses": 4}, {"tiles": 8}],
    "chat": [{"data": 1, "ring": 2, "tensor": 4}, {"data": 2, "tensor": 4}],
    "experts": [{"data": 4, "tensor": 2, "expert": 8}],
    "uneven": [{"text": 1}, {"cfg": 2, "ring": 2, "ulysses": 2}, {"tiles": 4}],
    "alone": [{"ulysses": 6}],
    "many experts": [{"data": 2, "tensor": 2, "expert": 8}],
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Stages]:
    stages = next(plan for name, plan in PLANS.items() if trial.sizes.get(name))
    return ([dict(degrees) for degrees in stages],)


def _one_card(given: list[tuple[Stages]]) -> list[int]:
    return [in_one_line(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """The stages, and both numbers."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, int) or seen == wanted:
        return ""
    said = "; then ".join(
        " x ".join(f"{axis} {size}" for axis, size in degrees.items()) for degrees in attempt.given[0][0]
    )
    return f"{said}: the answer is {seen} card{'s' * (seen != 1)}, and {wanted} are enough and needed."


REPAIR = Exercise(
    name="12-c",
    title="64 cards for a picture",
    statement="""
`stages` are the stages of one request, one after the other on the same cards; each maps axes to degrees.
Within a stage the axes are orthogonal, but for `expert`: experts are dealt over ranks that the other axes
have made (if there are fewer, as many ranks as experts' degree are needed). Return how many cards it takes.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=tuple(Trial(2, sizes={name: 1}) for name in PLANS),
    hints=(
        "Who works at the same time as whom? Only those need cards of their own.",
        "Draw time to the right and cards down. A stage is a rectangle; the next one starts where it "
        "ends, at the "
        "top again.",
        """
    needed = []
    for degrees in stages:
        axes = ...                   # those that multiply
        needed.append(max(..., degrees.get("expert", 1)))
    return ...                       # of all stages
""",
    ),
    solution=repaired,
    explanation="""
Degrees multiply where their axes are orthogonal: each combination of places is a rank of its own. Stages
come one after the other and use the same cards again; experts lie on the ranks of data and tensor parallel.
The second text says it: where devices are used again, or stages are grouped differently, degrees must not
simply be multiplied.
""",
    right=(in_one_line, one_after_the_other),
    wrong=(
        Wrong(cards_needed, r"cfg 2 x ulysses 4; then tiles 8: the answer is 64 cards, and 8 are enough"),
        Wrong(
            _by(lambda stages: max(prod(one.values()) for one in stages)),
            r"tensor 2 x expert 8: the answer is 64 cards, and 8",
        ),
        Wrong(
            _by(lambda stages: sum(prod(v for k, v in one.items() if k != "expert") for one in stages)),
            r"then tiles 8: the answer is 16 cards",
        ),
        Wrong(
            _by(lambda stages: prod(v for k, v in stages[0].items() if k != "expert")),
            r"text 1; then .* the answer is 1 card,",
        ),
        Wrong(
            _by(lambda stages: prod(v for k, v in stages[-1].items() if k != "expert")),
            r"then tiles 4: the answer is 4",
        ),
        Wrong(
            _by(lambda stages: max(prod(v for k, v in one.items() if k != "expert") for one in stages)),
            r"data 2 x tensor 2 x expert 8: the answer is 4 cards",
        ),
        Wrong(
            _by(lambda stages: max(max(one.values()) for one in stages)),
            r"ring 2 x tensor 4; then .* the answer is 4 cards",
        ),
        Wrong(
            _by(lambda stages: lcm(*(prod(one.values()) for one in stages))),
            r"expert 8: the answer is 64 cards",
        ),
    ),
)

CASE = Case(
    name="12-c",
    title="64 cards for a picture",
    story="""
A planning sheet multiplies all degrees that a configuration names. For guided pictures with Ulysses 4, and
a VAE that decodes in 8 tiles, it orders 2 x 4 x 8 = 64 cards. The pictures are made on 8. For a mixture of
experts with 4 replicas, tensor parallel 2 and expert parallel 8 it orders 64 as well; the experts lie on
the 8 ranks that are there.
""",
    program=cards_needed,
    causes=(
        Choice(
            "The two passes of guidance can be fused into one, so CFG needs no cards.",
            "With CFG parallel they are on two groups, and 8 cards are right.",
            holds=False,
        ),
        Choice(
            "Degrees multiply within a stage; the next stage uses the same cards again.",
            "Tiles are decoded after the last step, on the cards that made the latent.",
            holds=True,
        ),
        Choice(
            "Ulysses 4 needs only the 4 cards of one group.",
            "Both branches have a group of 4 each: 8.",
            holds=False,
        ),
        Choice(
            "The tiles of a VAE overlap, so 8 tiles need fewer than 8 cards.",
            "Tiles overlap in their halos, not in the cards that decode them.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="the second text, section 5: the product holds for orthogonal device axes only; the sheet is "
    "made up",
)
