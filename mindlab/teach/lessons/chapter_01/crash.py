"""Case 01-d: a message longer than its buffer."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab import collectives
from mindlab.predict import volume
from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, Wrong


def gather_shards(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """All ranks' shards, joined in the order of ranks."""
    rank, p = dist.get_rank(), dist.get_world_size()
    shards = {rank: shard}
    for step in range(p - 1):
        arriving = shard.new_empty(sum(lengths) // p)
        sending = dist.isend(shards[(rank - step) % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        shards[(rank - step - 1) % p] = arriving
    return torch.cat([shards[number] for number in range(p)])


def repaired(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """The same; each buffer has the length of what arrives in it."""
    rank, p = dist.get_rank(), dist.get_world_size()
    shards = {rank: shard}
    for step in range(p - 1):
        arriving = shard.new_empty(lengths[(rank - step - 1) % p])
        sending = dist.isend(shards[(rank - step) % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        shards[(rank - step - 1) % p] = arriving
    return torch.cat([shards[number] for number in range(p)])


def into_place(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Right: arrivals go straight to their place in the result."""
    rank, p = dist.get_rank(), dist.get_world_size()
    whole = shard.new_zeros(sum(lengths))
    shards = whole.split(lengths)
    shards[rank].copy_(shard)
    for step in range(p - 1):
        coming = dist.irecv(shards[(rank - step - 1) % p], (rank - 1) % p)
        dist.send(shards[(rank - step) % p], (rank + 1) % p)
        coming.wait()
    return whole


def from_the_package(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Right: the package's ring, told all lengths."""
    return collectives.ring_all_gather(shard, sizes=lengths)


def cut_to_the_shortest(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Wrong: no crash any more, and the longer shards lose their end."""
    shortest = min(lengths)
    return collectives.ring_all_gather(shard[:shortest].contiguous())


def padded(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Wrong: all shards made equally long with zeros, which stay in the result."""
    longest = max(lengths)
    room = torch.zeros(longest)
    room[: len(shard)] = shard
    return collectives.ring_all_gather(room)


def the_neighbours_length(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Wrong: the left neighbour's length in every round, right in the first one only."""
    rank, p = dist.get_rank(), dist.get_world_size()
    shards = {rank: shard}
    for step in range(p - 1):
        arriving = shard.new_empty(lengths[(rank - 1) % p])
        sending = dist.isend(shards[(rank - step) % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        shards[(rank - step - 1) % p] = arriving
    return torch.cat([shards[number] for number in range(p)])


def everything_everywhere(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Wrong: buffers large enough for anything, and the whole of them is sent."""
    rank, p = dist.get_rank(), dist.get_world_size()
    starts = [sum(lengths[:number]) for number in range(p)]
    whole = shard.new_zeros(sum(lengths))
    whole[starts[rank] : starts[rank] + len(shard)] = shard
    total, travelling = whole.clone(), whole
    for _ in range(p - 1):
        arriving = torch.empty_like(whole)
        sending = dist.isend(travelling, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
        travelling = arriving
    return total


def in_another_order(shard: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Wrong: joined in the order of arrival, which is another one on every rank."""
    rank, p = dist.get_rank(), dist.get_world_size()
    whole = repaired(shard, lengths)
    shards = whole.split(lengths)
    return torch.cat([shards[(rank - step) % p] for step in range(p)])


def _reference(given: list[tuple[torch.Tensor, list[int]]]) -> list[torch.Tensor]:
    return [torch.cat([shard for shard, _ in given])] * len(given)


REPAIR = Exercise(
    name="01-d",
    title="A message longer than its buffer",
    statement="All ranks' shards, joined in the order of ranks, on every rank. Some are longer.",
    inputs=inputs.shard_and_lengths,
    reference=_reference,
    budget=Budget(
        sent=Bound(volume.ring_all_gather, naive=volume.unchunked_ring_all_reduce),
        rounds=Bound(volume.rounds.ring_all_gather),
        memory=Bound(amounts.tensors(1), naive=amounts.of_every_rank, allowed=amounts.tensors(2)),
    ),
    hints=(
        "What does a rank know about the message that it is about to receive? Who told it?",
        "Write down, for one rank, whose shard arrives in each round. Put that shard's length beside it.",
        """
        arriving = shard.new_empty(...)            # the length of the shard that comes now
""",
    ),
    picture=[[(0, 1, 0, "shard 0")], [(0, 1, 0, "shard 3")], [(0, 1, 0, "shard 2")]],
    solution=repaired,
    explanation="""
A message has no label with its length: the receiver must know it. In round `step` the shard of rank `rank -
step - 1` arrives, so its length is `lengths[(rank - step - 1) % p]`. If the lengths are not known to all,
they must be exchanged first, in a small message of known size.
""",
    right=(into_place, from_the_package),
    wrong=(
        Wrong(gather_shards, r"do not fit together|ended before its time|raised"),
        Wrong(cut_to_the_shortest, r"returned a tensor of shape .* it was right"),
        Wrong(padded, r"returned a tensor of shape .* it was right"),
        Wrong(the_neighbours_length, r"do not fit together|ended before its time|raised"),
        Wrong(everything_everywhere, r"Rank 0 sent .*, 4 times the allowed"),
        Wrong(in_another_order, r"the right values, all of them, in another order"),
    ),
)

CASE = Case(
    name="01-d",
    title="A message longer than its buffer",
    story="""
An AllGather by hand. Each rank's shard goes round the ring. For months it ran, with 16,800 rows on 4 ranks.
Today there is one row more, and the job is gone: some ranks with an error, others without a word.
""",
    program=gather_shards,
    causes=(
        Choice(
            "The ring has one round too few.",
            "After $p-1$ rounds every shard has been everywhere. And a missing round would give a "
            "missing shard, not a "
            "crash.",
            holds=False,
        ),
        Choice(
            "The memory is used up.",
            "One row more is 4 bytes. The evidence names two lengths, not a lack of room.",
            holds=False,
        ),
        Choice(
            "The buffer has room for an equal share, and one shard is longer.",
            "4 does not divide 16,801, so rank 0's shard has a row more than the others'. A message "
            "carries no length: "
            "the receiver has to know it.",
            holds=True,
        ),
        Choice(
            "The send is not finished when the next round begins.",
            "`sending.wait()` stands in every round.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="gloo ends a process that gets a longer message than it expects (PyTorch's ProcessGroupGloo)",
)
