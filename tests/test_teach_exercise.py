"""What a learner meets when an answer is checked: blank, broken, stuck, wrong, right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.errors import UnknownName
from mindlab.teach.verdict import MIME


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDLAB_PROGRESS", "off")
    for name in ("MINDLAB_STRICT", "MINDLAB_SEED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


def hand_on(x: torch.Tensor) -> torch.Tensor:
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    return arriving


def stub(x: torch.Tensor) -> Any:
    """Not begun."""
    return ...  # your code


def half_a_stub(x: torch.Tensor) -> Any:
    rank = dist.get_rank()
    dist.send(x, rank + ...)  # type: ignore[operator]
    return x


def open_end(x: torch.Tensor) -> None:
    x.zero_()
    ...  # noqa: PIE790 - your code


@pytest.mark.parametrize("answer", [..., stub, half_a_stub, open_end])
def test_what_is_not_written_yet_is_not_wrong(answer: Any) -> None:
    """Would catch a stub that shows red, or an error in a notebook that somebody only runs through."""
    found = ml.exercise("00.1").check(answer)
    assert found.verdict == "not answered yet" and found.passed is None and not found


def test_the_learners_own_line_is_shown() -> None:
    """Would catch a refusal that shows frames of ours, or none."""

    def trips(x: torch.Tensor) -> torch.Tensor:
        return x[len(x)]  # the learner's line

    found = ml.exercise("00.1").check(trips)
    assert found.passed is False and "raised IndexError" in found.sentence
    assert "return x[len(x)]" in found.detail and "mindlab" not in found.detail


def test_a_stuck_answer_ends() -> None:
    """Would catch a check that waits for ever where no deadlock can be proven."""

    def sleeps(x: torch.Tensor) -> torch.Tensor:
        import time

        if dist.get_rank() == 2:
            time.sleep(60)
        return hand_on(x)

    found = ml.exercise("00.1").check(sleeps, timeout=2)
    assert found.passed is False and found.sentence.startswith("Not done after 2 s")
    assert "rank 3 waits" in found.detail


def test_a_deadlock_shows_who_waits_and_gives_no_advice() -> None:
    """Would catch a refusal that tells the repair with the finding."""

    def all_receive(x: torch.Tensor) -> torch.Tensor:
        dist.recv(x, (dist.get_rank() - 1) % dist.get_world_size())
        return x

    found = ml.exercise("00.1").check(all_receive)
    assert "wait for each other" in found.sentence and "rank 0 waits in recv from rank 3" in found.detail
    assert "isend" not in found.reason and "first" not in found.reason


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (torch.ones(2), "no function"),
        (lambda x, y: x, "does not take what the exercise hands it"),
        (lambda x: x, "Nothing was sent"),
        (lambda x: (hand_on(x), 1)[0].tolist(), "returned a list where a tensor is wanted"),
        (lambda x: hand_on(x).double(), "returned float64, and float32 is wanted"),
    ],
)
def test_misfits_are_named(answer: Any, said: str) -> None:
    """Would catch a refusal that leaves a learner without a clue of what was handed over."""
    found = ml.exercise("00.1").check(answer)
    assert found.passed is False and said in found.sentence


def test_a_way_around_the_record_is_seen_on_the_wire() -> None:
    """Would catch an answer that moves its bytes where nobody counts."""

    def sneaks(x: torch.Tensor) -> torch.Tensor:
        from torch.distributed import distributed_c10d as c10d

        own = hand_on(x)
        group = c10d._get_default_group()
        group.allreduce([x.clone()]).wait()
        return own

    found = ml.exercise("00.1").check(sneaks)
    assert found.passed is False and "went over the wire" in found.sentence


def test_a_wrong_answer_raises_only_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a learner's Run All that stops, and a solutions edition that goes on."""
    wrong = lambda x: x  # noqa: E731
    assert ml.exercise("00.1").check(wrong).passed is False
    with ml.expect_error(ml.CheckFailed, match="Nothing was sent"):
        ml.exercise("00.1").check(wrong)
    monkeypatch.setenv("MINDLAB_STRICT", "1")
    with pytest.raises(ml.CheckFailed, match=r"Exercise 00\.1: Hand it on: Nothing was sent"):
        ml.exercise("00.1").check(wrong)
    assert ml.exercise("00.1").check(...).verdict == "not answered yet"


def test_the_row_says_what_was_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a grade that nobody can trace to an answer."""
    monkeypatch.setenv("MINDLAB_SEED", "7")
    found = ml.exercise("00.1").check(hand_on)
    row = found._repr_mimebundle_()[MIME]
    assert (row["exercise"], row["passed"], row["verdict"]) == ("00.1", True, "passed")
    graded = row["graded"]
    assert graded["seed"] == 7 and graded["backend"] == "gloo" and len(graded["code"]) == 12
    assert [trial["ranks"] for trial in graded["trials"]] == [4, 4, 3]
    assert {one["what"]: one["yours"] for one in row["budget"]} == {
        "sent": 67_200,
        "rounds": 1,
        "memory": 67_200,
    }
    other = ml.exercise("00.1").check(lambda x: hand_on(x))
    assert other.graded and other.graded["code"] != graded["code"]


def test_an_unknown_name_lists_the_known() -> None:
    """Would catch a misspelt exercise that leaves nobody a hint."""
    with pytest.raises(UnknownName, match=r"00\.1, 00\.2, 01\.1"):
        ml.exercise("01.9")


def test_a_partner_that_does_not_exist() -> None:
    """Would catch a message to rank 3 of 3, for which gloo waits for ever."""

    def past_the_end() -> None:
        dist.isend(torch.ones(3), dist.get_rank() + 1).wait()  # type: ignore[union-attr]

    with pytest.raises(ml.MindlabError, match=r"isend with rank 3 .*there is no such rank here.* 0 to 2"):
        ml.launch(past_the_end, ranks=3, timeout=20)


def test_a_budget_that_differs_by_rank_is_that_of_the_busiest() -> None:
    """Would catch the formula of the mean told as what one rank may send: rank 0 of a tree sends 2 D."""
    assert "at most: 131.2 KiB of a tensor of 65.62 KiB, with 4 ranks" in repr(ml.exercise("01.2"))
    assert r"at most: $\frac{p-1}{p}\,D$" in repr(ml.exercise("01.1"))


def test_a_forgotten_wait_is_told_with_the_wrong_numbers() -> None:
    """Would catch odd numbers without the reason, which the run knows."""

    def my_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
        rank, p = dist.get_rank(), dist.get_world_size()
        chunks = list(x.tensor_split(p))
        arriving = torch.full_like(chunks[rank], -1.0)
        dist.isend(chunks[(rank + 1) % p].clone(), (rank + 1) % p)
        dist.irecv(torch.empty_like(chunks[rank]), (rank - 1) % p)
        return arriving

    grade = ml.exercise("01.1").check(my_reduce_scatter)
    assert not grade.passed and ("nobody waited" in grade.sentence or "never" in grade.sentence), (
        grade.sentence
    )
