"""Case 01-c: it never ends."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from mindlab.predict import volume
from mindlab.teach import amounts
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Wrong
from mindlab.teach.lessons.chapter_01 import all_reduce


def patient_ring(x: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks: each tensor goes round, everybody adds it."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total, travelling = x.clone(), x
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        dist.send(travelling, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        total += arriving
        travelling = arriving
    return total


def repaired(x: torch.Tensor) -> torch.Tensor:
    """The same; the send does not wait."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total, travelling = x.clone(), x
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        sending = dist.isend(travelling, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
        travelling = arriving
    return total


def one_receives_first(x: torch.Tensor) -> torch.Tensor:
    """Right: rank 0 breaks the circle."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total, travelling = x.clone(), x
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        if rank == 0:
            dist.recv(arriving, p - 1)
            dist.send(travelling, 1)
        else:
            dist.send(travelling, (rank + 1) % p)
            dist.recv(arriving, rank - 1)
        total += arriving
        travelling = arriving
    return total


def all_receive_first(x: torch.Tensor) -> torch.Tensor:
    """Wrong: now everybody waits for a message that nobody has sent."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    arriving = torch.empty_like(x)
    dist.recv(arriving, (rank - 1) % p)
    dist.send(x, (rank + 1) % p)
    return total + arriving


def one_round_only(x: torch.Tensor) -> torch.Tensor:
    """Wrong: it ends, after one neighbour."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    return x + arriving


def sends_its_own_again(x: torch.Tensor) -> torch.Tensor:
    """Wrong: in every round the own tensor leaves, so only the neighbour's is added, p-1 times."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        sending = dist.isend(x, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
    return total


def sums_travel(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the running total travels, so early parts are added again and again."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        sending = dist.isend(total.clone(), (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
    return total


REPAIR = replace(
    all_reduce.EXERCISE,
    name="01-c",
    title="It never ends",
    statement="The sum over all ranks, on every rank. Whole tensors may travel: it shall end, and be right.",
    budget=Budget(
        sent=Bound(
            volume.ring_all_reduce, volume.unchunked_ring_all_reduce, volume.unchunked_ring_all_reduce
        ),
        rounds=Bound(amounts.others, allowed=volume.rounds.ring_all_reduce),
    ),
    hints=(
        "Read the evidence as a sentence: who waits for whom, and in which call?",
        "Draw an arrow from each rank to the one it waits for. If the arrows form a circle, nobody in it "
        "can go on. "
        "Which arrow can you remove?",
        """
One line changes, and one is added:

        ... = ...(travelling, (rank + 1) % p)      # begins to send, and goes on
        dist.recv(arriving, (rank - 1) % p)
        ...                                        # now wait until it has left
""",
    ),
    picture=[
        [(0, 1, 0, "waits for"), (1, 2, 0, "waits for"), (2, 3, 0, "waits for"), (3, 0, 0, "waits for")]
    ],
    solution=repaired,
    explanation="""
`send` may wait until the other side receives. When all ranks send first, all wait. Small messages sometimes
fit into a buffer on the way, so such a program can run for months, until a tensor grows. `isend` returns at
once and every rank comes to its `recv`.
""",
    right=(one_receives_first, all_reduce.my_all_reduce),
    wrong=(
        Wrong(patient_ring, "wait for each other"),
        Wrong(all_receive_first, "wait for each other"),
        Wrong(one_round_only, r"Rank 0: missing in chunk 0: the parts of ranks 1 and 2\. No rank"),
        Wrong(sends_its_own_again, r"parts of ranks 1 and 2\. The part of rank 3 was added 3 times"),
        Wrong(sums_travel, r"Rank 0: in chunk 0, the part of rank \d was added \d times"),
    ),
)

CASE = Case(
    name="01-c",
    title="It never ends",
    story="""
A ring, written with the two plainest calls: `send` and `recv`. With a colleague's library it ran. Here it
prints nothing, raises nothing, and does not end; on a cluster it would hold its cards until somebody looks.
MindLab's watchdog ends it.
""",
    program=patient_ring,
    causes=(
        Choice(
            "The ranks are too slow; a longer timeout would help.",
            "The evidence shows each rank in a call that cannot return before another one's. Time does "
            "not change that.",
            holds=False,
        ),
        Choice(
            "All ranks are in `send` at once, and each waits for a neighbour that is in `send` too.",
            "A `send` returns when the other side takes the message. The waiting ranks form a circle.",
            holds=True,
        ),
        Choice(
            "The last rank sends to a rank that does not exist.",
            "`(rank + 1) % p` closes the ring: rank p - 1 sends to rank 0. A wrong number would raise an "
            "error.",
            holds=False,
        ),
        Choice(
            "The messages overtake each other.",
            "Messages between the same two ranks arrive in the order in which they were sent. And none "
            "has left yet.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a classic of message passing; the MPI standard calls such programs unsafe (MPI 4.1, section 3.5)",
)
