"""Exercise 04.2: ring attention by hand, any lengths, with a budget of bytes and memory."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ring import merge_lse, ring_attention, travel
from mindlab.predict import memory, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import amounts, likely
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_04 import attending

Tensor = torch.Tensor
Given = tuple[Tensor, Tensor, Tensor, list[int]]


def my_ring_attention(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """This rank's part of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block = torch.stack([k, v])
    merged = attention_with_lse(q, k, v)
    for step in range(1, p):
        arriving = block.new_empty(2, k.shape[0], lengths[rank - step], *k.shape[2:])
        sending = dist.isend(block, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        block = arriving
        part = attention_with_lse(q, block[0], block[1])
        merged = merge_lse(*zip(merged, part, strict=True))
    return merged[0]


def merged_at_the_end(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Right: both ends posted before the work; parts are kept, and merged once."""
    rank, p = dist.get_rank(), dist.get_world_size()
    parts = []
    for step in range(p):
        works, coming = [], [k, v]
        if step < p - 1:
            coming = [x.new_empty(x.shape[0], lengths[rank - step - 1], *x.shape[2:]) for x in (k, v)]
            ops = [dist.P2POp(dist.irecv, x, (rank - 1) % p) for x in coming]
            works = dist.batch_isend_irecv(ops + [dist.P2POp(dist.isend, x, (rank + 1) % p) for x in (k, v)])
        parts.append(attention_with_lse(q, k, v))
        for work in works:
            work.wait()
        k, v = coming
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def by_travel(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Right: the package's travelling blocks."""
    parts = [attention_with_lse(q, keys, values) for _, keys, values in travel(k, v, lengths)]
    outs, lses = zip(*parts, strict=True)
    return merge_lse(outs, lses)[0]


def from_the_package(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Right: the package's own."""
    return ring_attention(q, k, v, sizes=lengths)


def ring(
    q: Tensor, k: Tensor, v: Tensor, lengths: list[int], *, more: int = 0, how: str = "", stride: int = 1
) -> Tensor:
    """A ring that can be made wrong: `more` transfers, other sums, messages to another rank."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block, first = torch.stack([k, v]), torch.stack([k, v])
    parts = [attention_with_lse(q, k, v)]
    for step in range(1, p + more):
        source = (rank - (1 if how == "own again" else step) * stride) % p
        arriving = block.new_empty(2, k.shape[0], lengths[source], *k.shape[2:])
        sending = dist.isend(first if how == "own again" else block, (rank + stride) % p)
        dist.recv(arriving, (rank - stride) % p)
        sending.wait()
        block = arriving
        if how == "keys only":
            block = torch.stack([arriving[0], v]) if arriving.shape[2] == v.shape[1] else arriving
        if step < p:
            parts.append(attention_with_lse(q, block[0], block[1]))
    if how == "sum":
        return torch.stack([out for out, _ in parts]).sum(0)
    if how == "mean":
        return torch.stack([out for out, _ in parts]).mean(0)
    parts = parts[1:] if how == "others" else parts
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def equal_lengths(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Wrong: every buffer as long as this rank's own shard."""
    return ring(q, k, v, [k.shape[1]] * len(lengths))


def all_gathered(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Wrong: right values and bytes; all keys and values are on every card at once."""
    blocks = [torch.stack([keys, values]) for _, keys, values in travel(k, v, lengths)]
    everything = torch.cat(blocks, 2)
    return attention_with_lse(q, everything[0], everything[1])[0]


def a_star(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Wrong: the same bytes, but every rank talks to all others."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block, parts = torch.stack([k, v]), [attention_with_lse(q, k, v)]
    for step in range(1, p):
        arriving = block.new_empty(2, k.shape[0], lengths[rank - step], *k.shape[2:])
        sending = dist.isend(block, (rank + step) % p)
        dist.recv(arriving, (rank - step) % p)
        sending.wait()
        parts.append(attention_with_lse(q, arriving[0], arriving[1]))
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def polite(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Wrong: all ranks send first, and wait for a neighbour that sends."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block = torch.stack([k, v])
    merged = attention_with_lse(q, k, v)
    for step in range(1, p):
        arriving = block.new_empty(2, k.shape[0], lengths[rank - step], *k.shape[2:])
        dist.send(block, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        block = arriving
        merged = merge_lse(*zip(merged, attention_with_lse(q, block[0], block[1]), strict=True))
    return merged[0]


def the_library(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
    """Wrong here: the library collects everything."""
    block = torch.stack([k, v])
    parts = [block.new_empty(2, k.shape[0], length, *k.shape[2:]) for length in lengths]
    for source, part in enumerate(parts):
        if source == dist.get_rank():
            part.copy_(block)
        dist.broadcast(part, source)
    everything = torch.cat(parts, 2)
    return attention_with_lse(q, everything[0], everything[1])[0]


def _inputs(seed: int, rank: int, trial: Trial) -> Given:
    q, k, v = attending.shards(seed, rank, trial)
    lengths = [len(part) for part in torch.arange(trial["sequence"]).tensor_split(trial.ranks)]
    return q, k, v, lengths


def _one_card(given: list[Given]) -> list[Tensor]:
    q, k, v = (torch.cat([parts[place] for parts in given], 1) for place in range(3))  # type: ignore[misc]
    return list(attending.exact(q, k, v).split(given[0][3], 1))


def _sent(trial: Trial) -> Quantity:
    return volume.ring_attention(
        2, trial["sequence"], trial["kv_heads"], trial["head_dim"], trial.ranks, itemsize=4
    )


def _keys_and_values(trial: Trial) -> int:
    """The bytes of all keys and values of the sequence, batch 2, float32."""
    return 2 * 2 * trial["sequence"] * trial["kv_heads"] * trial["head_dim"] * 4


def mistakes(given: list[Given], rank: int) -> dict[str, Tensor]:
    """Results that a ring gives when a block or the weights are missing, by what they are."""
    p, q = len(given), given[rank][0]
    blocks = [parts[1:3] for parts in given]
    each = torch.stack([attending.exact(q, *block) for block in blocks])
    left = [blocks[rank], *[blocks[rank - 1]] * (p - 1)]

    def over(some: list[tuple[Tensor, Tensor]]) -> Tensor:
        return attending.exact(q, torch.cat([k for k, _ in some], 1), torch.cat([v for _, v in some], 1))

    return {
        "the sum of the results over the blocks, without weights": each.sum(0),
        "the mean of the results over the blocks, each counted alike": each.mean(0),
        "the attention over its own keys alone": over(blocks[rank : rank + 1]),
        "the attention over all blocks but its own": over(blocks[:rank] + blocks[rank + 1 :]),
        "the attention over its own keys and, again and again, its left neighbour's": over(left),
    }


def _two_messages(nbytes: int, ranks: int) -> Quantity:
    """One of keys and one of values in each transfer."""
    return 2 * amounts.others(nbytes, ranks)


def _held(trial: Trial) -> Quantity:
    """What the package's ring holds beside its input: two blocks under way, the result, one step's result."""
    terms = memory.ring_attention_terms(
        2, trial["sequence"], trial["heads"], trial["kv_heads"], trial["head_dim"], trial.ranks, itemsize=4
    )
    return terms["travelling"] + terms["merged"] + terms["part"]


def _room(trial: Trial) -> int:
    """All keys and values; on few ranks what is held beside them decides, so there thrice as much."""
    return _keys_and_values(trial) * (1 if trial.ranks >= 8 else 3)


EXERCISE = Exercise(
    name="04.2",
    title="Ring attention by hand",
    statement="""
Write `my_ring_attention(q, k, v, lengths)`. Every rank gets its shard of the queries, keys and values, each
(batch, sequence, heads, head_dim), and the lengths of all ranks' shards along the sequence. They may differ
by one. Return this rank's part of the attention over the whole sequence, without a mask.

Keys and values go round the ring, to the right neighbour only. $p-1$ transfers are enough. Keys and values
may travel in one message or in two. With 8 ranks there is no room for all keys and values at one time.
`attention_with_lse` and `merge_lse` may be used.
""",
    inputs=_inputs,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(_sent), naive=amounts.tensors(1)),
        rounds=Bound(amounts.others, naive=_two_messages, allowed=_two_messages),
        memory=Bound(OfTrial(_held), naive=amounts.tensors(2), allowed=OfTrial(_room)),
    ),
    whole=_keys_and_values,
    grain=lambda trial: 0,
    look=likely.named(mistakes),
    edges=lambda ranks: [(rank, (rank + 1) % ranks) for rank in range(ranks)],
    trials=(
        Trial(4, sizes={"sequence": 40, "heads": 4, "kv_heads": 2, "head_dim": 16}),
        Trial(4, sizes={"sequence": 42, "heads": 4, "kv_heads": 2, "head_dim": 16}),
        Trial(3, sizes={"sequence": 40, "heads": 3, "kv_heads": 3, "head_dim": 16}),
        Trial(8, sizes={"sequence": 203, "heads": 2, "kv_heads": 2, "head_dim": 16}),
    ),
    dims=attending.DIMS,
    hints=(
        "Each rank keeps its queries. A block that arrives is used, and passed on in the next round.",
        "Write down for rank 0 whose keys it holds at step 0, 1, 2, … Step 0 needs no transfer. Beside it "
        "write how long that block is.",
        """
    merged = ...                            # (out, lse) over this rank's own keys
    for step in range(1, p):
        arriving = ...                      # as long as the shard that comes now
        ...                                 # send what you have to the right, receive from the left
        merged = ...                        # merge_lse of two parts: what you have, and the new block's
    return merged[0]
""",
    ),
    picture=[
        [(0, 1, 0, "KV0"), (1, 2, 0, "KV1"), (2, 3, 0, "KV2"), (3, 0, 0, "KV3")],
        [(0, 1, 0, "KV3"), (1, 2, 0, "KV0"), (2, 3, 0, "KV1"), (3, 0, 0, "KV2")],
    ],
    solution=my_ring_attention,
    explanation="""
In round `step` the block of rank `rank - step` arrives, so its length is `lengths[rank - step]` (a negative
index counts from the end: round the ring). Stacked, keys and values are one message.

Each rank passes on every block but its right neighbour's own: $\\frac{p-1}{p}$ of all keys and values. A
merge of merges is the merge of all, so one running result is enough.
""",
    right=(merged_at_the_end, by_travel, from_the_package),
    wrong=(
        Wrong(partial(ring, how="sum"), r"returned the sum of the results over the blocks, without weights"),
        Wrong(partial(ring, how="mean"), r"returned the mean of the results"),
        Wrong(partial(ring, how="own again"), r"again and again, its left neighbour's"),
        Wrong(partial(ring, how="keys only"), r"Rank 0: element \[0, 0, 0, 0\] is .* No rank is right"),
        Wrong(partial(ring, how="others"), r"the attention over all blocks but its own"),
        Wrong(partial(ring, more=1), r"Rank 0 sent .*, 1\.33 times the allowed"),
        Wrong(partial(ring, stride=-1), r"Rank 0 sent .* to rank 3\. In this exercise it may send to rank 1"),
        Wrong(equal_lengths, r"do not fit together"),
        Wrong(a_star, r"Rank 0 sent .* to rank 2"),
        Wrong(all_gathered, r"held .* beside its input"),
        Wrong(polite, r"wait for each other"),
        Wrong(the_library, r"It calls broadcast"),
    ),
)
