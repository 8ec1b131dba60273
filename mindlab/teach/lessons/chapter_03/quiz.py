"""The quiz of chapter 03. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import memory, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_SHAPE = (1, 8192, 8192)
"""Batch, sequence, hidden of a large layer; elements of two bytes."""
_HEADS, _RANKS = 64, 8


def _between(ranks: int) -> Quantity:
    """The bytes of a rank's shard of the residual."""
    return memory.activations_full(*_SHAPE) / ranks


def _over_tensor_parallel(pairs: int) -> float:
    """The bytes of a sequence-parallel layer as a multiple of a tensor-parallel one's."""
    tokens = _SHAPE[0] * _SHAPE[1]
    own = volume.sequence_parallel(*_SHAPE, _RANKS, itemsize=2, pairs=pairs)
    return float(own / volume.tensor_parallel(tokens, _SHAPE[2], _RANKS, itemsize=2))


def _with_gloo() -> float:
    tokens = _SHAPE[0] * _SHAPE[1]
    gloo = volume.gloo_sequence_parallel(*_SHAPE, _RANKS, itemsize=2)
    return float(gloo / volume.gloo_tensor_parallel(tokens, _SHAPE[2], _RANKS, itemsize=2))


def _kept(*, split: bool = True, sequence_parallel: bool = False) -> Quantity:
    """What a layer keeps on a rank for a backward pass, the softmax computed again."""
    return memory.activations_selective(
        *_SHAPE, _HEADS, _RANKS if split else 1, sequence_parallel=sequence_parallel
    )


def _numbers(count: int) -> int:
    """Bytes that one rank sends for so many float32 of each of 8192 tokens, to 7 others."""
    return (_RANKS - 1) * 8192 * count * 4


QUIZ = Quiz(
    name="03",
    title="Chapter 03: sequence parallel",
    questions=(
        Question(
            "Eight cards, tensor parallel. Now sequence parallel is switched on, with a ring's "
            "ReduceScatter. How many times the bytes does a card send in a layer?",
            answer=lambda: _over_tensor_parallel(2),
            read="4, The bytes of the all-reduce",
            choices=(
                Choice(2.0, "Two calls for one, but each is half of an AllReduce."),
                Choice(lambda: _over_tensor_parallel(2), "An AllReduce is a ReduceScatter and an AllGather."),
                Choice(lambda: _with_gloo(), "That is gloo's ReduceScatter, which is an AllReduce inside."),
                Choice(lambda: 1 / _RANKS, "The shards are that small, but each of them goes to everybody."),
            ),
        ),
        Question(
            "A residual of 8192 tokens and 8192 features in 16 bit, on 8 cards. How much of it lies on "
            "one card between attention and MLP, under sequence parallel?",
            answer=lambda: _between(_RANKS),
            read="4, Bytes alive while it runs",
            choices=(
                Choice(lambda: _between(1), "That is under tensor parallel alone: whole on every card."),
                Choice(lambda: _between(_RANKS), "Each card has its tokens, and no others."),
                Choice(lambda: _between(_RANKS) * 2, "Two bytes an element are already in it."),
            ),
        ),
        Question(
            "What does a layer keep for a backward pass on each of 8 cards under tensor parallel alone, "
            "as a share of one card's? (Korthikanti et al., the softmax computed again.)",
            answer=lambda: round(float(_kept() / _kept(split=False)), 3),
            read="4, Bytes kept for a backward pass",
            choices=(
                Choice(
                    lambda: 1 / _RANKS,
                    "That is with sequence parallel. Norms and residuals are not cut without it.",
                ),
                Choice(
                    lambda: round(float(_kept() / _kept(split=False)), 3),
                    "Of 34 bytes an element 24 are cut by 8, and 10 are not cut at all.",
                ),
                Choice(1.0, "What lies inside attention and MLP is cut."),
            ),
        ),
        Question(
            "LayerNorm of 8192 tokens whose features lie on 8 cards. For each token a card tells every other "
            "one its mean and its sum of squares, in float32. How much does it send?",
            unit="B",
            answer=lambda: _numbers(2),
            read="3, What a rank must tell",
            choices=(
                Choice(lambda: 0, "Then each card norms its slice, which is another function."),
                Choice(
                    lambda: _numbers(1), "The mean alone says nothing of how far the features lie from it."
                ),
                Choice(
                    lambda: _numbers(2),
                    "A mean and a sum of squares about it for each token, to seven others.",
                ),
                Choice(lambda: _numbers(1024), "That is every feature of the slice."),
            ),
        ),
        Question(
            "Each card computes E[x²] - E[x]² from summed float32. When does that fail?",
            read="5, One pass",
            choices=(
                Choice("With many cards.", "The number of terms is that of one card.", holds=False),
                Choice(
                    "When the mean is large beside the spread.",
                    "Two large numbers are subtracted, and the digits of the variance are gone.",
                    holds=True,
                ),
                Choice("When the slices differ in length.", "Sums do not ask for lengths.", holds=False),
            ),
        ),
        Question(
            "Inference, 80 layers. Sequence parallel saves how many layers' activations at one time?",
            read="8, Where the memory matters",
            choices=(
                Choice(
                    "80",
                    "That is training: every layer keeps its activations for the backward pass.",
                    holds=False,
                ),
                Choice(
                    "1",
                    "Only the layer that is running holds any. The gain is smaller than in training.",
                    holds=True,
                ),
                Choice("0", "Norms and residuals of the layer that is running are still cut.", holds=False),
            ),
        ),
    ),
)
