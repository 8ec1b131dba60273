"""The quiz of chapter 05. Every number in it is computed."""

from __future__ import annotations

from mindlab.planning import moves, topologies
from mindlab.planning.timeline import simulate
from mindlab.predict import volume
from mindlab.predict.heads import heads_per_rank
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_S, _H, _D = 32_768, 32, 128


def _ulysses(ranks: int, kv_heads: int = _H, sequence: int = _S) -> Quantity:
    return volume.ulysses_attention(1, sequence, _H, kv_heads, _D, ranks, itemsize=2)


def _ring(ranks: int, kv_heads: int) -> Quantity:
    return volume.ring_attention(1, _S, kv_heads, _D, ranks, itemsize=2)


def _refused(heads: int, kv_heads: int, ranks: int) -> bool:
    try:
        heads_per_rank(heads, kv_heads, ranks)
    except ValueError:
        return True
    return False


def _ratio(ranks: int, kv_heads: int) -> float:
    return float(_ring(ranks, kv_heads) / _ulysses(ranks, kv_heads))


def _seconds_of_ring(kv_heads: int) -> float:
    """Seconds for p-1 transfers of keys and values round eight cards of one host, by the model."""
    block = 2 * _S // 8 * kv_heads * _D * 2
    return float(simulate(moves.ring_all_gather([block] * 8), topologies.topology("atlas-a2")).seconds)


def _seconds_of_ulysses(kv_heads: int) -> float:
    """Seconds for the four all-to-alls on the same cards, each pair at once."""
    pair = _S // 8 * _D * 2 // 8
    heads = [_H, max(kv_heads, 8), max(kv_heads, 8), _H]
    times = [
        simulate(moves.all_at_once([[count * pair] * 8] * 8), topologies.topology("atlas-a2")).seconds
        for count in heads
    ]
    return sum(float(one) for one in times)


QUIZ = Quiz(
    name="05",
    title="Chapter 05: Ulysses",
    questions=(
        Question(
            "A model has 40 query heads and 8 key-value heads. On how many cards does Ulysses refuse it?",
            read="3, Heads that do not divide",
            choices=(
                Choice(
                    "5",
                    "5 divides the 40 query heads, but 8 key-value heads are neither a multiple nor a "
                    "divisor of 5.",
                    holds=lambda: _refused(40, 8, 5),
                ),
                Choice(
                    "8",
                    "Five query heads and one key-value head a card.",
                    holds=lambda: _refused(40, 8, 8),
                ),
                Choice(
                    "40",
                    "One query head a card; each key-value head lies on five cards.",
                    holds=lambda: _refused(40, 8, 40),
                ),
            ),
        ),
        Question(
            "32,768 positions, 32 heads of 128 (as many of keys and values), bfloat16, 8 cards. How much "
            "does one card send in one Ulysses attention?",
            answer=lambda: _ulysses(8),
            read="4, Four exchanges",
            choices=(
                Choice(_ulysses(8) / 4, "That is one exchange of the four."),
                Choice(_ulysses(8) * 8, "That is what all eight cards send together."),
                Choice(_ulysses(8), "$\\frac{p-1}{p}$ of four shards: queries, keys, values, result."),
                Choice(_ulysses(8) * 8 / 7, "As if a card's own heads travelled too."),
            ),
        ),
        Question(
            "16 cards instead of 8, and twice the sequence. A card now sends how many times as much?",
            answer=lambda: float(_ulysses(16, sequence=2 * _S) / _ulysses(8)),
            read="4, More ranks and a longer sequence",
            choices=(
                Choice(2.0, "The sequence is twice as long, but the shard of one card is not."),
                Choice(0.5, "That is what more cards alone would do, about."),
                Choice(1.0, "Nearly. The share that leaves, (p-1)/p, still grows a little."),
                Choice(
                    float(_ulysses(16, sequence=2 * _S) / _ulysses(8)),
                    "The shard is as large as before; 15/16 of it leave in place of 7/8.",
                ),
            ),
        ),
        Question(
            "32 query heads, 8 key-value heads. On how many cards does the ring send less than Ulysses?",
            read="4, Few key-value heads",
            choices=(
                Choice("4", "p K/(H+K) is 0.8.", holds=lambda: _ratio(4, 8) < 1),
                Choice("8", "p K/(H+K) is 1.6.", holds=lambda: _ratio(8, 8) < 1),
                Choice("16", "With K smaller than p: p K/(H+p) is 2.7.", holds=lambda: _ratio(16, 8) < 1),
            ),
        ),
        Question(
            "8 cards. Model A has 8 key-value heads, model B has 2; all else is equal. B sends how many "
            "times what A sends, with Ulysses?",
            answer=lambda: float(_ulysses(8, 2) / _ulysses(8, 8)),
            read="4, Few key-value heads",
            choices=(
                Choice(0.25, "So it is with the ring, where the keys themselves travel."),
                Choice(
                    float(_ulysses(8, 2) / _ulysses(8, 8)),
                    "Each card needs one whole key head in both cases; whether others need the same one does "
                    "not matter.",
                ),
                Choice(4.0, "The copies are no more than one head a card."),
            ),
        ),
        Question(
            "A test sends a random tensor to the heads and back, and gets it back bit by bit. What does it "
            "prove?",
            read="7, Case b: there and back",
            choices=(
                Choice(
                    "Both exchanges are right.",
                    "Two exchanges with the same mistake undo each other.",
                    holds=False,
                ),
                Choice(
                    "The second exchange undoes the first.",
                    "What stands between the two, where attention works, is not looked at.",
                    holds=True,
                ),
                Choice(
                    "Attention will be right on a batch of one.",
                    "Case b is wrong for a batch of one, too.",
                    holds=False,
                ),
            ),
        ),
        Question(
            "32 query heads, 1 key-value head, 8 cards with a link between each two. The ring sends a fifth "
            "of Ulysses' bytes. Which finishes its messages sooner, by the model, if nothing hides them?",
            read="8, One host",
            choices=(
                Choice(
                    "The ring: it has fewer bytes.",
                    "It has, and sends them all over one of seven links.",
                    holds=lambda: _seconds_of_ring(1) < _seconds_of_ulysses(1),
                ),
                Choice(
                    "Ulysses: it uses seven links at a time.",
                    "Each link carries a seventh; the ring's whole share goes over one.",
                    holds=lambda: _seconds_of_ulysses(1) < _seconds_of_ring(1),
                ),
            ),
        ),
    ),
)
