"""The quiz of chapter 10. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import flops, memory, volume
from mindlab.predict.caches import held, one_piece
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_LENGTH = 32768


def _sent(ranks: int = 8) -> Quantity:
    """Bytes that a card sends for one token and layer, 32 heads of 128, bfloat16."""
    return volume.decode_attention(1, 32, 128, ranks, itemsize=2)


def _read(ranks: int, layers: int = 32) -> Quantity:
    """Bytes of cache that a card reads for one token, 8 key-value heads of 128, bfloat16."""
    return memory.kv_cache_shard(1, _LENGTH, 8, 128, ranks, itemsize=2, layers=layers)


def _by_heads(ranks: int) -> float:
    """Times one card's cache that a rank holds if the cache of 2 key-value heads is cut by heads."""
    whole = memory.kv_cache(1, _LENGTH, 2, 128, itemsize=2)
    return float(memory.kv_cache(1, _LENGTH, 2, 128, itemsize=2, ranks=ranks) / whole)


QUIZ = Quiz(
    name="10",
    title="Chapter 10: decode",
    questions=(
        Question(
            "32 layers, 8 key-value heads of 128, bfloat16, 32,768 tokens in the cache, sharded by position "
            "over 8 cards. How much of it does a card read for one new token?",
            answer=lambda: _read(8),
            read="4, Bytes read",
            choices=(
                Choice(_read(1), "That is one card without the others."),
                Choice(_read(8, layers=1), "That is one layer. Each layer has its own cache."),
                Choice(_read(8), "An eighth of the cache, all layers."),
                Choice(_read(8) * 4, "As if there were 32 key-value heads."),
            ),
        ),
        Question(
            "One layer of a model with 32 query heads of 128, bfloat16, on 8 cards, one request; each row is "
            "merged on one card. How much does a card send for one token?",
            answer=_sent,
            read="4, Bytes sent",
            choices=(
                Choice(
                    volume.decode_attention_gathered(1, 32, 128, 8, itemsize=2),
                    "That is what it sends if every card merges all rows.",
                ),
                Choice(_sent(), "7/8 of 32 rows, 128 numbers there and back and the LSE."),
                Choice(_sent() / 2, "There and back."),
                Choice(0, "The shards must be merged."),
            ),
        ),
        Question(
            "The cache grows from 32,768 to 65,536 tokens. How many times as many bytes does a card send for "
            "a token?",
            answer=lambda: float(_sent() / _sent()),
            read="4, Bytes sent",
            choices=(
                Choice(1.0, "The length is not in the formula: results travel, not keys."),
                Choice(2.0, "That is what it reads."),
                Choice(4.0, "Work and bytes of one query grow with the length, not with its square."),
            ),
        ),
        Question(
            "A model with 2 key-value heads on 8 cards. The cache is cut by heads. Which share of it does a "
            "card hold?",
            answer=lambda: _by_heads(8),
            read="4, By heads or by position",
            choices=(
                Choice(1 / 8, "Cut by position it would be that."),
                Choice(_by_heads(8), "One head of two; four cards hold the same one."),
                Choice(1.0, "With one key-value head it would be that."),
            ),
        ),
        Question(
            "A cache with room for 80 tokens on 4 ranks, each with one piece of positions. After 20 tokens, "
            "how many does the busiest rank hold?",
            answer=lambda: max(held(20, 4, one_piece(80, 4))),
            read="3, Dealt in turn",
            choices=(
                Choice(max(held(20, 4, one_piece(80, 4))), "The first piece is full, the others are empty."),
                Choice(max(held(20, 4)), "That is dealt in turn."),
                Choice(80, "That is the room of all."),
            ),
        ),
        Question(
            "One query, 32 heads, 8 key-value heads, bfloat16, a very long cache. How many operations does "
            "attention do for each byte that it reads?",
            answer=lambda: round(float(flops.attention_intensity(1, 10**7, 32, 8, itemsize=2))),
            read="4, Prefill against decode",
            choices=(
                Choice(1, "As with a key-value head for each query head."),
                Choice(
                    round(float(flops.attention_intensity(1, 10**7, 32, 8, itemsize=2))),
                    "2 H / (K e). A card could do some hundreds in this time.",
                ),
                Choice(
                    round(float(flops.attention_intensity(4096, 4096, 32, 8, itemsize=2))),
                    "That is a prefill of 4,096 tokens.",
                ),
            ),
        ),
        Question(
            "The new token's key and value are on all 4 ranks. What is wrong?",
            read="7, Case b: the newest token",
            choices=(
                Choice(
                    "Nothing but memory: copies are alike.",
                    "A softmax counts copies; two equal keys have twice the weight of one.",
                    holds=False,
                ),
                Choice(
                    "Its weight in the softmax is too large.",
                    "The merge counts it once a rank.",
                    holds=lambda: len({held(5, 4), held(8, 4)}) == 2,
                ),
                Choice("The ranks' results differ.", "They agree, on a wrong result.", holds=False),
            ),
        ),
    ),
)
