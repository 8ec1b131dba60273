"""Case files: the broken program runs safely, a cause is named, the repair is judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import mindlab as ml
from mindlab.teach.hints import source_of
from mindlab.teach.journal import journal
from mindlab.teach.verdict import MIME


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDLAB_PROGRESS", "off")


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("01-a", ["values are right on every rank", "sent 196.9 KiB", "good program sends 98.44 KiB"]),
        ("01-b", ["missing in chunk 0", "sent 98.44 KiB", "good program sends 98.44 KiB"]),
        ("01-c", ["wait for each other", "rank 3 waits in send to rank 0"]),
        ("01-d", ["do not fit together", "rank 0 sends 16804 B, rank 1 has room for 16800 B"]),
    ],
)
def test_the_evidence_shows_the_symptom(name: str, facts: list[str]) -> None:
    """Would catch a program that is not broken here, or evidence that differs between two equal runs."""
    shown = [repr(ml.case(name).run()) for _ in range(2)]
    assert all(fact in shown[0] for fact in facts), shown[0]
    assert shown[0] == shown[1]


def test_every_wrong_rank_is_named() -> None:
    """Would catch ranks that are neither called right nor wrong: one has no tokens, three are wrong."""
    assert "Rank 1 is right. Ranks 2 and 3 are wrong too." in repr(ml.case("06-a").run())


@pytest.mark.parametrize(("name", "advice"), [("01-c", "isend"), ("01-d", "Give the receive")])
def test_the_evidence_gives_no_advice(name: str, advice: str) -> None:
    """Would catch the launch's own help in a place where the learner is to find the cause."""
    assert advice not in repr(ml.case(name).run()).replace("sending = dist.isend", "").replace("isend to", "")


def test_the_program_and_its_lines_are_shown() -> None:
    """Would catch evidence that points into a file that the learner never sees."""
    case = ml.case("01-c")
    assert "dist.send(travelling, (rank + 1) % p)" in repr(case) and "Source: " in repr(case)
    assert "dist.send(travelling, (rank + 1) % p)" in case.evidence.detail
    assert "endless.py" not in repr(case.evidence) and "torch.Tensor" not in repr(case)


def test_evidence_is_kept_and_holds_the_run() -> None:
    """Would catch a broken program that runs again at each look."""
    case = ml.case("01-a")
    assert case.evidence is case.evidence and case.evidence.run is not None
    assert case.evidence.run.sent.tolist() == [201_600] * 4
    assert ml.case("01-c").evidence.run is None


def test_one_cause_is_right_and_every_one_says_why() -> None:
    """Would catch a choice without a why, or two right ones."""
    for name in ("01-a", "01-b", "01-c", "01-d"):
        case = ml.case(name)
        said = {letter: case.cause(letter) for letter in "abcd"}
        assert [bool(one) for one in said.values()].count(True) == 1
        assert all(len(one.lines) == 2 and len(one.lines[1]) > 30 for one in said.values())
    assert journal().entry("cases", "01-c")["cause"] is False, "the last one named is kept"


def test_a_cause_not_chosen_yet() -> None:
    """Would catch an exercise edition that stops at a case."""
    case = ml.case("01-b")
    assert repr(case.cause()) == repr(case.cause(...)) and "a) " in repr(case.cause(...))
    with pytest.raises(ValueError, match="choose one of a, b, c, d"):
        case.cause("e")


def test_the_repair_is_judged_as_an_exercise_is() -> None:
    """Would catch a case that is closed by the broken program."""
    case = ml.case("01-b")
    assert case.check(...).verdict == "not answered yet"
    assert case.check(case.program).passed is False
    found = case.check(case.case.repair.solution)
    assert found.passed and found.claim == "Case 01-b repaired: Right bytes"
    assert found._repr_mimebundle_()[MIME]["exercise"] == "01-b"
    assert journal().entry("cases", "01-b")["state"] == "passed"


def test_hints_of_a_case() -> None:
    """Would catch a case that nobody helps with."""
    assert ml.hint("01-a", step=1).title == "Hint 1 of 3 to 01-a: the idea"
    with pytest.raises(ml.MindlabError, match="01-d"):
        ml.hint("01-z")


def spread_over_lines(
    weights: dict[str, list[torch.Tensor]],
    x: torch.Tensor,
    *,
    layers: int | None = None,
    how: str = "ring: on",
) -> tuple[torch.Tensor, ...]:  # as long as it is
    """One line."""
    known: dict[str, int] = {"rank: int": 1}
    rank: int

    def inner(
        one: torch.Tensor,
        other: torch.Tensor,
        yet_another: torch.Tensor,
    ) -> torch.Tensor:
        return one + other + yet_another

    rank = known["rank: int"]
    return inner(x, x, x), x[rank:layers]


def test_a_program_is_shown_without_annotations() -> None:
    """Would catch annotations in a head of several lines, or a cut in a text that looks like one."""
    assert source_of(spread_over_lines).splitlines() == [
        'def spread_over_lines(weights, x, *, layers=None, how="ring: on"):  # as long as it is',
        '    """One line."""',
        '    known = {"rank: int": 1}',
        "    rank: int",
        "",
        "    def inner(one, other, yet_another):",
        "        return one + other + yet_another",
        "",
        '    rank = known["rank: int"]',
        "    return inner(x, x, x), x[rank:layers]",
    ]
