"""Exercises on several float tensors: right answers pass, each typical mistake has its own sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from float_exercises import HEADS, MERGE, ROW, RULE, merge, row_parallel, sequence_to_heads, zigzag_step
from torch.nn import functional as F

import mindlab as ml
from mindlab.predict.volume import ring_all_reduce
from mindlab.teach.exercises import Task
from mindlab.teach.grade import Grade, grade
from mindlab.teach.lesson import Bound, Budget, Exercise, Tolerance, Trial


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


def spent(found: Grade) -> dict[str, Any]:
    return {row.what: row.yours for row in found.spent}


@pytest.mark.parametrize("exercise", [ROW, MERGE, HEADS, RULE], ids=lambda one: one.title)
@pytest.mark.parametrize("seed", [0, 7])
def test_right_answers_pass(exercise: Exercise, seed: int) -> None:
    """Would catch a comparison that refuses rounding, -inf, bfloat16, or lengths that p does not divide."""
    found = grade(exercise, exercise.solution, seed=seed)
    assert found.passed, found.reason
    assert all(row.within for row in found.spent)


def test_what_was_spent_is_what_the_run_shows() -> None:
    """Would catch bytes of a reduction shown as 0, since its arguments do not say them."""
    found = grade(ROW, row_parallel)
    assert spent(found)["sent_wire"] == ring_all_reduce(2 * 5 * 6 * 4, 4).value * 4
    assert spent(found)["all_reduce"] == 1
    assert "by all ranks together (wire)" in repr(found) and "calls of all_reduce" in repr(found)
    assert "4 ranks, sequence 5, hidden 16, bfloat16" in repr(found)


def test_without_a_wire_a_reduction_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an answer that passes or fails by a number that nobody measured."""
    monkeypatch.setattr("mindlab.trace.run.Run.wire_sent", None)
    found = grade(replace(ROW, trials=ROW.trials[:1]), row_parallel)
    (row,) = (row for row in found.spent if row.what == "sent_wire")
    assert found.passed and row.yours is None and not row.best
    assert re.search(r"\(wire\).*not checked", repr(found))


def forgets_the_sum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(torch.zeros(1))
    return F.linear(x, weight, bias if dist.get_rank() == 0 else None)


