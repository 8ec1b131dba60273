"""Case 04-b: a merge that gives 0 where it should give the larger part."""

from __future__ import annotations

from dataclasses import replace

import torch

from mindlab.teach.lesson import Case, Choice, Trial, Wrong
from mindlab.teach.lessons.chapter_04 import merge

Tensor = torch.Tensor


def merge_far_apart(outs: list[Tensor], lses: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The attention over all parts' keys, and its LSE."""
    out, lse = outs[0].float(), lses[0]
    for part, part_lse in zip(outs[1:], lses[1:], strict=True):
        new = torch.logaddexp(lse, part_lse)
        seen = new.masked_fill(new == -torch.inf, 0.0)  # else -inf - -inf, which is NaN
        keep = torch.exp(lse - seen).transpose(1, 2).unsqueeze(-1)
        add = torch.exp(part_lse - seen).transpose(1, 2).unsqueeze(-1)
        out, lse = keep * out + add * part.float(), new
    return out.to(outs[0].dtype), lse


_MERGE = merge.EXERCISE

REPAIR = replace(
    _MERGE,
    name="04-b",
    title="Nothing, in silence",
    statement="The attention over all parts' keys and its LSE, also where the LSE of two parts lie far "
    "apart.",
    trials=(
        _MERGE.trials[0],
        Trial(3, sizes={"parts": 2, "queries": 5, "gap": 120, "empty": 0}),
        *_MERGE.trials[2:],
    ),
    hints=(
        "Put numbers into the line that makes the new LSE. What is exp(120) in float32?",
        "Draw the curve of log(1 + exp(x)) for large x: it is nearly x itself. Nothing about the result is "
        "large, only a number on the way. By which number could all exponents be made smaller?",
        """
        new = ...                       # the same logarithm of a sum, measured from the larger of the two
        keep = ...                      # as before; but two parts of -inf must not give NaN
        add = ...
""",
    ),
    solution=merge_far_apart,
    right=(_MERGE.solution, *_MERGE.right),
    explanation="""
Where the second LSE is larger by more than 88.7, `exp` of the difference is infinite in float32. Then the
new LSE is infinite too, both weights are exp(-inf), which is 0, and the result is 0: no NaN, no error. The
other way round, where the first is larger, exp gives 0 and all is well: so it depends on the order of the
parts.

`torch.logaddexp`, or the largest LSE taken out first, never overflows. The running sum has to be float32,
too.
""",
    wrong=(
        Wrong(merge.published, r"Rank 0, out: its result is all zeros.*gap 0, empty 0 it was right"),
        *(one for one in _MERGE.wrong if one.answer is not merge.published),
    ),
)

CASE = Case(
    name="04-b",
    title="Nothing, in silence",
    story="""
A well-known notebook on ring attention builds up the merge of two parts step by step, and compares with one
card after each step. Its last cell holds the short form below. It was taken over into a model, where it was
right for a long time. Then some positions of some heads came out as exactly 0, in long texts only.
""",
    program=merge.published,
    causes=(
        Choice(
            "A part in which a query saw no key is counted with weight 1.",
            "No query of this trial lacks a key. And an empty part would not make everything 0.",
            holds=False,
        ),
        Choice(
            "The exponential of the difference overflows when the second LSE is larger by more than 88.",
            "Then the new LSE is infinite and both weights are 0. The other order of the parts is harmless, "
            "so it comes and goes.",
            holds=True,
        ),
        Choice(
            "The parts are rounded to half precision, and small ones vanish.",
            "All tensors here are float32. And it is not the small part that vanishes, it is both.",
            holds=False,
        ),
        Choice(
            "The weights do not add up to 1, because 1 is added under the logarithm.",
            "They do: exp(lse - new) + exp(part_lse - new) is 1 for this new, as long as it is finite.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="gpu-mode/ring-attention (28a95e4), howto_log_sum_exp.ipynb, last cell; rewritten",
)
