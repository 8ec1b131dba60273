"""Case 02-c: a bias that is there p times, behind a zero."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.teach.lesson import Case, Choice, Trial, Wrong
from mindlab.teach.lessons.chapter_02 import rows_joined
from mindlab.teach.lessons.chapter_02.rows_joined import Tensors


def tested_row_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A row-parallel layer: this rank's linear layer, then the sum."""
    out = F.linear(x, weight, bias)
    dist.all_reduce(out)
    return out


def once(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A row-parallel layer: this rank's term, the sum, the bias."""
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out + bias


def a_share_each(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Right, but for one more rounding: each rank adds 1/p of the bias."""
    out = F.linear(x, weight, bias / dist.get_world_size())
    dist.all_reduce(out)
    return out


def taken_off_again(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: too much is taken off."""
    return tested_row_linear(x, weight, bias) - dist.get_world_size() * bias


def divided(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: everything is divided, not only the bias."""
    return tested_row_linear(x, weight, bias) / dist.get_world_size()


def all_but_rank_0(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: the bias is on every rank but the one that should have it."""
    out = F.linear(x, weight, None if dist.get_rank() == 0 else bias)
    dist.all_reduce(out)
    return out


def nobody(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Wrong: no bias at all."""
    out = F.linear(x, weight)
    dist.all_reduce(out)
    return out


def given(seed: int, rank: int, trial: Trial) -> Tensors:
    """As in case b; before training the bias is zero, as initialisation leaves it."""
    x, weight, bias = rows_joined.given(seed, rank, trial)
    return x, weight, bias * trial["trained"]


_SIZES = {"sequence": 5, "inputs": 18, "outputs": 6}

REPAIR = replace(
    rows_joined.REPAIR,
    name="02-c",
    title="Tested with a zero",
    statement="The whole output of a row-parallel layer, before training (the bias is 0) and after.",
    inputs=given,
    trials=(
        Trial(4, sizes={**_SIZES, "trained": 0}),
        Trial(4, sizes={**_SIZES, "trained": 1}),
        Trial(3, sizes={**_SIZES, "trained": 1}),
        Trial(4, sizes={**_SIZES, "trained": 1}, dtype="bfloat16"),
    ),
    hints=(
        "What differs between a layer that was just made and one that was trained?",
        "Write the sum over ranks down, with everything that is in a rank's term. What is in every term?",
        """
    out = ...                # without what is the same on all ranks
    dist.all_reduce(out)
    return ...               # with it
""",
    ),
    solution=once,
    explanation="""
The sum over ranks adds whatever is in each term. A bias in all p terms comes p times: $(p-1)\\,b$ too much.
While b is 0, nothing shows. So tests of a split layer need a bias that is not 0. The bias on one rank alone
is right too; a public report that calls it a bug is itself mistaken (nano-vllm #99).
""",
    right=(rows_joined.one_rank_has_the_bias, a_share_each),
    wrong=(
        Wrong(tested_row_linear, r"right but for 3 x `bias` too much"),
        Wrong(taken_off_again, r"right but for 1 x `bias` too little.* trained 0 it was right"),
        Wrong(divided, r"the mean of the partial sums"),
        Wrong(all_but_rank_0, r"right but for 2 x `bias` too much"),
        Wrong(nobody, r"right but for 1 x `bias` too little"),
    ),
)

CASE = Case(
    name="02-c",
    title="Tested with a zero",
    story="""
A row-parallel layer of a training framework. Its initialisation sets biases to zero, as many do. The test
builds a layer, runs it on 4 ranks and on one card, and both agree. Then a trained checkpoint is loaded, and
the model talks nonsense. On one card it does not.
""",
    program=tested_row_linear,
    causes=(
        Choice(
            "The checkpoint's weight is cut along the wrong dimension.",
            "The weight is cut as in the test, which passed. The excess does not depend on x at all.",
            holds=False,
        ),
        Choice(
            "Every rank adds the bias to its term, so the sum holds it p times.",
            "$(p-1)\\,b$ too much. With b = 0, before training, that is nothing, and the test is content.",
            holds=True,
        ),
        Choice(
            "The sum is rounded differently on 4 ranks, and training made it grow.",
            "Rounding moves the last digits. This is three whole biases.",
            holds=False,
        ),
        Choice(
            "The bias should be cut as the features are.",
            "In a column layer it is. Here every rank has all output features, and a bias for each.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="a mistake that tests of split layers miss; the opposite report, against a bias on one rank only, "
    "is nano-vllm #99",
)
