"""Case 10-c: a position counted in the shard."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.models.latent import turned
from mindlab.parallel.decode import decode_attention, merge_gathered
from mindlab.teach import likely
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_10 import given, newest

Tensor = torch.Tensor
Given = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int]


def decode_rotated(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """The newest token's attention over all tokens and itself, on every rank."""
    position = torch.tensor(k_shard.shape[1])
    q, k_new = turned(q, position), turned(k_new, position)
    if length % dist.get_world_size() == dist.get_rank():
        k_shard = torch.cat([k_shard, k_new], 1)
        v_shard = torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k_shard, v_shard)


def behind_the_request(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """The newest token's attention over all tokens and itself, on every rank."""
    position = torch.tensor(length)
    q, k_new = turned(q, position), turned(k_new, position)
    if length % dist.get_world_size() == dist.get_rank():
        k_shard, v_shard = torch.cat([k_shard, k_new], 1), torch.cat([v_shard, v_new], 1)
    return decode_attention(q, k_shard, v_shard)


def at(place: int, turn_key: bool, *rest: Tensor, length: int) -> Tensor:
    """The attention with the query turned as at `place`, and the key too, or not."""
    q, k_new, v_new, k_shard, v_shard = rest
    position = torch.tensor(place)
    q, k_new = turned(q, position), turned(k_new, position) if turn_key else k_new
    mine = int(length % dist.get_world_size() == dist.get_rank())
    k = torch.cat([k_shard, k_new[:, :mine]], 1)
    return decode_attention(q, k, torch.cat([v_shard, v_new[:, :mine]], 1))


def in_one_line(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Right: nothing or one token appended."""
    return at(length, True, q, k_new, v_new, k_shard, v_shard, length=length)


def only_the_holder_turns(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Right: the key is turned where it is stored, the query everywhere."""
    if length % dist.get_world_size() == dist.get_rank():
        k_shard = torch.cat([k_shard, turned(k_new, torch.tensor(length))], 1)
        v_shard = torch.cat([v_shard, v_new], 1)
    return decode_attention(turned(q, torch.tensor(length)), k_shard, v_shard, merge=merge_gathered)


def one_further(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: positions are counted from 0, the newest is at `length`."""
    return at(length + 1, True, q, k_new, v_new, k_shard, v_shard, length=length)


def shard_times_p(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: right where the ranks divide the length, else another position on each rank."""
    place = k_shard.shape[1] * dist.get_world_size()
    return at(place, True, q, k_new, v_new, k_shard, v_shard, length=length)


def key_not_turned(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: the query has a position, the new key has none."""
    return at(length, False, q, k_new, v_new, k_shard, v_shard, length=length)


def nothing_turned(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: the newest token as if at position 0."""
    return at(0, True, q, k_new, v_new, k_shard, v_shard, length=length)


def turned_again(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: the cached keys, which have their positions, are turned once more."""
    places = torch.arange(length)[dist.get_rank() :: dist.get_world_size()]
    k_shard = turned(k_shard, places.view(1, -1, 1))
    return at(length, True, q, k_new, v_new, k_shard, v_shard, length=length)


def on_every_rank(
    q: Tensor, k_new: Tensor, v_new: Tensor, k_shard: Tensor, v_shard: Tensor, length: int
) -> Tensor:
    """Wrong: the right position, and the new token on every rank."""
    position = torch.tensor(length)
    k = torch.cat([k_shard, turned(k_new, position)], 1)
    return decode_attention(turned(q, position), k, torch.cat([v_shard, v_new], 1))


def _given(seed: int, rank: int, trial: Trial) -> Given:
    """As for the other case, with the cached keys turned by their positions."""
    q, k_new, v_new, k, v, length = newest.arguments(seed, rank, trial)
    places = torch.arange(trial["length"])[rank :: trial.ranks].view(1, -1, 1)
    return q, k_new, v_new, turned(k, places), v, length


def _whole(all_given: list[Given], place: int, times: int = 1) -> Tensor:
    q, k_new, v_new, *_ = all_given[0]
    position = torch.tensor(place)
    k = torch.cat([*(one[3] for one in all_given), *[turned(k_new, position)] * times], 1)
    v = torch.cat([*(one[4] for one in all_given), *[v_new] * times], 1)
    return given.exact(turned(q, position), k, v)


def _one_card(all_given: list[Given]) -> list[Tensor]:
    return [_whole(all_given, all_given[0][5])] * len(all_given)


def _mistakes(all_given: list[Given], rank: int) -> dict[str, Tensor]:
    length, ranks = all_given[0][5], len(all_given)
    return {
        f"the attention in which the newest token counts {ranks} times": _whole(all_given, length, ranks),
        "what is right for a token at position 0": _whole(all_given, 0),
        "what is right one position further": _whole(all_given, length + 1),
    }


REPAIR = Exercise(
    name="10-c",
    title="Behind the last key",
    statement="""
The newest token's attention over all `length` tokens before it and itself, on every rank. `turned(x,
position)` rotates queries and keys by their position (RoPE); the keys in `k_shard` have been turned by
theirs. Position i lies on rank i mod p.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(given.scattered), allowed=OfTrial(given.gathered))),
    calls=("all_reduce", "all_gather", "all_to_all"),
    whole=given.result,
    grain=lambda trial: 0,
    look=likely.named(_mistakes),
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"length": 0}),
        Trial(4, sizes={"length": 12}),
        Trial(4, sizes={"length": 14}),
        Trial(3, sizes={"length": 13}),
    ),
    hints=(
        "Print `position` on each rank, and `length`. Which position does the newest token have?",
        "13 tokens on 4 ranks: shards of 4, 3, 3, 3. The fourteenth token stands at 13, on every rank.",
        """
    position = ...                       # counted in the request, the same on every rank
    q, k_new = turned(q, position), turned(k_new, position)
    ...                                  # as before
""",
    ),
    solution=behind_the_request,
    explanation="""
On one card the length of the cache is the next position. A shard's length is about a p-th of it. Then the
query stands among keys that should all lie before it, with distances that are wrong, and where shards are
unequal each rank turns the query in another way.

For the first token after nothing both are 0, and with one rank both are the length: such tests pass. The same
holds for a causal mask: its bound is counted in the request, not in the shard.
""",
    right=(in_one_line, only_the_holder_turns),
    wrong=(
        Wrong(decode_rotated, r"length 0 it was right"),
        Wrong(one_further, r"what is right one position further"),
        Wrong(shard_times_p, r"length 0 it was right"),
        Wrong(key_not_turned, r"length 0 it was right"),
        Wrong(nothing_turned, r"what is right for a token at position 0"),
        Wrong(turned_again, r"length 0 it was right"),
        Wrong(on_every_rank, r"the attention in which the newest token counts 4 times"),
    ),
)

CASE = Case(
    name="10-c",
    title="Behind the last key",
    story="""
The program turns queries and keys as it did on one card, where it was right. With the cache on four cards
the first tokens of a text from nothing are right, and some short answers are, too. Others are not.
""",
    program=decode_rotated,
    causes=(
        Choice(
            "The new key is turned before it is stored, and should be turned when it is read.",
            "Either would do, if the position is right: the cached keys here were turned before, too.",
            holds=False,
        ),
        Choice(
            "Only one rank stores the new token, so the others do not see it.",
            "They need not: the merge brings its part to all.",
            holds=False,
        ),
        Choice(
            "RoPE's angles grow with the position until they lose their digits.",
            "At position 12 they have all of them.",
            holds=False,
        ),
        Choice(
            "The position is counted in the shard, not in the request.",
            "The shard has about a p-th of the tokens. The query is turned as if it stood in their midst.",
            holds=True,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="lightseekorg/tokenspeed pull request 364 (2026): a mask against the length of the shard; "
    "NVIDIA/Megatron-LM issue 453 (2023): rotary positions counted from 0 whatever ids were given; the "
    "program is ours",
)
