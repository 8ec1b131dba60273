"""Guesses: what is revealed, and which mistake a wrong number is told to be."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

import mindlab as ml
from mindlab.teach import mistakes
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run

D = 4 * 2**20


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDLAB_PROGRESS", "off")


@pytest.fixture(scope="module")
def ring() -> Iterator[Run]:
    def all_reduce() -> torch.Tensor:
        return ml.collectives.ring_all_reduce(torch.ones(D // 4))

    yield ml.launch(all_reduce, ranks=4)
    ml.shutdown()


@pytest.mark.parametrize("p", [3, 5, 7, 8])
@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("half", lambda p: (p - 1) / p * D),
        ("chunk", lambda p: 2 / (p - 1) * D),
        ("total", lambda p: 2 * (p - 1) * D),
        ("both", lambda p: 4 * (p - 1) / p * D),
        ("uncut", lambda p: (p - 1) * D),
        ("whole", lambda p: D),
        ("own", lambda p: 2 * D),
        ("decimal", lambda p: 2 * (p - 1) / p * D * 2**20 / 10**6),
        ("binary", lambda p: 2 * (p - 1) / p * D * 10**6 / 2**20),
    ],
)
def test_a_wrong_number_is_traced_to_its_mistake(key: str, wrong: object, p: int) -> None:
    """Would catch a mistake that is not known at some p, or is told under another one's name."""
    right = ml.volume.ring_all_reduce(D, p)
    number = wrong(p) / 2**20  # type: ignore[operator]
    found = [one.key for one in mistakes.matching(number, right.value / 2**20, right, p, "MiB")]
    assert key in found
    others = {mistake for mistake in found if mistake != key}
    assert others <= _twins(key, p), "another name only where the two numbers are the same"


def _twins(key: str, p: int) -> set[str]:
    """Mistakes whose numbers coincide at this p, worked out by hand."""
    groups = {3: [{"half", "round"}, {"own", "uncut"}, {"chunk", "whole"}], 8: [{"total", "bits"}]}.get(p, [])
    return {name for group in groups if key in group for name in group - {key}}


def test_two_mistakes_with_one_number_are_both_named() -> None:
    """Would catch a learner who is told the wrong one of two mistakes: at p = 4, p/2 is 2."""
    asked = ml.guess("How much does a rank send?", "MiB", 12)
    said = asked.reveal(formula=ml.volume.ring_all_reduce(D, 4)).comment
    assert "more than one mistake" in said and "sent and received" in said and "whole tensor" in said


def test_three_digits_are_enough_and_two_are_not() -> None:
    """Would catch a right guess that is refused for its rounding, and a wrong one that passes."""
    right = ml.volume.ring_all_reduce(D, 3)  # 5.333… MiB
    state = [ml.guess("", "MiB", value).reveal(formula=right).state for value in (5.33, 5.3, 5.5, 5)]
    assert state == ["good", "good", "bad", "bad"]


def test_no_mistake_is_made_up() -> None:
    """Would catch a number that fits nothing and is given a name all the same."""
    asked = ml.guess("", "MiB", 5.2).reveal(formula=ml.volume.ring_all_reduce(D, 4))
    assert asked.comment == "Close: 0.867 times the right number." and asked.state == "bad"
    rounds = ml.guess("", "rounds", 12).reveal(formula=ml.volume.rounds.ring_all_reduce(D, 4))
    assert "mistake" not in rounds.comment


def test_formula_counted_and_wire_stand_side_by_side(ring: Run) -> None:
    """Would catch a measured number that is the formula's, or bytes where MiB were asked for."""
    shown = ml.guess("How much?", "MiB", 3).reveal(ring, formula=ml.volume.ring_all_reduce(D, 4))
    assert [(row.name, set(row.values)) for row in shown.rows] == [
        ("formula", {6}),
        ("counted", {6}),
        ("wire", {6}),
    ]
    html = shown._repr_html_()
    assert all(word in html for word in ("your guess", "3 MiB", "formula", "counted", "wire", "one half"))


def test_a_share_of_the_whole(ring: Run) -> None:
    """Would catch a share that is compared with bytes."""
    shown = ml.guess("Which share of D?", "of D", 1.5).reveal(
        ring, formula=ml.volume.ring_all_reduce(D, 4), whole=D
    )
    assert shown.state == "good" and set(shown.rows[1].values) == {1.5}


@pytest.mark.parametrize("value", [..., None])
def test_without_a_guess_the_rest_is_shown(value: object, ring: Run) -> None:
    """Would catch a bulk run that stops because nobody guessed."""
    shown = ml.guess("How much?", "MiB", value).reveal(ring, formula=ml.volume.ring_all_reduce(D, 4))
    assert shown.state == "open" and shown.comment == "" and "no guess" in repr(shown)


def test_an_answer_may_come_later() -> None:
    """Would catch a first answer that sticks."""
    asked = ml.guess("How much?", "MiB")
    assert asked.value is None and asked.answer(3).answer(6).value == 6


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("six", "'six'"),
        ("6 MiB", "'6 MiB'"),
        ([6, 7], "[6, 7]"),
        (float("nan"), "nan"),
        (torch.ones(9), "a Tensor|tensor"),
    ],
)
def test_what_is_no_number_is_said_in_the_box(given: object, shown: str) -> None:
    """Would catch a traceback for a text, or a text that is taken for a number."""
    asked = ml.guess("How much?", "MiB", given)
    assert asked.value is None and "is not one number: write it bare" in repr(asked)
    assert re.search(shown.replace("[", r"\["), asked._repr_html_().replace("&#x27;", "'"))
    assert asked.reveal(6).state == "open" and "no guess" in repr(asked.reveal(6))
    assert asked.answer(6).value == 6 and "bare" not in repr(asked)


def test_a_time_has_no_formula() -> None:
    """Would catch a guess about a ratio of times, whose right answer is a measurement."""
    shown = ml.guess("How many times longer?", "times", 1024).reveal(20.4)
    assert shown.state == "bad" and shown.comment == "50.2 times the right number."


@pytest.mark.parametrize("told", [True, False])
def test_beside_a_time_a_guess_is_neither_right_nor_wrong(told: bool) -> None:
    """Would catch red or green for a guess of a number that every run times anew."""
    seconds = Measured(20.4, unit="s", provenance="timed")
    for guess in (1024, 20.4):
        asked = ml.guess("How many times longer?", "times", guess)
        shown = asked.reveal(20.4, timed=True) if told else asked.reveal(seconds)
        assert shown.state == "open" and "times what was timed" in shown.comment
        assert shown.rows[0].name == "timed" and "Right" not in repr(shown)
    assert ml.guess("", "s", 6).reveal(seconds, formula=6, timed=told).state == "good", "a formula judges"
