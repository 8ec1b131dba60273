"""The quiz of chapter 07. Every number in it is computed."""

from __future__ import annotations

import torch

from mindlab.parallel.cfg import combined
from mindlab.predict import seconds, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_LATENT = 16 * 128 * 128
"""Numbers of one prediction: 16 channels of 128 x 128."""


def _sent(ranks: int) -> Quantity:
    return volume.cfg_parallel(_LATENT, ranks, itemsize=2, steps=50)


def _guided(without: float, with_it: float, scale: float) -> float:
    return float(combined(torch.tensor(without), torch.tensor(with_it), scale))


def _swapped(scale: float) -> float:
    """How far off swapped branches are, in differences of the two."""
    return abs(_guided(0, 1, scale) - _guided(1, 0, scale))


QUIZ = Quiz(
    name="07",
    title="Chapter 07: CFG parallel",
    questions=(
        Question(
            "A prediction has 16 x 128 x 128 numbers in bfloat16. 50 steps on 2 cards: how much does one "
            "card send in all?",
            answer=lambda: _sent(2),
            read="4, What one rank sends",
            choices=(
                Choice(_sent(2), "Its prediction, once a step."),
                Choice(2 * _sent(2), "It sends its own prediction only; the other one arrives."),
                Choice(_sent(2) / 50, "That is one step."),
            ),
        ),
        Question(
            "Two branches that take equally long, eight cards, CFG parallel and nothing else. How many times "
            "as fast as one card, if the exchange takes no time?",
            answer=lambda: seconds.cfg_speedup(1.0, 1.0),
            read="8, More cards",
            choices=(
                Choice(seconds.cfg_speedup(1.0, 1.0), "Two branches: two cards have something to do."),
                Choice(8.0, "There is no eighth part of the work to give to a card."),
                Choice(
                    2 * 7 / 8,
                    "It does not approach 2 with more cards: two cards are there already.",
                ),
            ),
        ),
        Question(
            "The branch with the condition takes three times as long as the other. How many times as fast "
            "are two cards?",
            answer=lambda: round(seconds.cfg_speedup(1.0, 3.0).value, 4),
            read="8, Unequal branches",
            choices=(
                Choice(
                    round(seconds.cfg_speedup(1.0, 3.0).value, 4),
                    "(1 + 3) / 3: the quick one waits for the slow one.",
                ),
                Choice(2.0, "That is for equal branches."),
                Choice(4.0, "(1 + 3) / 1 would be so if all waited for the quick one."),
            ),
        ),
        Question(
            "Without the condition 2, with it 3, scale 7.5. What is the guided prediction?",
            answer=lambda: _guided(2, 3, 7.5),
            read="1, Two predictions",
            choices=(
                Choice(_guided(2, 3, 7.5), "2 + 7.5 x 1."),
                Choice(_guided(2, 3, 8.5), "3 + 7.5 x 1 counts from the wrong one: case b."),
                Choice(7.5, "That is the difference alone, scaled."),
                Choice(_guided(3, 2, 7.5), "The branches are swapped."),
            ),
        ),
        Question(
            "Branches swapped, tested at a scale of 0.5. How far off is the result, in differences of the "
            "two predictions?",
            answer=lambda: _swapped(0.5),
            read="5, Branches swapped",
            choices=(
                Choice(_swapped(7.5), "That is at 7.5: 2s - 1."),
                Choice(_swapped(0.5), "Half of each, whichever is which: this test can see nothing."),
                Choice(_swapped(1.0), "That is at 1, where one whole prediction is taken for the other."),
            ),
        ),
        Question(
            "Both branches in one batch on one card. What gets smaller?",
            read="4, What fusion changes",
            choices=(
                Choice("The floating-point work of a step.", "Both predictions are still made.", holds=False),
                Choice(
                    "The memory of the activations.", "They double: two entries live at once.", holds=False
                ),
                Choice(
                    "The number of calls, and how often each weight is read.",
                    "One call instead of two, on the same weights.",
                    holds=True,
                ),
            ),
        ),
    ),
)
