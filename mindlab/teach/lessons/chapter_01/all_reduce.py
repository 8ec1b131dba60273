"""Exercise 01.3: a whole ring, in place."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab import collectives
from mindlab.predict import volume
from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, Wrong


def my_all_reduce(x: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks, in x."""
    rank, p = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % p, (rank - 1) % p
    chunks = x.tensor_split(p)
    for step in range(2 * (p - 1)):
        into = chunks[(rank - step - 1) % p]
        arriving = torch.empty_like(into)
        sending = dist.isend(chunks[(rank - step) % p], right)
        dist.recv(arriving, left)
        sending.wait()
        into.copy_(into + arriving if step < p - 1 else arriving)
    return x


def in_two_loops(x: torch.Tensor) -> torch.Tensor:
    """Right: one loop that adds, one that copies straight into its place."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(p)
    for step in range(p - 1):
        arriving = torch.empty_like(chunks[(rank - step - 1) % p])
        sending = dist.isend(chunks[(rank - step) % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        chunks[(rank - step - 1) % p].add_(arriving)
    for step in range(p - 1):
        coming = dist.irecv(chunks[(rank - step) % p], (rank - 1) % p)
        dist.send(chunks[(rank + 1 - step) % p], (rank + 1) % p)
        coming.wait()
    return x


def from_the_package(x: torch.Tensor) -> torch.Tensor:
    """Right: the package's two halves."""
    lengths = [len(chunk) for chunk in x.tensor_split(dist.get_world_size())]
    mine = collectives.ring_reduce_scatter(x)
    return collectives.ring_all_gather(mine, sizes=lengths)


def _ring(x: torch.Tensor, *, ahead: int = 1, second: int = 0, cut: bool = False) -> torch.Tensor:
    """A ring that can be made wrong in its second half, or by the rest of the division."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x[: len(x) // p * p].chunk(p) if cut else x.tensor_split(p))
    for step in range(p - 1):
        _round(chunks, rank - step, add=True)
    for step in range(p - 1 + second):
        _round(chunks, rank + ahead - step, add=False)
    return x


def _round(chunks: list[torch.Tensor], number: int, *, add: bool) -> None:
    rank, p = dist.get_rank(), dist.get_world_size()
    into = chunks[(number - 1) % p]
    arriving = torch.empty_like(into)
    sending = dist.isend(chunks[number % p], (rank + 1) % p)
    dist.recv(arriving, (rank - 1) % p)
    sending.wait()
    into.copy_(into + arriving if add else arriving)


def whole_tensors(x: torch.Tensor) -> torch.Tensor:
    """Wrong: right values; the whole tensor travels in each round."""
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


def at_the_root(x: torch.Tensor) -> torch.Tensor:
    """Wrong: rank 0 collects, adds and sends to everybody."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(x, 0)
        dist.recv(x, 0)
        return x
    part = torch.empty_like(x)
    for other in range(1, p):
        dist.recv(part, other)
        x += part
    for other in range(1, p):
        dist.send(x, other)
    return x


def on_rank_zero_only(x: torch.Tensor) -> torch.Tensor:
    """Wrong: reduce where all_reduce was meant."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(x, 0)
        return x
    part = torch.empty_like(x)
    for other in range(1, p):
        dist.recv(part, other)
        x += part
    return x


def twice(x: torch.Tensor) -> torch.Tensor:
    """Wrong: the sum of sums."""
    return my_all_reduce(my_all_reduce(x))


def first_half_only(x: torch.Tensor) -> torch.Tensor:
    """Wrong: every rank has one chunk of the sum, the rest is partial."""
    return _ring(x, second=1 - dist.get_world_size())


def a_copy_of_everything(x: torch.Tensor) -> torch.Tensor:
    """Wrong: right and lean on the wire, but with p tensors in memory."""
    kept = torch.stack([x] * dist.get_world_size())
    return my_all_reduce(kept[0])


def the_library(x: torch.Tensor) -> torch.Tensor:
    """Wrong here: the library does the work."""
    dist.all_reduce(x)
    return x


def _reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    return [torch.stack([x for (x,) in given]).sum(0)] * len(given)


EXERCISE = Exercise(
    name="01.3",
    title="A whole ring, in little memory",
    statement="""
Write `my_all_reduce(x)`. Every rank gets a tensor `x` of its own, one-dimensional and as long as the others'.
At the end every rank returns the sum over all ranks: first a ring that adds, as in exercise 01.1, then a ring
that passes the finished chunks on.

`x` may be changed. There is room for one more tensor of its size and a few chunks, not for p tensors.
""",
    inputs=inputs.whole,
    reference=_reference,
    budget=Budget(
        sent=Bound(volume.ring_all_reduce, naive=volume.unchunked_ring_all_reduce),
        rounds=Bound(volume.rounds.ring_all_reduce, naive=volume.rounds.ring_all_reduce),
        memory=Bound(
            amounts.chunks(1),
            naive=amounts.tensors(3),
            allowed=lambda nbytes, ranks: (
                amounts.tensors(2)(nbytes, ranks) + amounts.chunks(2)(nbytes, ranks)
            ),
        ),
    ),
    chunks=lambda rank, ranks: list(range(ranks)),
    hints=(
        "It is two rings, one after the other. The first one adds, and leaves one finished chunk on each "
        "rank. The "
        "second one only copies: in each round a finished chunk goes one rank further.",
        "Which chunk is finished on rank r after the first ring depends on which one it began with. The "
        "second ring "
        "must begin with just that one. What arrives in a round is what leaves in the next.",
        """
    for step in range(p - 1):
        ...                    # chunk (rank - step) % p leaves, what arrives is added to the one before
    for step in range(p - 1):
        ...                    # the finished chunk leaves first; what arrives replaces, nothing is added
    return x
""",
    ),
    picture=[[(0, 1, 0, "finished")], [(1, 2, 0, "finished")], [(2, 3, 0, "finished")]],
    solution=my_all_reduce,
    explanation="""
If rank r begins with chunk r, chunk r + 1 is finished on it after $p-1$ rounds. Round $p-1$ sends just that
chunk, `(rank - (p - 1)) % p`, so one formula serves both halves; only what is done with the arrival
differs.

Each half sends $\\frac{p-1}{p}D$. Beside `x`, one arriving chunk has to fit, and here a second one for the
sum.
""",
    right=(in_two_loops, from_the_package),
    wrong=(
        Wrong(partial(_ring, ahead=0), r"Rank 0: missing in chunk 0: the parts of ranks 1, 2 and 3"),
        Wrong(whole_tensors, r"Rank 0 sent .*, 2 times the allowed"),
        Wrong(at_the_root, r"Rank 0 sent .*, 2 times the allowed"),
        Wrong(
            on_rank_zero_only, r"Rank 1: missing in chunk 0: the parts of ranks 0, 2 and 3\. Rank 0 is right"
        ),
        Wrong(twice, r"Rank 0: in chunk 0, the part of rank 0 was added 4 times"),
        Wrong(first_half_only, r"missing in chunk 0"),
        Wrong(partial(_ring, cut=True), r"element 16800 is .*With 16,800 elements, which 4 ranks divide"),
        Wrong(partial(_ring, second=1), r"Rank 0 sent .*, 1.17 times the allowed"),
        Wrong(a_copy_of_everything, r"held .* beside its input"),
        Wrong(the_library, r"It calls all_reduce"),
    ),
)