def bias_everywhere(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = F.linear(x, weight, bias)
    dist.all_reduce(out)
    return out


def no_bias(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out


def mean_for_sum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return row_parallel(x, weight, bias) / dist.get_world_size()


def adds_its_rank(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return row_parallel(x, weight, bias) + 0.5 * dist.get_rank()


def sums_twice(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = F.linear(x, weight, bias if dist.get_rank() == 0 else None)
    dist.all_reduce(out)
    dist.all_reduce(out)
    return out


def two_calls(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = F.linear(x, weight).contiguous()
    for half in out:
        dist.all_reduce(half)
    return out + bias


def gathers_all(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = F.linear(x, weight)
    parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, out)
    return torch.stack(parts).sum(0) + bias


def features_reversed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return row_parallel(x, weight, bias).flip(-1)


def half_nan(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = row_parallel(x, weight, bias)
    out[0] = math.nan
    return out


def a_tenth_off(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = row_parallel(x, weight, bias)
    out[1, 2, 3] += 0.1 if out.dtype == torch.float32 else 9
    return out


def in_single_only(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = row_parallel(x, weight, bias)
    out[0, 0, 0] += 9 * (x.dtype == torch.bfloat16)
    return out


def sees_its_part(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = row_parallel(x, weight, bias)
    return out[:, :, : x.shape[-1]]


def all_agree(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.relu(row_parallel(x, weight, bias))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (forgets_the_sum, r"Rank 0: missing in its result: the parts of ranks 1, 2 and 3\. No rank is right"),
        (bias_everywhere, r"Rank 0: right but for 3 x `bias` too much\. All ranks"),
        (no_bias, r"Rank 0: right but for 1 x `bias` too little"),
        (mean_for_sum, r"every element is 0\.25 times the right one \(1/p with 4 ranks\)"),
        (adds_its_rank, r"Rank 1: every element is off by the same 0\.5\. Rank 0 is right"),
        (sums_twice, r"in its result, the part of rank 0 was added 4 times\. All ranks returned the same"),
        (two_calls, r"Rank 0 called all_reduce 2 times; the budget is 1"),
        (gathers_all, r"Rank 0 sent 720 B, 2 times the allowed 360 B"),
        (features_reversed, r"another order: along dimension 2 \(features\), where 0 belongs there is 5"),
        (half_nan, r"Rank 0: 30 of 60 elements are NaN where one card has numbers"),
        (a_tenth_off, r"Rank 0: element \[1, 2, 3\] is .* belongs; 1 of 60 elements are wrong"),
        (
            in_single_only,
            r"element \[0, 0, 0\].*Allowed: 0\.1 \+ 0\.03125 x .*8 bits.*With 4 ranks, sequence 5",
        ),
        (sees_its_part, r"returned a tensor of shape \(2, 5, 4\), and \(2, 5, 6\) is wanted"),
        (all_agree, r"All ranks returned the same, and it is not what one card has"),
        (lambda x, weight, bias: torch.zeros(2, 5, 6), r"Nothing was sent"),
        (lambda *parts: torch.zeros_like(row_parallel(*parts)), r"Rank 0: its result is all zeros"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_sum_has_its_own_sentence(answer: Any, says: str) -> None:
    """Would catch a finding that is blind to a mistake, or that says another one."""
    found = grade(ROW, answer)
    assert found.passed is False
    assert re.search(says, found.sentence), found.sentence


def adds_up(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    return sum(outs), merge(outs, lses)[1]


def base_two(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    out, lse = merge(outs, lses)
    return out, lse / math.log(2)


def log_of_parts(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    out, lse = merge(outs, lses)
    return out, lse + math.log(len(outs))


def minus_infinity_less_itself(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    lse = torch.logsumexp(torch.stack(lses), 0)
    weights = [torch.exp(one - lse).transpose(1, 2).unsqueeze(-1) for one in lses]
    return sum(weight * out for weight, out in zip(weights, outs, strict=True)), lse


def without_the_largest(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    out, _ = merge(outs, lses)
    return out, torch.stack(lses).exp().sum(0).log()


def asks_the_others(outs: list[torch.Tensor], lses: list[torch.Tensor]) -> Any:
    dist.barrier()
    return merge(outs, lses)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (adds_up, r"Rank 0, out: element"),
        (base_two, r"Rank 0, lse: every element is 1\.4427 times the right one"),
        (log_of_parts, r"Rank 0, lse: every element is off by the same 0\.6931"),
        (minus_infinity_less_itself, r"Rank 0, out: 24 of 120 elements are NaN where one card has numbers"),
        (without_the_largest, r"Rank 0, lse: element \[0, 0, 1\] is inf where"),
        (asks_the_others, r"It calls barrier\. In this exercise no rank needs another one"),
        (
            lambda outs, lses: merge(outs, lses)[0],
            r"Rank 0 returned a Tensor where 2 results are wanted: out, lse",
        ),
        (lambda outs, lses: (*merge(outs, lses), 1), r"returned a tuple of 3 where 2 results"),
        (lambda outs, lses: (merge(outs, lses)[0], 1.5), r"Rank 0, lse returned a float where a tensor"),
        (lambda outs, lses: None, r"Rank 0 returned None"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_two_results_are_told_apart(answer: Any, says: str) -> None:
    """Would catch a comparison of the first result only, -inf taken for wrong, NaN taken for right."""
    found = grade(MERGE, answer)
    assert found.passed is False
    assert re.search(says, found.sentence), found.sentence


def heads_turned(x: torch.Tensor) -> torch.Tensor:
    return sequence_to_heads(x).roll(1, dims=2)


def neighbours_heads(x: torch.Tensor) -> torch.Tensor:
    return sequence_to_heads(x.roll(x.shape[2] // dist.get_world_size(), dims=2))


def viewed(x: torch.Tensor) -> torch.Tensor:
    out = sequence_to_heads(x)
    return out.transpose(1, 3).reshape(out.shape)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            heads_turned,
            r"Rank 0: the right values in another order: along dimension 2 \(heads\), where 0 belongs ",
        ),
        (neighbours_heads, r"Rank 0 returned what belongs on rank 3"),
        (viewed, r"Rank 0: the right values, all of them, in another order"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_heads_in_the_wrong_place(answer: Any, says: str) -> None:
    """Would catch a permutation that is told as so many wrong numbers."""
    found = grade(HEADS, answer)
    assert found.passed is False
    assert re.search(says, found.sentence), found.sentence


def test_other_data_must_be_equal() -> None:
    """Would catch a rule whose answer is a text and that nobody compares."""
    found = grade(RULE, lambda rank, ranks, step: "causal" if not step else "first keys")
    assert "Rank 0 returned 'first keys' where 'last queries' is wanted" in found.sentence
    assert "With 4 ranks, step 0 it was right" in found.sentence
    assert grade(RULE, zigzag_step).passed


def test_a_tolerance_is_the_exercises_own() -> None:
    """Would catch a tolerance that is ignored, or one of bfloat16 that is used for float32."""
    loose = replace(ROW, tolerance={"float32": Tolerance(0.2, 0, "for the test")}, trials=ROW.trials[:1])
    assert grade(loose, a_tenth_off).passed
    assert not grade(ROW, a_tenth_off).passed


def test_the_task_says_what_it_allows() -> None:
    """Would catch a budget that a learner cannot see before trying."""
    assert "calls of all_reduce, of one rank at most: 1" in repr(Task(ROW))
    assert "may call: all_reduce, all_gather" in repr(Task(ROW))
    assert repr(Task(MERGE)).endswith("needs no other rank")


def test_a_wrong_amount_of_a_reduction_is_seen_on_the_wire() -> None:
    """Would catch a sum of everything where a sum of a part was asked for: no counted byte tells."""
    half = Budget(sent=Bound(lambda nbytes, ranks: ring_all_reduce(nbytes // 2, ranks)))
    found = grade(replace(ROW, budget=half), row_parallel)
    assert re.search(r"All ranks together sent 1\.406 KiB, 2 times the allowed 720 B", found.sentence), found


def test_sizes_are_asked_for_by_name() -> None:
    """Would catch a misspelt size that leaves a writer without a clue."""
    with pytest.raises(KeyError, match="'heads' is none of the trial's sizes: sequence, hidden"):
        ROW.trials[0]["heads"]
    assert hash(Trial(4, sizes={"heads": 2})) == hash(Trial(4))
