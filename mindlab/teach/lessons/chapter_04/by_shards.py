"""Ring attention over shards of one length: what two of the case files must come to."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ring import merge_lse, ring_attention, travel
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import amounts, likely
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_04 import attending, by_hand

Tensor = torch.Tensor


def repaired(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's part of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()
    merged = attention_with_lse(q, k, v)
    for _ in range(p - 1):
        k_next, v_next = torch.empty_like(k), torch.empty_like(v)
        ops = [dist.P2POp(dist.irecv, x, (rank - 1) % p) for x in (k_next, v_next)]
        ops += [dist.P2POp(dist.isend, x, (rank + 1) % p) for x in (k, v)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        k, v = k_next, v_next
        merged = merge_lse(*zip(merged, attention_with_lse(q, k, v), strict=True))
    return merged[0]


def by_travel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: the package's travelling blocks, merged at the end."""
    sizes = [k.shape[1]] * dist.get_world_size()
    parts = [attention_with_lse(q, keys, values) for _, keys, values in travel(k, v, sizes)]
    outs, lses = zip(*parts, strict=True)
    return merge_lse(outs, lses)[0]


def from_the_package(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: the package's own."""
    return ring_attention(q, k, v, sizes=[k.shape[1]] * dist.get_world_size())


def lengths_exchanged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: the ranks first tell each other how long their shards are."""
    return ring_attention(q, k, v)


def of_equal_lengths(q: Tensor, k: Tensor, v: Tensor, answer: partial[Tensor]) -> Tensor:
    """An answer to exercise 04.2, told that all shards are as long as this one."""
    return answer(q, k, v, [k.shape[1]] * dist.get_world_size())


def polite(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: the missing function replaced by its two halves, one after the other."""
    return by_hand.polite(q, k, v, [k.shape[1]] * dist.get_world_size())


def over_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: everything right but the axis: each query attends to the heads of its own position."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    for _, _, _ in travel(k, v, [k.shape[1]] * dist.get_world_size()):
        pass
    out: Tensor = scores.softmax(dim=-1) @ v
    return out


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = attending.shards(seed, rank, trial)
    return q, k, v


def _one_card(given: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    q, k, v = (torch.cat([parts[place] for parts in given], 1) for place in range(3))
    return list(attending.exact(q, k, v).chunk(len(given), 1))


def _sent(trial: Trial) -> Quantity:
    return volume.ring_attention(
        2, trial["sequence"], trial["heads"], trial["head_dim"], trial.ranks, itemsize=4
    )


def _sent_with_lengths(trial: Trial) -> Quantity:
    """8 bytes to each other rank, for its length."""
    return _sent(trial) + 8 * (trial.ranks - 1)


def _two_messages(nbytes: int, ranks: int) -> Quantity:
    return 2 * amounts.others(nbytes, ranks)


REPAIR = Exercise(
    name="04-a",
    title="",
    statement="This rank's part of the attention over the whole sequence; all shards have one length.",
    inputs=_inputs,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(_sent), naive=amounts.tensors(1), allowed=OfTrial(_sent_with_lengths)),
        rounds=Bound(amounts.others, naive=_two_messages, allowed=_two_messages),
    ),
    whole=lambda trial: 2 * 2 * trial["sequence"] * trial["heads"] * trial["head_dim"] * 4,
    grain=lambda trial: 0,
    look=likely.named(by_hand.mistakes),
    edges=lambda ranks: [(rank, (rank + 1) % ranks) for rank in range(ranks)],
    trials=(
        Trial(4, sizes={"sequence": 24, "heads": 5, "head_dim": 16}),
        Trial(3, sizes={"sequence": 24, "heads": 5, "head_dim": 16}),
    ),
    dims=attending.DIMS,
    hints=("", "", ""),
    solution=repaired,
    explanation="",
    right=(by_travel, from_the_package, lengths_exchanged),
    wrong=(
        Wrong(polite, r"wait for each other"),
        Wrong(partial(of_equal_lengths, answer=partial(by_hand.ring, how="sum")), r"the sum of the results"),
        Wrong(
            partial(of_equal_lengths, answer=partial(by_hand.ring, how="others")), r"all blocks but its own"
        ),
        Wrong(partial(of_equal_lengths, answer=partial(by_hand.ring, more=1)), r"1\.33 times the allowed"),
        Wrong(over_heads, r"Rank 0: element \[0, 0, 0, 0\] is .* No rank is right"),
    ),
)
