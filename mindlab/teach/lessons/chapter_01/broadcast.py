"""Exercise 01.2: from one rank to all, in few rounds."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab import collectives
from mindlab.predict import volume
from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import WHOLE, Bound, Budget, Exercise, Wrong


def my_broadcast(x: torch.Tensor) -> torch.Tensor:
    """Rank 0's tensor, on every rank."""
    rank, p = dist.get_rank(), dist.get_world_size()
    have = 1
    while have < p:
        if rank < have and rank + have < p:
            dist.send(x, rank + have)
        elif have <= rank < 2 * have:
            dist.recv(x, rank - have)
        have *= 2
    return x


def from_the_top(x: torch.Tensor) -> torch.Tensor:
    """Right: far messages first, then ever nearer ones."""
    rank, p = dist.get_rank(), dist.get_world_size()
    width = 1
    while width < p:
        width *= 2
    while width > 1:
        half = width // 2
        if rank % width == 0 and rank + half < p:
            dist.send(x, rank + half)
        elif rank % width == half:
            dist.recv(x, rank - half)
        width = half
    return x


def from_the_package(x: torch.Tensor) -> torch.Tensor:
    """Right: the package's own tree, which makes a tensor of its own."""
    return collectives.tree_broadcast(x)


def a_star(x: torch.Tensor) -> torch.Tensor:
    """Wrong: rank 0 sends to everybody, all at once."""
    if dist.get_rank() == 0:
        for work in [dist.isend(x, other) for other in range(1, dist.get_world_size())]:
            work.wait()
    else:
        dist.recv(x, 0)
    return x


def a_chain(x: torch.Tensor) -> torch.Tensor:
    """Wrong: each passes it on to the next, p-1 rounds."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(x, rank - 1)
    if rank < p - 1:
        dist.send(x, rank + 1)
    return x


def powers_of_two_only(x: torch.Tensor) -> torch.Tensor:
    """Wrong: with three ranks, the last one gets nothing."""
    rank, p = dist.get_rank(), dist.get_world_size()
    have = 1
    while 2 * have <= p:
        if rank < have:
            dist.send(x, rank + have)
        elif rank < 2 * have:
            dist.recv(x, rank - have)
        have *= 2
    return x


def twice(x: torch.Tensor) -> torch.Tensor:
    """Wrong: everybody gets it two times."""
    return my_broadcast(my_broadcast(x))


def past_the_last_rank(x: torch.Tensor) -> torch.Tensor:
    """Wrong: with three ranks, rank 1 sends to a rank 3 that does not exist."""
    rank, p = dist.get_rank(), dist.get_world_size()
    have = 1
    while have < p:
        if rank < have:
            dist.send(x, rank + have)
        elif rank < 2 * have:
            dist.recv(x, rank - have)
        have *= 2
    return x


def everybody_receives(x: torch.Tensor) -> torch.Tensor:
    """Wrong: ranks wait for messages of later rounds in the first one."""
    rank, p = dist.get_rank(), dist.get_world_size()
    have = 1
    while have < p:
        if rank < have and rank + have < p:
            dist.send(x, rank + have)
        else:
            dist.recv(x, (rank - have) % p)
        have *= 2
    return x


def the_library(x: torch.Tensor) -> torch.Tensor:
    """Wrong here: the library does the work."""
    dist.broadcast(x, 0)
    return x


EXERCISE = Exercise(
    name="01.2",
    title="Few rounds",
    statement="""
Write `my_broadcast(x)`. For a small message the number of rounds decides. Every rank gets a tensor `x`; at
the end every rank returns rank 0's. What the others had is overwritten.

In a round, each rank sends at most one message. Bring it to all of them in $\\lceil\\log_2 p\\rceil$ rounds.
""",
    inputs=inputs.whole,
    reference=lambda given: [given[0][0]] * len(given),
    budget=Budget(
        sent=Bound(volume.tree_broadcast, naive=amounts.to_every_other),
        rounds=Bound(volume.rounds.tree_broadcast, naive=amounts.others),
        memory=Bound(amounts.tensors(0), naive=amounts.tensors(1), allowed=amounts.tensors(1)),
    ),
    chunks=lambda rank, ranks: [WHOLE],
    hints=(
        "In each round, every rank that has the tensor gives it to one that has not. So the number of "
        "ranks that "
        "have it doubles.",
        "Let `have` be the number of ranks that have it: at first 1, later the ranks 0 to have - 1. In a "
        "round rank "
        "r of these sends to rank r + have, if there is one.",
        """
    have = 1
    while have < p:
        if ...:                    # ranks that have it, and whose partner exists
            dist.send(x, ...)
        elif ...:                  # ranks whose turn it is to receive
            dist.recv(x, ...)
        have *= 2                  # all others do nothing in this round
""",
    ),
    picture=[[(0, 1)], [(0, 2), (1, 3)]],
    solution=my_broadcast,
    explanation="""
1, 2, 4, … ranks have it, so $\\lceil\\log_2 p\\rceil$ rounds are enough. The condition `rank + have < p`
matters as soon as p is no power of two.

Rank 0 sends in every round, most others less, the last ones never: all together send $(p-1)D$. A rank that
has nothing to do in a round just goes on; the messages themselves keep the order.
""",
    right=(from_the_top, from_the_package),
    wrong=(
        Wrong(a_star, r"Rank 0 sent .*, 1.5 times the allowed"),
        Wrong(a_chain, r"need 3 rounds.*with 4 ranks; the budget is 2"),
        Wrong(
            powers_of_two_only,
            r"Rank 2: its result holds the part of rank 2 where the part of rank 0 belongs\. Ranks 0 and 1",
        ),
        Wrong(twice, r"Rank 0 sent .*, 2 times the allowed"),
        Wrong(past_the_last_rank, r"Rank 1 raised UnsafeCall: send with rank 3"),
        Wrong(everybody_receives, r"wait for each other"),
        Wrong(the_library, r"It calls broadcast"),
        Wrong(
            partial(collectives.tree_broadcast, root=1), r"Rank 0: its result holds the part of rank 1 where"
        ),
    ),
)
