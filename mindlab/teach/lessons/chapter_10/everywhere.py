"""Case 10-b: the new token on every rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.decode import decode_attention
from mindlab.teach import likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_10 import given, newest

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]


def decode_newest(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """The newest token's attention over all and itself; this rank's keys."""
    k = torch.cat([k_shard, k_new], 1)
    v = torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k, v), k


def stored_once(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """The newest token's attention over all and itself; this rank's keys."""
    if length % dist.get_world_size() == dist.get_rank():
        k_shard = torch.cat([k_shard, k_new], 1)
        v_shard = torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k_shard, v_shard), k_shard


def none_or_one(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Right: every rank appends, the others nothing."""
    mine = int((length - dist.get_rank()) % dist.get_world_size() == 0)
    k = torch.cat([k_shard, k_new[:, :mine]], 1)
    return decode_attention(q, k, torch.cat([v_shard, v_new[:, :mine]], 1)), k


def by_its_share(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Right: a rank's share of length + 1 tokens says whether it gets one more."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if len(range(rank, length + 1, p)) > k_shard.shape[1]:
        k_shard, v_shard = torch.cat([k_shard, k_new], 1), torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k_shard, v_shard), k_shard


def stored_nowhere(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: the newest token does not see itself."""
    return decode_attention(q, k_shard, v_shard), k_shard


def always_on_the_first(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: right attention, but rank 0 takes all new tokens."""
    if not dist.get_rank():
        k_shard, v_shard = torch.cat([k_shard, k_new], 1), torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k_shard, v_shard), k_shard


def one_too_late(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: the position is counted from 1, so the next rank stores it."""
    return stored_once(q, k_new, v_new, k_shard, v_shard, length + 1)


def by_its_own_length(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: every rank asks its own shard whose turn it is."""
    return stored_once(q, k_new, v_new, k_shard, v_shard, k_shard.shape[1])


def attended_but_not_stored(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: right attention, and the token is forgotten afterwards."""
    return stored_once(q, k_new, v_new, k_shard, v_shard, length)[0], k_shard


def divided_by_p(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Pair:
    """Wrong: on every rank, with the values divided by p to make up for it; the weights stay too large."""
    return decode_newest(q, k_new, v_new / dist.get_world_size(), k_shard, v_shard, length)


Given = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int]


def _one_card(all_given: list[Given]) -> list[Pair]:
    q, k_new, v_new, *_, length = all_given[0]
    k = torch.cat([*(one[3] for one in all_given), k_new], 1)
    v = torch.cat([*(one[4] for one in all_given), v_new], 1)
    whole, own = given.exact(q, k, v), [one[3] for one in all_given]
    holder = length % len(own)
    own[holder] = torch.cat([own[holder], k_new], 1)
    return [(whole, keys) for keys in own]


def _mistakes(all_given: list[Given], rank: int) -> dict[str, Tensor]:
    q, k_new, v_new, *_ = all_given[0]
    k, v = torch.cat([one[3] for one in all_given], 1), torch.cat([one[4] for one in all_given], 1)
    times = len(all_given)
    many = given.exact(q, torch.cat([k, *[k_new] * times], 1), torch.cat([v, *[v_new] * times], 1))
    without = given.exact(q, k, v) if k.shape[1] else torch.zeros_like(q)
    return {
        f"the attention in which the newest token counts {times} times": many,
        "the attention without the newest token": without,
    }


REPAIR = Exercise(
    name="10-b",
    title="The newest token",
    statement="""
The newest token's attention over all `length` tokens before it and itself, on every rank; and this rank's
keys from now on. `q`, `k_new` and `v_new` are the same on every rank. Position i lies on rank i mod p, so the
new token, at position `length`, belongs to one rank.
""",
    inputs=newest.arguments,
    reference=_one_card,
    results=("out", "keys"),
    budget=Budget(sent=Bound(OfTrial(given.scattered), allowed=OfTrial(given.gathered))),
    calls=("all_reduce", "all_gather", "all_to_all"),
    whole=given.result,
    grain=lambda trial: 0,
    look=likely.named(_mistakes),
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"length": 13}),
        Trial(3, sizes={"length": 13}),
        Trial(4, sizes={"length": 12}),
        Trial(4, sizes={"length": 2}),
    ),
    hints=(
        "The query is replicated, and so are the new key and value. How often does the softmax over all "
        "shards count them?",
        "Deal 13 tokens to 4 ranks in turn. Which rank's turn is the fourteenth?",
        """
    if ...:                              # is position `length` mine?
        k_shard = torch.cat([k_shard, k_new], 1)
        v_shard = ...
    return decode_attention(q, k_shard, v_shard), k_shard
""",
    ),
    solution=stored_once,
    explanation="""
Each shard is attended to as if its tokens were nowhere else. A token on p ranks counts p times: its weight is
p times too large before the division. It also takes p places, so that the cache does not shrink with p as it
was meant to.

Which rank stores it changes no value. If it is always the same one, that rank reads more and more.
""",
    right=(none_or_one, by_its_share),
    wrong=(
        Wrong(decode_newest, r"the attention in which the newest token counts 4 times"),
        Wrong(stored_nowhere, r"the attention without the newest token"),
        Wrong(always_on_the_first, r"keys"),
        Wrong(one_too_late, r"keys"),
        Wrong(by_its_own_length, r"Rank 0"),
        Wrong(attended_but_not_stored, r"keys"),
        Wrong(divided_by_p, r"Rank 0, out: element"),
    ),
)

CASE = Case(
    name="10-b",
    title="The newest token",
    story="""
A prompt's keys and values were dealt to the cards; then the program goes on as it did on one card. With one
card the text is as before. On several it begins well, and some texts are right to their end. Others leave
their thread.
""",
    program=decode_newest,
    causes=(
        Choice(
            "The newest token is in every rank's shard, so the softmax over all shards counts it p times.",
            "The merge adds up what the shards hold. It cannot know that one token is in all of them.",
            holds=True,
        ),
        Choice(
            "The merge gives the ranks different results.",
            "They are the same to the last bit; each row is merged on one rank.",
            holds=False,
        ),
        Choice(
            "The query may not be replicated: each rank would need its own.",
            "Every key must meet the query, so every rank needs it.",
            holds=False,
        ),
        Choice(
            "`torch.cat` puts the new key behind the old ones, which is not its position in a dealt cache.",
            "The order of keys in a shard changes nothing.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    look=likely.unnamed,
    source="servers write with a mask, position mod p == rank: sgl-project/sglang pull request 25090 (2026), "
    "vllm-project/vllm pull request 23734 (2025); whether copies of new tokens exist is asked in pull "
    "request 28718 (2025) of the latter; the program is ours",
)
