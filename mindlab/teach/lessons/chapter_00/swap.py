"""Exercise 00.2: two neighbours swap their tensors."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import WHOLE, Bound, Budget, Exercise, Wrong


def swap(x: torch.Tensor) -> torch.Tensor:
    """The partner's tensor; a rank without a partner keeps its own."""
    rank, p = dist.get_rank(), dist.get_world_size()
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    if partner == p:
        return x
    arriving = torch.empty_like(x)
    sending = dist.isend(x, partner)
    dist.recv(arriving, partner)
    sending.wait()
    return arriving


def with_a_bit(x: torch.Tensor) -> torch.Tensor:
    """Right: the partner by flipping the last bit, both messages in one batch."""
    partner = dist.get_rank() ^ 1
    if partner >= dist.get_world_size():
        return x.clone()
    arriving = torch.empty_like(x)
    pair = [dist.P2POp(dist.isend, x, partner), dist.P2POp(dist.irecv, arriving, partner)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    return arriving


def even_speaks_first(x: torch.Tensor) -> torch.Tensor:
    """Right: blocking calls, the even ranks send first and the odd ones receive first."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = x.clone()
    if rank % 2 == 0 and rank + 1 < p:
        dist.send(x, rank + 1)
        dist.recv(arriving, rank + 1)
    elif rank % 2 == 1:
        dist.recv(arriving, rank - 1)
        dist.send(x, rank - 1)
    return arriving


def both_send_first(x: torch.Tensor) -> torch.Tensor:
    """Wrong: both partners wait until the other one takes the message."""
    partner = dist.get_rank() ^ 1
    if partner >= dist.get_world_size():
        return x
    arriving = torch.empty_like(x)
    dist.send(x, partner)
    dist.recv(arriving, partner)
    return arriving


def forgets_the_odd_one(x: torch.Tensor) -> torch.Tensor:
    """Wrong: with three ranks, rank 2 calls a rank that does not exist."""
    partner = dist.get_rank() ^ 1
    arriving = torch.empty_like(x)
    sending = dist.isend(x, partner)
    dist.recv(arriving, partner)
    sending.wait()
    return arriving


def in_a_circle(x: torch.Tensor) -> torch.Tensor:
    """Wrong: what comes from the left is taken for the partner's."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    return arriving


def in_place(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the message arrives in the tensor that is still being sent."""
    partner = dist.get_rank() ^ 1
    if partner >= dist.get_world_size():
        return x
    sending = dist.isend(x, partner)
    dist.recv(x, partner)
    sending.wait()
    return x


def added(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the partner's tensor is added to the own one."""
    partner = dist.get_rank() ^ 1
    return x if partner >= dist.get_world_size() else x + swap(x)


def one_way(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the even ranks only send, the odd ones only receive."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = x.clone()
    if rank % 2 == 0 and rank + 1 < p:
        dist.send(x, rank + 1)
    elif rank % 2 == 1:
        dist.recv(arriving, rank - 1)
    return arriving


def _reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    return [given[rank ^ 1 if rank ^ 1 < len(given) else rank][0] for rank in range(len(given))]


EXERCISE = Exercise(
    name="00.2",
    title="Swap with your neighbour",
    statement="""
Write `swap(x)`. Ranks 0 and 1 swap their tensors, ranks 2 and 3 too, and so on: each returns its partner's.
If the number of ranks is odd, the last one has no partner and returns its own.

One message from each rank that has a partner.
""",
    inputs=inputs.whole,
    reference=_reference,
    budget=Budget(
        sent=Bound(amounts.tensors(1), naive=amounts.to_every_other),
        rounds=Bound(amounts.rounds(1), naive=amounts.others, allowed=amounts.rounds(2)),
        memory=Bound(amounts.tensors(1), naive=amounts.of_every_rank),
    ),
    edges=lambda ranks: [(rank, rank ^ 1) for rank in range(ranks) if rank ^ 1 < ranks],
    chunks=lambda rank, ranks: [WHOLE],
    hints=(
        "First find the partner's number. An even rank's partner stands after it, an odd one's before it.",
        "Draw three ranks: 0 and 1 point at each other, and 2 points at a rank that is not there. What "
        "does it "
        "return?",
        """
    partner = ...                     # rank + 1 or rank - 1
    if partner == p:
        return x
    arriving = torch.empty_like(x)
    ...                               # as in exercise 00.1, with one neighbour only
""",
    ),
    solution=swap,
    explanation="""
Both partners send and receive; `isend` lets both come to their `recv`. The last of an odd number of ranks
must not call at all: a message to a rank that does not exist is an error.

`rank ^ 1` flips the last bit, which makes 1 of 0, 0 of 1, 3 of 2: the same partner in one expression.
""",
    right=(with_a_bit, even_speaks_first),
    wrong=(
        Wrong(both_send_first, "wait for each other"),
        Wrong(forgets_the_odd_one, r"Rank 2 raised UnsafeCall: isend with rank 3"),
        Wrong(in_a_circle, r"Rank 0: its result holds the part of rank 3 where the part of rank 1 belongs"),
        Wrong(in_place, r"its result holds the part of rank \d where|changed before wait"),
        Wrong(added, r"Rank 0: in its result, added although it does not belong there: the part of rank 0"),
        Wrong(
            one_way, r"Rank 0: its result holds the part of rank 0 where the part of rank 1 belongs\. Rank"
        ),
    ),
)
