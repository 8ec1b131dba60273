"""The quiz of chapter 02. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import flops, volume, weights
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_TOKENS, _HIDDEN, _RANKS = 4096, 4096, 8
_BF16 = 2


def _layer(tokens: int = _TOKENS, hidden: int = _HIDDEN, ranks: int = _RANKS, sums: int = 2) -> Quantity:
    return volume.tensor_parallel(tokens, hidden, ranks, itemsize=_BF16, all_reduces=sums)


def _kv_share(ranks: int) -> Quantity:
    """Bytes of an attention layer's weights on each rank, with 8 key-value heads."""
    return weights.attention_weights(4096, 32, ranks, itemsize=_BF16, kv_heads=8, bias=False)


def _work_a_byte(hidden: int, ranks: int) -> float:
    work = float(flops.mlp(_TOKENS, hidden, 4 * hidden)) / ranks
    return work / float(_layer(hidden=hidden, ranks=ranks, sums=1))


QUIZ = Quiz(
    name="02",
    title="Chapter 02: tensor parallel",
    questions=(
        Question(
            "A transformer layer on eight cards: 4096 tokens, hidden size 4096, bfloat16, an all-reduce "
            "after attention and one after the MLP. How much does one card send?",
            answer=_layer,
            read="4, Bytes of a layer",
            choices=(
                Choice(_layer(), "Two all-reduces of 32 MiB, each $2\\frac{p-1}{p}$ of it."),
                Choice(_layer() / 2, "That is one all-reduce; this layer has two."),
                Choice(_layer(hidden=4 * _HIDDEN), "The inner size, 4 x 4096, never leaves its card."),
                Choice(_layer() * 8, "That is what all eight cards send together."),
            ),
        ),
        Question(
            "The MLP's inner size is doubled. What happens to the bytes that a card sends?",
            read="4, What the bytes depend on",
            choices=(
                Choice(
                    "They double.",
                    "The inner features stay on their cards. The formula does not contain them.",
                    holds=False,
                ),
                Choice(
                    "Nothing.",
                    "What is summed has the shape (b, s, h).",
                    holds=True,
                ),
                Choice("They grow by a half.", "Neither layer's result has the inner size.", holds=False),
            ),
        ),
        Question(
            "Hidden size and inner size are doubled, everything else stays. How does the work per byte sent "
            "change, on one card, in the MLP?",
            answer=lambda: _work_a_byte(8192, 8) / _work_a_byte(4096, 8),
            unit="times as much",
            read="4, Work for each byte",
            choices=(
                Choice(2.0, "Work grows with h², bytes with h. So larger layers hide communication better."),
                Choice(1.0, "The bytes double, the work is four times as much."),
                Choice(4.0, "That is the work alone. The bytes double too."),
            ),
        ),
        Question(
            "W is cut by rows. Each rank has a tensor of the full output shape. What must be done?",
            read="3, By rows",
            choices=(
                Choice(
                    "Join them along the features.", "They are p terms of a sum, not pieces.", holds=False
                ),
                Choice("Add them up: an all-reduce.", "Each is a partial sum of every feature.", holds=True),
                Choice(
                    "Nothing: the shape is right.",
                    "The shape is, the values are not. A check of shapes is blind here.",
                    holds=False,
                ),
            ),
        ),
        Question(
            "Attention with 32 query heads and 8 key-value heads, hidden size 4096, bfloat16, no biases, on "
            "32 cards. How many bytes of its weights does one card hold?",
            answer=lambda: _kv_share(32),
            read="3, Key-value heads",
            choices=(
                Choice(_kv_share(32), "One query head, and one key-value head, whole: each lies on 4 cards."),
                Choice(
                    _kv_share(1) / 32,
                    "That would need a quarter of a key-value head on each card. A head is not cut.",
                ),
                Choice(_kv_share(8), "Query heads and the output are still cut, by 32 and not by 8."),
            ),
        ),
        Question(
            "A block's attention and MLP stand beside each other: x + attention(x) + mlp(x). How many bytes "
            "does it send, against one after the other?",
            answer=lambda: float(_layer(sums=1) / _layer()),
            unit="times as many",
            read="3, How many all-reduces a layer",
            choices=(
                Choice(0.5, "The partial sums of both are added first: one all-reduce."),
                Choice(1.0, "Two sums of the same shape can be one."),
                Choice(0.25, "One all-reduce of two is left, and it is as large as before."),
            ),
        ),
        Question(
            "May the cards of one tensor-parallel group lie in two hosts?",
            read="8, Two hosts",
            choices=(
                Choice(
                    "No: tensor parallel works within one host only.",
                    "Nothing in it knows where a host ends. The replay above crossed the border.",
                    holds=False,
                ),
                Choice(
                    "Yes, and what it costs is a matter of links, message size and algorithm.",
                    "Compute it for the machine at hand before you rule it out, or in.",
                    holds=True,
                ),
                Choice(
                    "Yes, at no cost: the bytes a card sends are the same.",
                    "The bytes are. The links that they take are not.",
                    holds=False,
                ),
            ),
        ),
    ),
)
