"""Exercise 00.1: hand a tensor to the right neighbour."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import WHOLE, Bound, Budget, Exercise, Wrong


def hand_on(x: torch.Tensor) -> torch.Tensor:
    """The left neighbour's tensor; this rank's own goes to the right."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    return arriving


def receive_first(x: torch.Tensor) -> torch.Tensor:
    """Right: the receive is posted ahead, the send may block."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.zeros_like(x)
    coming = dist.irecv(arriving, (rank - 1) % p)
    dist.send(x, (rank + 1) % p)
    coming.wait()
    return arriving


def one_by_one_in_pairs(x: torch.Tensor) -> torch.Tensor:
    """Right: blocking calls only; rank 0 receives first, which breaks the circle."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    if rank == 0:
        dist.recv(arriving, p - 1)
        dist.send(x, 1)
    else:
        dist.send(x, (rank + 1) % p)
        dist.recv(arriving, rank - 1)
    return arriving


def all_send_first(x: torch.Tensor) -> torch.Tensor:
    """Wrong: everybody waits until the right neighbour takes the message."""
    rank, p = dist.get_rank(), dist.get_world_size()
    dist.send(x, (rank + 1) % p)
    arriving = torch.empty_like(x)
    dist.recv(arriving, (rank - 1) % p)
    return arriving


def to_the_left(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the other way round; with two ranks nobody would see it."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (rank - 1) % p)
    dist.recv(arriving, (rank + 1) % p)
    sending.wait()
    return arriving


def keeps_its_own(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the right messages, but the tensor that was sent is returned."""
    hand_on(x)
    return x


def forgets_to_return(x: torch.Tensor) -> None:
    """Wrong: no return."""
    hand_on(x)


def past_the_last_rank(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the last rank has no right neighbour."""
    rank = dist.get_rank()
    arriving = torch.empty_like(x)
    sending = dist.isend(x, rank + 1)
    dist.recv(arriving, rank - 1)
    sending.wait()
    return arriving


def asks_everybody(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the library collects all tensors, one of them is picked."""
    rank, p = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(x) for _ in range(p)]
    dist.all_gather(parts, x)
    return parts[(rank - 1) % p]


def shouts(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the tensor goes to all ranks, all but one for nothing."""
    rank, p = dist.get_rank(), dist.get_world_size()
    arriving = {other: torch.empty_like(x) for other in range(p) if other != rank}
    works = [dist.isend(x, other) for other in arriving]
    works += [dist.irecv(tensor, other) for other, tensor in arriving.items()]
    for work in works:
        work.wait()
    return arriving[(rank - 1) % p]


def _reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    return [given[rank - 1][0] for rank in range(len(given))]


EXERCISE = Exercise(
    name="00.1",
    title="Hand it on",
    statement="""
Write `hand_on(x)`. Every rank gets a tensor `x` of its own. It sends it to its right neighbour, rank + 1, and
returns what came from the left. The right neighbour of the last rank is rank 0.

One message from each rank, to the right neighbour and to nobody else.
""",
    inputs=inputs.whole,
    reference=_reference,
    budget=Budget(
        sent=Bound(amounts.tensors(1), naive=amounts.to_every_other),
        rounds=Bound(amounts.rounds(1), naive=amounts.others, allowed=amounts.others),
        memory=Bound(amounts.tensors(1), naive=amounts.of_every_rank),
    ),
    edges=lambda ranks: [(rank, (rank + 1) % ranks) for rank in range(ranks)],
    chunks=lambda rank, ranks: [WHOLE],
    hints=(
        "A message needs two sides: one rank sends, another one receives into a tensor that is already "
        "there. "
        "Every rank is both.",
        "The ranks sit in a circle. If all of them first wait until the neighbour takes their message, "
        "nobody "
        "is free to take one. At least one must be able to do something else meanwhile.",
        """
Make a tensor for what arrives, then fill in three lines:

    arriving = torch.empty_like(x)
    sending = dist.isend(x, ...)      # returns at once
    dist.recv(arriving, ...)
    ...                               # the send must be over before x may be used again
""",
    ),
    picture=[[(0, 1), (1, 2), (2, 3), (3, 0)]],
    solution=hand_on,
    explanation="""
`isend` returns at once, so every rank comes to its `recv`. `% p` closes the circle. `wait()` says that the
message has left: before that, nobody may change `x`.

Blocking calls are enough, too, if one rank does them in the other order. Then the messages go one after the
other instead of all at once.
""",
    right=(receive_first, one_by_one_in_pairs),
    wrong=(
        Wrong(all_send_first, "wait for each other"),
        Wrong(to_the_left, r"Rank 0: its result holds the part of rank 1 where the part of rank 3 belongs"),
        Wrong(keeps_its_own, r"Rank 0: its result holds the part of rank 0 where the part of rank 3 belongs"),
        Wrong(forgets_to_return, r"Rank 0 returned None"),
        Wrong(past_the_last_rank, r"Rank \d raised UnsafeCall: (recv with rank -1|isend with rank 4)"),
        Wrong(asks_everybody, r"It calls all_gather"),
        Wrong(shouts, r"Rank 0 sent .* to rank 2\. .* rank 1 only"),
    ),
)
