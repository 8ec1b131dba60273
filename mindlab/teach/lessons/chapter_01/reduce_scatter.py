"""Exercise 01.1: the first half of a ring."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.predict import volume
from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, Wrong


def my_reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """This rank's chunk of the sum over all ranks."""
    rank, p = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % p, (rank - 1) % p
    chunks = list(x.tensor_split(p))
    for step in range(p - 1):
        into = chunks[(rank - step - 2) % p]
        arriving = torch.empty_like(into)
        sending = dist.isend(chunks[(rank - step - 1) % p], right)
        dist.recv(arriving, left)
        sending.wait()
        into += arriving
    return chunks[rank]


def in_a_batch(x: torch.Tensor) -> torch.Tensor:
    """Right: a running total, both messages of a round in one batch."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.tensor_split(p))
    total = chunks[rank - 1]
    for step in range(2, p + 1):
        arriving = torch.empty_like(chunks[rank - step])
        pair = [
            dist.P2POp(dist.isend, total, (rank + 1) % p),
            dist.P2POp(dist.irecv, arriving, (rank - 1) % p),
        ]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
        total = arriving.add_(chunks[rank - step])
    return total


def receives_first(x: torch.Tensor) -> torch.Tensor:
    """Right: the receive is posted before the send."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(p)
    for step in range(1, p):
        leaving, into = chunks[(rank - step) % p], chunks[(rank - step - 1) % p]
        arriving = torch.zeros_like(into)
        coming = dist.irecv(arriving, (rank - 1) % p)
        dist.send(leaving, (rank + 1) % p)
        coming.wait()
        into.add_(arriving)
    return chunks[rank]


