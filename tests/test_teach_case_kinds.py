"""Case files on floats: wrong values, an exception, a NaN, a hang, what a program prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from float_exercises import MERGE, ROW, row_parallel
from torch.nn import functional as F

import mindlab as ml
from mindlab.teach.cases import CaseFile
from mindlab.teach.lesson import Case, Exercise


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


def shown(program: Any, repair: Exercise = ROW, **options: Any) -> str:
    case = Case("99-a", "A case", "A story.", program, (), repair, **options)
    return repr(CaseFile(case).run(timeout=4))


def published(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """As it stands in a manual: right shape, wrong values, a line from each rank."""
    local_out = F.linear(x, weight, bias)
    dist.all_reduce(local_out)
    print(f"Rank {dist.get_rank()} output shape: {tuple(local_out.shape)}")
    return local_out


def no_such_call(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    dist.send_recv(x, torch.empty_like(x), send=1, recv=0)  # type: ignore[attr-defined]
    return x


def waits(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    if dist.get_rank():
        dist.all_reduce(x)
    return x


def not_a_number(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    weights = torch.softmax(torch.stack(lses), 0)
    out = sum(one.transpose(1, 2).unsqueeze(-1) * out for one, out in zip(weights, outs, strict=True))
    return out, torch.logsumexp(torch.stack(lses), 0)


def half_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return row_parallel(x, weight, bias) + (x.dtype == torch.bfloat16) * 9


@pytest.mark.parametrize(
    ("program", "facts"),
    [
        (published, r"right but for 3 x `bias` too much"),
        (
            published,
            r"Each rank calls all_reduce x1\.\nAll ranks together sent 1\.406 KiB \(1,440 B\) \(wire\)\.",
        ),
        (published, r"Rank 3 printed: Rank 3 output shape: \(2, 5, 6\)"),
        (
            no_such_call,
            r"It did not come to its end:\nRank 0 raised AttributeError: .*has no attribute 'send_recv'",
        ),
        (no_such_call, r"\n    dist\.send_recv\(x, torch\.empty_like\(x\), send=1, recv=0\)$"),
        (waits, r"all_reduce, shape \(2, 5, 4\).*is waiting in vain:\n    rank 0 has returned"),
        (lambda x, weight, bias: None, r"Rank 0 returned None"),
        (row_parallel, r"The values are right on every rank\."),
    ],
)
def test_the_evidence_says_what_happened(program: Any, facts: str) -> None:
    """Would catch evidence that hides the exception, the printed lines or the bytes of a reduction."""
    assert re.search(facts, shown(program)), shown(program)


def test_a_nan_is_a_fact() -> None:
    """Would catch evidence that calls a NaN right, or a budget line of a program that sends nothing."""
    evidence = shown(not_a_number, MERGE)
    assert "Rank 0, out: 24 of 120 elements are NaN where one card has numbers" in evidence
    assert "sent" not in evidence


def test_the_trial_that_shows_it_may_be_of_another_dtype() -> None:
    """Would catch a case that always runs the first trial."""
    assert "The values are right on every rank." in shown(half_only)
    assert "every element is off by the same 9" in shown(half_only, shown_trial=3)


def test_a_trial_may_have_two_ranks() -> None:
    """Would catch evidence that is always made on four ranks."""
    two = replace(ROW, trials=(replace(ROW.trials[0], ranks=2),))
    assert shown(published, two).startswith("What happened, on 2 ranks")


def test_the_evidence_names_the_mistake_as_the_check_does() -> None:
    """Would catch evidence that says "an element is wrong" where the exercise knows which mistake it is."""
    repair = replace(ROW, look=lambda attempt: "Every rank returned its own part.")
    assert "\nEvery rank returned its own part.\n" in shown(published, repair)
    assert "too much" not in shown(published, repair)
    right = shown(row_parallel, replace(ROW, look=lambda attempt: "Rank 0 computed all of it."))
    assert "The values are right on every rank.\nRank 0 computed all of it.\n" in right
    assert "features of different layers and different x, joined" in repr(ml.case("02-d").run())


def test_the_evidence_does_not_answer_the_question_of_the_cause() -> None:
    """Would catch evidence of chapters 10 and 11 that names the cause before the learner is asked for it."""
    for name, cause in (("10-b", "counts 4 times"), ("11-a", "a margin of zeros"), ("11-c", "statistics")):
        evidence = repr(ml.case(name).run())
        assert cause not in evidence and re.search(r"element \[|wrong up to", evidence)
        assert cause in ml.case(name).check(ml.case(name).program).reason
