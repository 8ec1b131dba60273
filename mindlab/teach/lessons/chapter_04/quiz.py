"""The quiz of chapter 04. Every number in it is computed."""

from __future__ import annotations

import math

import torch

from mindlab.parallel.ring import merge_lse
from mindlab.predict import flops, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_FAST = {"itemsize": 2, "flop_rate": 159e12, "bandwidth": 28e9}
"""bfloat16; what one Ascend 910B was seen to reach, and one HCCS link of it (see ml.topology("atlas-a2"))."""


def _sent(ranks: int) -> Quantity:
    """32k tokens, 8 key-value heads of 128, bfloat16, batch 1: 128 MiB of keys and values."""
    return volume.ring_attention(1, 32768, 8, 128, ranks, itemsize=2)


def _merged(*parts: tuple[float, float]) -> float:
    """The merged output of parts (output, LSE) of one query."""
    outs = [torch.full((1, 1, 1, 1), out) for out, _ in parts]
    lses = [torch.full((1, 1, 1), lse) for _, lse in parts]
    return round(float(merge_lse(outs, lses)[0]), 3)


def _hidden(heads: int, kv_heads: int, *, causal: bool = False) -> Quantity:
    return flops.hiding_length(heads, kv_heads, causal=causal, **_FAST)  # type: ignore[arg-type]


def _even(layout: str) -> float:
    return round(float(flops.balance(32768, 8, layout=layout)), 2)


QUIZ = Quiz(
    name="04",
    title="Chapter 04: ring attention",
    questions=(
        Question(
            "Keys and values of a sequence take 128 MiB in all. Ring attention on 8 cards: how much does one "
            "card receive?",
            answer=lambda: _sent(8),
            read="4, Formula against bytes",
            choices=(
                Choice(_sent(8), "$\\frac{p-1}{p}$ of all keys and values: everything but its own part."),
                Choice(
                    8 * _sent(8) / 7, "That is all of them. Its own part is there already: $p-1$ transfers."
                ),
                Choice(_sent(8) / 7, "That is one transfer, and there are $p-1$."),
                Choice(8 * _sent(8), "That is what all eight cards receive together."),
            ),
        ),
        Question(
            "The same sequence on 64 cards. How much does one card receive now?",
            answer=lambda: _sent(64),
            read="4, More cards, hardly more bytes",
            choices=(
                Choice(
                    _sent(64), "Flat in p: it never reaches 128 MiB. The transfers are more, and smaller."
                ),
                Choice(8 * _sent(8), "Eight times as many transfers, but each block is an eighth."),
                Choice(_sent(64) / 63, "One block is that small, and 63 of them arrive."),
            ),
        ),
        Question(
            "One query, two parts: output 1 with LSE 3, output 5 with LSE 3 + ln 3. What is the merged one?",
            answer=lambda: _merged((1.0, 3.0), (5.0, 3.0 + math.log(3))),
            read="1, The attention over parts of the keys",
            choices=(
                Choice(_merged((1.0, 3.0), (5.0, 3.0)), "The mean, as if both sums were equal."),
                Choice(
                    _merged((1.0, 3.0), (5.0, 3.0 + math.log(3))),
                    "The second part's sum is three times the first one's: weights 1/4 and 3/4.",
                ),
                Choice(6.0, "The sum of two averages lies outside of both: no average does."),
            ),
        ),
        Question(
            "A query sees no key of a block. Which LSE must come with its output, so that a merge is right?",
            read="5, An empty block with LSE 0",
            choices=(
                Choice(
                    "0",
                    "$e^0$ is 1: the empty block would count like one key of score 0.",
                    holds=lambda: _merged((0.0, 0.0), (4.0, 0.0)) == 4.0,
                ),
                Choice(
                    "minus infinity",
                    "The logarithm of an empty sum: its weight is 0.",
                    holds=lambda: _merged((0.0, -math.inf), (4.0, 0.0)) == 4.0,
                ),
                Choice(
                    "any, since the output is 0",
                    "The output is 0, but its weight makes the other parts smaller.",
                    holds=lambda: _merged((0.0, 5.0), (4.0, 0.0)) == 4.0,
                ),
            ),
        ),
        Question(
            "A card does 159 TFLOP/s and sends 28 GB/s; bfloat16, 32 heads, 32 key-value heads. From which "
            "shard length on does the transfer hide behind the work?",
            answer=lambda: _hidden(32, 32),
            unit="tokens",
            read="8, From which length on",
            choices=(
                Choice(
                    _hidden(32, 32),
                    "$c \\ge \\frac{e}{2}\\frac{K}{H}\\frac{F}{B}$, with e = 2 and K = H: F/B.",
                ),
                Choice(
                    _hidden(32, 8),
                    "That is with 8 key-value heads: a quarter of the bytes for the same work.",
                ),
                Choice(
                    math.ceil(_hidden(32, 32).value / 128),
                    "The head dimension (128, say) does not come into it.",
                ),
            ),
        ),
        Question(
            "A causal mask, 8 cards, each with neighbouring tokens. How many times the mean is the work of "
            "the busiest?",
            answer=lambda: _even("contiguous"),
            read="4, Who computes how much",
            choices=(
                Choice(_even("zigzag"), "That is zigzag: a chunk from the beginning, one from the end."),
                Choice(
                    _even("contiguous"), "$\\frac{2p-1}{p}$ nearly: the last card's tokens see all others."
                ),
                Choice(
                    8.0, "The first card has little to do, but the others share it more evenly than that."
                ),
            ),
        ),
        Question(
            "Ring attention is tested with V = 1 everywhere, and all results are 1. What does that show?",
            read="5, The sum of the softmaxes",
            choices=(
                Choice(
                    "That it is right: every weight was counted.",
                    "Any weights that add up to 1 give 1, also those of the mean.",
                    holds=False,
                ),
                Choice(
                    "That weights add up to 1; not that they are the right ones.",
                    "A merge that counts all parts alike passes such a test.",
                    holds=True,
                ),
                Choice("Nothing at all.", "A plain sum of p parts would give p.", holds=False),
            ),
        ),
    ),
)
