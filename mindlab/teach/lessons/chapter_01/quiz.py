"""The quiz of chapter 01. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_MIB = 2**20
_D = 100 * _MIB


def _sent(ranks: int) -> Quantity:
    return volume.ring_all_reduce(_D, ranks)


def _library_factor() -> float:
    halves = volume.gloo_reduce_scatter(_D, 4) + volume.gloo_all_gather(_D, 4)
    return float(halves / volume.gloo_all_reduce(_D, 4))


def _same_on(ranks: int) -> bool:
    return volume.ring_all_reduce(_D, ranks) == volume.unchunked_ring_all_reduce(_D, ranks)


QUIZ = Quiz(
    name="01",
    title="Chapter 01: collectives",
    questions=(
        Question(
            "Eight cards, a tensor of 100 MiB on each, a ring AllReduce. How much does one card send?",
            answer=lambda: _sent(8),
            read="4, A ring by hand",
            choices=(
                Choice(_sent(8), "$2\\frac{p-1}{p}D$: two halves, each of them $\\frac{p-1}{p}D$."),
                Choice(_sent(8) / 2, "One half only. The finished chunks must still reach everybody."),
                Choice(_sent(8) * 8, "That is what all eight cards send together."),
                Choice(_sent(8) * 2, "Sent and received, added: every byte is counted twice."),
            ),
        ),
        Question(
            "The same with 800 cards. About how much does one card send now?",
            answer=lambda: _sent(800),
            read="8, Ring, full mesh and tree",
            choices=(
                Choice(_sent(800), "The bytes of one card never reach 2 D, however many cards there are."),
                Choice(_sent(8) * 100, "The bytes of one card hardly grow with p. The rounds do."),
                Choice(_sent(800) / 800, "A chunk is that small, but 1598 of them leave."),
            ),
        ),
        Question(
            "Eight cards hold 4 MiB each, and each shall have all 32 MiB. What does one card send, in a "
            "ring?",
            answer=lambda: volume.ring_all_gather(32 * _MIB, 8),
            read="4, A ring by hand",
            choices=(
                Choice(
                    volume.ring_all_gather(4 * _MIB, 8), "D is the gathered tensor of 32 MiB, not one shard."
                ),
                Choice(
                    volume.ring_all_gather(32 * _MIB, 8), "$\\frac{p-1}{p}D$ with D = 32 MiB: seven shards."
                ),
                Choice(
                    volume.ring_all_reduce(32 * _MIB, 8), "Nothing has to be reduced: one half is enough."
                ),
            ),
        ),
        Question(
            "A new AllReduce gives the right sum on two ranks, and sends exactly D bytes from each. Is "
            "it a good ring?",
            read="4, Why two ranks prove nothing",
            choices=(
                Choice(
                    "Yes: 2(p-1)/p D is D.",
                    "So is (p-1) D, which is what a ring of whole tensors sends.",
                    holds=lambda: not _same_on(2),
                ),
                Choice(
                    "Nobody can tell from two ranks.",
                    "On two ranks the good and the wasteful ring send the same. On three they do not.",
                    holds=lambda: _same_on(2) and not _same_on(3),
                ),
                Choice(
                    "No: it sends too much.",
                    "On two ranks nothing less is possible.",
                    holds=lambda: _sent(2).value < _D,
                ),
            ),
        ),
        Question(
            "A framework replaces an AllReduce by a ReduceScatter and an AllGather of the library. What "
            "does gloo send?",
            read="4, A name is not an algorithm",
            choices=(
                Choice(
                    "The same: it is what the formula says.",
                    "The formula is a ring's. gloo runs a whole AllReduce inside its ReduceScatter.",
                    holds=lambda: _library_factor() == 1,
                ),
                Choice(
                    lambda: f"{_library_factor():g} times as much",
                    "A name is not an algorithm: the wire has to be asked.",
                    holds=lambda: _library_factor() > 1,
                ),
            ),
        ),
        Question(
            "All values are right, and all bytes are right. What is left to look at?",
            read="6, Exercises",
            choices=(
                Choice(
                    "Nothing.", "A star can have both, and still let one rank do all the work.", holds=False
                ),
                Choice(
                    "Who sends to whom, in how many rounds, and how much memory it takes.",
                    "These decide how long it takes on real links, and whether it fits.",
                    holds=True,
                ),
                Choice(
                    "The time on this laptop.",
                    "It says much about this laptop, little about cards.",
                    holds=False,
                ),
            ),
        ),
    ),
)
