"""The quiz of chapter 00: how to read a run."""

from __future__ import annotations

from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz
from mindlab.trace.measured import PROVENANCES

_TENSOR = 120_000 * 4


def _moved(ranks: int) -> Quantity:
    return Quantity(ranks * _TENSOR, "B")


QUIZ = Quiz(
    name="00",
    title="Chapter 00: start here",
    questions=(
        Question(
            "Five ranks; each hands a float32 tensor of 120,000 elements to its right neighbour. How "
            "many bytes travel?",
            answer=lambda: _moved(5),
            read="What a run leaves behind",
            choices=(
                Choice(_moved(1), "That is what one rank sends."),
                Choice(_moved(5), "Five messages of 480,000 bytes each."),
                Choice(_moved(10), "Each byte is sent once and received once. It travels once."),
                Choice(_moved(5) / 4, "A float32 has 4 bytes: this counts elements."),
            ),
        ),
        Question(
            "Two numbers stand beside each other: one counted, one from the wire. They differ. What does "
            "that mean?",
            read="Where a number comes from",
            choices=(
                Choice(
                    "One of them is a misprint.",
                    "They look at different things: the arguments of the calls, and the system's own "
                    "counters.",
                    holds=lambda: len({"counted", "wire"} & set(PROVENANCES)) < 2,
                ),
                Choice(
                    "The library moved something else than the calls ask for.",
                    "That is what the second witness is for.",
                    holds=lambda: {"counted", "wire"} <= set(PROVENANCES),
                ),
                Choice("The clocks of the ranks differ.", "No clock is involved in either.", holds=False),
            ),
        ),
        Question(
            "A check on two ranks says *not checked*, although predicted and measured are equal. Why?",
            read="How to read a check",
            choices=(
                Choice(
                    "With two ranks, the left and the right neighbour are the same rank.",
                    "Wrong patterns and right ones look alike there. Three ranks tell them apart.",
                    holds=lambda: (0 + 1) % 2 == (0 - 1) % 2 and (0 + 1) % 3 != (0 - 1) % 3,
                ),
                Choice("Two ranks are too slow.", "Nothing in a check depends on time.", holds=False),
                Choice(
                    "The tolerance is too small.", "They are equal, so no tolerance matters.", holds=False
                ),
            ),
        ),
    ),
)