def _ring(
    x: torch.Tensor, *, lag: int = 2, missing: int = 0, kept: int = 0, add: bool = True, turn: int = 1
) -> torch.Tensor:
    """A ring that can be made wrong in one place."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.tensor_split(p))
    for step in range(p - 1 - missing):
        into = chunks[(rank - turn * (step + lag)) % p]
        arriving = torch.empty_like(into)
        sending = dist.isend(chunks[(rank - turn * (step + lag - 1)) % p], (rank + turn) % p)
        dist.recv(arriving, (rank - turn) % p)
        sending.wait()
        into.copy_(into + arriving if add else arriving)
    return chunks[(rank + kept) % p]


def the_whole_tensor(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the whole tensor travels in each round."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total, travelling = x.clone(), x
    for _ in range(p - 1):
        arriving = torch.empty_like(x)
        sending = dist.isend(travelling, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
        travelling = arriving
    return total.tensor_split(p)[rank]


def equal_chunks(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the rest of the division is dropped."""
    p = dist.get_world_size()
    return my_reduce_scatter(x[: len(x) // p * p])


def straight_to_the_owner(x: torch.Tensor) -> torch.Tensor:
    """Wrong here: right values and bytes, but no ring."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.tensor_split(p))
    arriving = {other: torch.empty_like(chunks[rank]) for other in range(p) if other != rank}
    works = [dist.irecv(tensor, other) for other, tensor in arriving.items()]
    works += [dist.isend(chunks[other], other) for other in arriving]
    for work in works:
        work.wait()
    for tensor in arriving.values():
        chunks[rank] += tensor
    return chunks[rank]


def two_messages_a_round(x: torch.Tensor) -> torch.Tensor:
    """Wrong: each chunk goes in two pieces, twice the latency."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.tensor_split(p))
    for step in range(p - 1):
        for half in (0, 1):
            into = chunks[(rank - step - 2) % p].tensor_split(2)[half]
            arriving = torch.empty_like(into)
            sending = dist.isend(chunks[(rank - step - 1) % p].tensor_split(2)[half], (rank + 1) % p)
            dist.recv(arriving, (rank - 1) % p)
            sending.wait()
            into += arriving
    return chunks[rank]


def room_for_everybody(x: torch.Tensor) -> torch.Tensor:
    """Wrong: a buffer of p whole tensors that nobody needs."""
    room = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    mine = my_reduce_scatter(x)
    return mine + room[0][: len(mine)]


def the_library(x: torch.Tensor) -> torch.Tensor:
    """Wrong here: the library does the work."""
    dist.all_reduce(x)
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


def _reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    total = torch.stack([x for (x,) in given]).sum(0)
    return list(total.tensor_split(len(given)))


EXERCISE = Exercise(
    name="01.1",
    title="The first half of a ring",
    statement="""
Write `my_reduce_scatter(x)` as a ring. Every rank gets a tensor `x` of its own, one-dimensional and as long
as the others', cut into p chunks by `x.tensor_split(p)`. At the end rank r returns chunk r of the sum over
all ranks.

Messages go to the right neighbour only. `x` may be changed. The length need not be divisible by p.
""",
    inputs=inputs.whole,
    reference=_reference,
    budget=Budget(
        sent=Bound(volume.ring_reduce_scatter, naive=volume.unchunked_ring_all_reduce),
        rounds=Bound(volume.rounds.ring_reduce_scatter, naive=volume.rounds.ring_reduce_scatter),
        memory=Bound(amounts.chunks(1), naive=amounts.tensors(3), allowed=amounts.chunks(3)),
    ),
    edges=lambda ranks: [(rank, (rank + 1) % ranks) for rank in range(ranks)],
    chunks=lambda rank, ranks: [rank],
    hints=(
        "A partial sum travels. In each round it comes in from the left, you add your own part, and it "
        "goes out "
        "to the right. After $p-1$ rounds it has met every rank.",
        "The sum of chunk r must end at rank r. It has then come the whole way round, so it set out at rank "
        "r + 1. So rank r begins with chunk r - 1.",
        """
In round `step` = 0, 1, …, p-2:

    into = chunks[(rank - step - 2) % p]       # what this round's arrival is added to
    arriving = torch.empty_like(into)
    ...                                        # chunk (rank - step - 1) % p leaves to the right
    ...                                        # arriving comes from the left
    into += arriving
""",
    ),
    picture=[[(1, 2, 0, "chunk 0")], [(2, 3, 0, "chunk 0")], [(3, 0, 0, "chunk 0")]],
    solution=my_reduce_scatter,
    explanation="""
What was added to in one round is what leaves in the next: `(rank - step - 2)` and, a round later,
`(rank - (step + 1) - 1)` are the same chunk. After $p-1$ rounds the last one added to is chunk `rank`.

Each rank sends every chunk but its own: $\\frac{p-1}{p}D$. Beside `x` only one chunk has to fit, the one
that arrives. (A second one lives while the name `arriving` is bound anew.)
""",
    right=(in_a_batch, receives_first),
    wrong=(
        Wrong(the_whole_tensor, r"Rank 0 sent .*, 4 times the allowed .* whole tensor in each of 3 rounds"),
        Wrong(partial(_ring, lag=1, kept=1), r"Rank 0: where chunk 0 belongs, there is chunk 1\. No rank"),
        Wrong(partial(_ring, missing=1), r"Rank 0: missing in chunk 0: the parts of ranks 1, 2 and 3"),
        Wrong(
            partial(_ring, add=False),
            r"Rank 0: missing in chunk 0: the parts of ranks 0, 2 and 3",
        ),
        Wrong(
            partial(_ring, kept=1),
            r"Rank 0: where chunk 0 belongs, there is chunk 1, with nothing in it but the parts of",
        ),
        Wrong(equal_chunks, r"shape \(4200,\), and \(4201,\) is wanted.*With 16,800 elements.* it was right"),
        Wrong(partial(_ring, turn=-1), r"Rank 0 sent .* to rank 3\. .* rank 1 only"),
        Wrong(straight_to_the_owner, r"Rank 0 sent .* to rank 2\. .* rank 1 only"),
        Wrong(two_messages_a_round, r"need 6 rounds.* the budget is 3"),
        Wrong(room_for_everybody, r"held .* beside its input"),
        Wrong(the_library, r"It calls all_reduce"),
    ),
)
