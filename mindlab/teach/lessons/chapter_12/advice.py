"""Exercise 12.3: the texts' advice as a function: which axes for a picture on so many cards."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Axes = dict[str, int]
AXES = ("cfg", "ulysses", "ring")


def my_advice(cards: int, host: int, heads: int, guided: bool) -> Axes:
    """The degrees of cfg, ulysses and ring."""
    cfg = 2 if guided and cards % 2 == 0 else 1
    left = cards // cfg
    fitting = [u for u in range(1, left + 1) if left % u == 0 and heads % u == 0 and u <= host]
    ulysses = max(fitting)
    return {"cfg": cfg, "ulysses": ulysses, "ring": left // ulysses}


def counting_down(cards: int, host: int, heads: int, guided: bool) -> Axes:
    """Right: from the largest degree down."""
    cfg = 1 + (guided and not cards % 2)
    left = cards // cfg
    ulysses = min(left, host)
    while left % ulysses or heads % ulysses:
        ulysses -= 1
    return {"ring": left // ulysses, "ulysses": ulysses, "cfg": cfg}


def by_common_divisors(cards: int, host: int, heads: int, guided: bool) -> Axes:
    """Right: the largest common divisor of cards and heads that a host can hold."""
    cfg = 2 if guided and cards % 2 == 0 else 1
    left = cards // cfg
    common = [d for d in range(1, min(left, heads) + 1) if left % d == heads % d == 0]
    ulysses = [d for d in common if d <= host][-1]
    return {"ulysses": ulysses, "ring": left // ulysses, "cfg": cfg}


def _changed(what: str) -> Callable[[int, int, int, bool], Axes]:
    def answer(cards: int, host: int, heads: int, guided: bool) -> Axes:
        cfg = 2 if (guided or what == "always guided") and cards % 2 == 0 else 1
        left = cards if what == "cfg is free" else cards // cfg
        limit = left if what == "over hosts" else host
        fitting = [
            u for u in range(1, left + 1)
            if left % u == 0 and u <= limit and (what == "any head" or heads % u == 0)
        ]  # fmt: skip
        ulysses = min(fitting) if what == "ring first" else max(fitting)
        if what == "power of two":
            ulysses = max(u for u in fitting if u & (u - 1) == 0)
        return {"cfg": 1 if what == "no cfg" else cfg, "ulysses": ulysses, "ring": left // ulysses}

    answer.__name__ = what.replace(" ", "_")
    return answer


def asks_the_others(cards: int, host: int, heads: int, guided: bool) -> Axes:
    """Wrong: right, but nobody else is needed."""
    dist.barrier()
    return my_advice(cards, host, heads, guided)


def _given(seed: int, rank: int, trial: Trial) -> tuple[int, int, int, bool]:
    return trial["cards"], trial["host"], trial["heads"], bool(trial.sizes.get("guided"))


def _one_card(given: list[tuple[int, int, int, bool]]) -> list[Axes]:
    return [by_common_divisors(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """Which model on which cards, and both layouts."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, dict) or seen == wanted:
        return ""
    cards, host, heads, guided = attempt.given[0]
    with_guidance = "with guidance" if guided else "without guidance"
    said = ", ".join(f"{axis} {seen.get(axis)}" for axis in AXES)
    right = ", ".join(f"{axis} {wanted[axis]}" for axis in AXES)
    where = f"{cards} cards in hosts of {host}, {heads} heads, {with_guidance}"
    return f"{where}: the answer is {said}; the advice is {right}."


EXERCISE = Exercise(
    name="12.3",
    title="The advice as a function",
    statement="""
Write `my_advice(cards, host, heads, guided)`: the texts' advice for one picture. Guidance first: with it, and
an even number of cards, two groups (`cfg` 2). Of the cards that are left, Ulysses takes as many as it can:
its degree divides them, divides the heads, and its group fits into a host of `host` cards. The ring takes
the rest.

Return a dict with `cfg`, `ulysses` and `ring`; the three multiply to `cards`. No tensor parallel: it comes
last, for weights that do not fit.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(
        Trial(2, sizes={"cards": 8, "host": 8, "heads": 24}),
        Trial(2, sizes={"cards": 8, "host": 8, "heads": 40, "guided": 1}),
        Trial(2, sizes={"cards": 6, "host": 8, "heads": 12}),
        Trial(2, sizes={"cards": 16, "host": 8, "heads": 48, "guided": 1}),
        Trial(2, sizes={"cards": 32, "host": 8, "heads": 48}),
        Trial(2, sizes={"cards": 8, "host": 8, "heads": 12, "guided": 0}),
        Trial(2, sizes={"cards": 5, "host": 8, "heads": 24, "guided": 1}),
    ),
    hints=(
        "Three steps in the order of the text: halve, then the largest number with three conditions, "
        "then the rest.",
        "Write the divisors of the cards that are left in a row. Strike out those that do not divide the "
        "heads, "
        "and those that are larger than a host.",
        """
    cfg = ...
    left = cards // cfg
    fitting = [u for u in range(1, left + 1) if ...]   # three conditions
    ulysses = max(fitting)
    return {"cfg": cfg, "ulysses": ulysses, "ring": ...}
""",
    ),
    solution=my_advice,
    explanation="""
The advice is a function of four numbers: it knows neither the model's size nor the links. Where it is as good
as the best plan, and where not, is what the chapter looks at next.
""",
    right=(counting_down, by_common_divisors),
    wrong=(
        Wrong(_changed("always guided"), r"without guidance: the answer is cfg 2"),
        Wrong(_changed("no cfg"), r"40 heads, with guidance: the answer is cfg 1"),
        Wrong(_changed("any head"), r"12 heads, without guidance: the answer is cfg 1, ulysses 8"),
        Wrong(_changed("over hosts"), r"32 cards in hosts of 8, .* the answer is cfg 1, ulysses 16"),
        Wrong(_changed("ring first"), r"the answer is cfg 1, ulysses 1, ring 8"),
        Wrong(_changed("power of two"), r"6 cards .*: the answer is cfg 1, ulysses 2, ring 3"),
        Wrong(_changed("cfg is free"), r"with guidance: the answer is cfg 2, ulysses 8, ring 1"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
