"""The quiz of chapter 06. Every number in it is computed."""

from __future__ import annotations

from mindlab.predict import volume
from mindlab.predict.placement import expert_capacity, holders
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz

_TOKENS, _HIDDEN = 1024, 4096


def _sent(top_k: int = 2, ranks: int = 8) -> Quantity:
    """Bytes of tokens that a card sends there, with 64 experts, in bfloat16."""
    return volume.expert_dispatch_expected(_TOKENS, _HIDDEN, 64, top_k, ranks, itemsize=2)


def _places(experts: int, top_k: int, places: int) -> float:
    return float(volume.expert_destinations(experts, places, top_k))


def _rows(route: list[list[list[int]]], experts: int, copies: dict[int, int] | None = None) -> int:
    """Vectors that travel to other ranks."""
    sent = volume.expert_dispatch(route, experts, 1, itemsize=1, copies=copies)
    return int(sum(sent.by_rank(len(route))))


QUIZ = Quiz(
    name="06",
    title="Chapter 06: expert parallel",
    questions=(
        Question(
            "64 experts, 2 for a token, 8 cards, 1,024 tokens a card, hidden size 4,096, bfloat16, an even "
            "router. How much does one card send on the way there?",
            answer=_sent,
            read="4, An even router",
            choices=(
                Choice(_sent(), "Two vectors a token, 7/8 of them to other cards."),
                Choice(_sent() / 2, "That is one vector a token. Each has two experts."),
                Choice(_sent() * 8 / 7, "As if no expert were on the token's own card."),
                Choice(_sent() * 2, "That is there and back."),
            ),
        ),
        Question(
            "The same model on 16 cards, as many tokens a card. How many times as much does a card send?",
            answer=lambda: float(_sent(ranks=16) / _sent()),
            read="4, An even router",
            choices=(
                Choice(float(_sent(ranks=16) / _sent()), "15/16 in place of 7/8; the vectors are as many."),
                Choice(2.0, "A card has no more tokens than before."),
                Choice(0.5, "A card has no fewer tokens than before."),
                Choice(1.0, "Nearly. The share that leaves still grows a little."),
            ),
        ),
        Question(
            "256 experts on 8 hosts, 8 for a token. A token goes once to a host: to how many, on average?",
            answer=lambda: round(_places(256, 8, 8), 2),
            read="4, Once per rank",
            choices=(
                Choice(round(_places(256, 8, 8), 2), "Some of its experts share a host."),
                Choice(8.0, "Only if no two of its experts share a host."),
                Choice(1.0, "Only if all of them do."),
                Choice(4.0, "That is a limit that some routers set. Without it there are more."),
            ),
        ),
        Question(
            "A rank has 100 tokens, 2 experts each of 8, capacity factor 1. 60 of them chose "
            "one expert. How many of these choices are dropped?",
            answer=lambda: 60 - expert_capacity(100, 8, 2, 1.0),
            read="4, A capacity",
            choices=(
                Choice(60 - expert_capacity(100, 8, 2, 1.0), "It takes 25, the mean."),
                Choice(0, "Factor 1 is room for the mean, not for all."),
                Choice(60 - expert_capacity(100, 8, 1, 1.0), "That forgets that a token has two choices."),
            ),
        ),
        Question(
            "6 experts on 4 ranks. Rank 0 has one token, for experts 0 and 1; the other ranks have none. How "
            "many vectors travel to other ranks?",
            answer=lambda: _rows([[[0, 1]], [], [], []], 6),
            read="3, Ranks without tokens, ranks without experts",
            choices=(
                Choice(_rows([[[0, 1]], [], [], []], 6), "Both experts are at home on rank 0."),
                Choice(1, "Then one of the two would have to be on another rank."),
                Choice(2, "Then each rank would have one expert of the first four."),
            ),
        ),
        Question(
            "Two cards hold the same tokens, for attention is cut over them. All cards are one group for the "
            "experts. What shows that something is wrong?",
            read="5, One group for all",
            choices=(
                Choice("The values.", "Each copy of a token gets its right result.", holds=False),
                Choice(
                    "The rows that the experts compute: twice as many as tokens times k.",
                    "Both cards send the same tokens.",
                    holds=lambda: (
                        _rows([[[2, 3]], [[2, 3]], [], []], 4) == 2 * _rows([[[2, 3]], [], [], []], 4)
                    ),
                ),
                Choice("An exception of the collective.", "All sizes fit.", holds=False),
            ),
        ),
        Question(
            "4 experts on 4 ranks, expert 0 gets a second copy. Where is it?",
            answer=lambda: holders(4, 4, {0: 2})[0][1],
            read="8, Four routes",
            choices=(
                Choice(holders(4, 4, {0: 2})[0][1], "All have one expert; the nearest on the right is next."),
                Choice(0, "That is its home: two copies on one rank would help nobody."),
                Choice(3, "It is as empty as the others, but further to the right."),
            ),
        ),
    ),
)
