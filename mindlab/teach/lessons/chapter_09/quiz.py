"""The quiz of chapter 09. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import volume
from mindlab.predict.meshes import axis_groups, hybrid_splits
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_S, _H, _D = 32_768, 32, 128


def _sent(ulysses: int, ring: int, kv_heads: int = _H, axis: str | None = None) -> Quantity:
    return volume.hybrid_attention(1, _S, _H, kv_heads, _D, ring=ring, ulysses=ulysses, itemsize=2, axis=axis)


def _least(ranks: int, kv_heads: int) -> int:
    """The Ulysses axis that sends least."""
    found = [one["ulysses"] for one in hybrid_splits(ranks, _H, kv_heads)]
    return min(found, key=lambda one: float(_sent(one, ranks // one, kv_heads)))


def _fits(ranks: int, heads: int, ulysses: int) -> bool:
    return any(one["ulysses"] == ulysses for one in hybrid_splits(ranks, heads))


QUIZ = Quiz(
    name="09",
    title="Chapter 09: hybrid context parallel",
    questions=(
        Question(
            "Twelve cards, 8 heads (as many of keys and values). Which Ulysses axis fits?",
            read="3, Six cards, eight heads",
            choices=(
                Choice("4", "4 divides the cards and the heads; the ring has 3.", holds=_fits(12, 8, 4)),
                Choice("6", "6 divides the cards, but not the heads.", holds=_fits(12, 8, 6)),
                Choice("8", "8 divides the heads, but not the cards.", holds=_fits(12, 8, 8)),
                Choice("3", "3 divides the cards, but not the heads.", holds=_fits(12, 8, 3)),
            ),
        ),
        Question(
            'A mesh {"ring": 2, "ulysses": 4}. Which ranks are in rank 5\'s ring group?',
            answer=lambda: next(g for g in axis_groups({"ring": 2, "ulysses": 4})["ring"] if 5 in g),
            read="3, Ranks on a mesh",
            choices=(
                Choice((1, 5), "The ring is outside: its ranks are four apart."),
                Choice((4, 5), "So it would be with the ring inside."),
                Choice((4, 5, 6, 7), "That is its Ulysses group: neighbours."),
            ),
        ),
        Question(
            "32,768 positions, 32 heads of 128 (as many of keys and values), bfloat16, Ulysses 4 x ring 2. "
            "How much does one card send on the ring axis?",
            answer=lambda: _sent(4, 2, axis="ring"),
            read="4, Two axes, two formulas",
            choices=(
                Choice(
                    _sent(4, 2, axis="ring"),
                    "Half of the keys and values of the whole sequence, for a quarter of the heads.",
                ),
                Choice(
                    volume.ring_attention(1, _S, _H, _D, 2, itemsize=2),
                    "As a ring of two with all heads. Each column carries its own heads only.",
                ),
                Choice(
                    volume.ring_attention(1, _S, _H, _D, 8, itemsize=2) / 4,
                    "A ring has as many places as its axis, 2, not 8.",
                ),
                Choice(_sent(4, 2, axis="ulysses"), "That is the Ulysses axis."),
            ),
        ),
        Question(
            "8 cards, 32 heads, 2 key-value heads. Which Ulysses axis sends least?",
            answer=lambda: _least(8, 2),
            read="4, Four ranks and eight, every split",
            choices=tuple(
                Choice(ulysses, why)
                for ulysses, why in (
                    (1, "The ring alone carries few bytes, for there are few key heads."),
                    (2, "Each column has one key head; but queries and results travel for it."),
                    (4, "Key heads are copied from here on, and queries travel, too."),
                    (8, "All queries and results travel, and each key head goes to four ranks."),
                )
            ),
        ),
        Question(
            "Under a causal mask, Ulysses 4 x ring 2. Into how many chunks does zigzag cut the sequence, "
            "before a part is shared out?",
            read="3, Ranks on a mesh",
            choices=(
                Choice("4", "Two chunks for each place on the ring.", holds=True),
                Choice("16", "So it would be for a ring of 8.", holds=False),
                Choice("8", "That is by Ulysses; within a part all have the same work.", holds=False),
            ),
        ),
        Question(
            "CFG 2, ring 2 and Ulysses 4 on orthogonal axes, and the MLP tensor-parallel over the 8 cards of "
            "each branch. How many cards?",
            answer=lambda: 2 * 2 * 4,
            read="4, The same ranks for two purposes",
            choices=(
                Choice(16, "The axes multiply; the MLP uses each branch's 8 cards once more, afterwards."),
                Choice(128, "The MLP's 8 are no axis of their own."),
                Choice(8, "The branches are computed at the same time: two times 8."),
            ),
        ),
        Question(
            "Hybrid attention without a mask is right on every rank. Which of these would "
            "the test have seen?",
            read="7, Case a: right until somebody needs a mask",
            choices=(
                Choice(
                    "The axes of the mesh stand in the wrong order.",
                    "Without a mask the order of keys does not matter.",
                    holds=False,
                ),
                Choice(
                    "Each rank sees its row and its column only.",
                    "The missing keys change every result.",
                    holds=True,
                ),
                Choice(
                    "A zigzag layout on plain shards.",
                    "The layout decides what the mask hides; with no mask it decides nothing.",
                    holds=False,
                ),
            ),
        ),
    ),
)
