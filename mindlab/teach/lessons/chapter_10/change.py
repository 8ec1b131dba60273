"""Exercise 10.2: from the pieces of a prefill to a cache that is dealt in turn."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped
from mindlab.parallel.relayout import to_cache
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong

ROW = 6
Tensor = torch.Tensor


def my_change(x: Tensor, length: int) -> Tensor:
    """This rank's tokens of a cache that is dealt in turn, in the order of positions."""
    rank, p = dist.get_rank(), dist.get_world_size()
    pieces = torch.arange(length, device=x.device).tensor_split(p)
    target = pieces[rank] % p
    sent = torch.bincount(target, minlength=p).tolist()
    coming = [int((piece % p == rank).sum()) for piece in pieces]
    out = x.new_empty(sum(coming), x.shape[1])
    dist.all_to_all_single(out, x[target.argsort(stable=True)], coming, sent)
    return out


def with_steps(x: Tensor, length: int) -> Tensor:
    """Right: every p-th row, from the first one whose turn it is."""
    rank, p = dist.get_rank(), dist.get_world_size()
    sizes = [length // p + (r < length % p) for r in range(p)]
    starts = [sum(sizes[:r]) for r in range(p)]
    leaving = [x[(to - starts[rank]) % p :: p] for to in range(p)]
    counts = [len(range((rank - start) % p, size, p)) for start, size in zip(starts, sizes, strict=True)]
    return swapped(torch.cat(leaving), [len(rows) for rows in leaving], counts)


def from_the_package(x: Tensor, length: int) -> Tensor:
    """Right: the package's own."""
    return to_cache(x[None, :, None], length)[0, :, 0]


def by_its_own_index(x: Tensor, length: int) -> Tensor:
    """Wrong: dealt by the place in the piece; right where every piece begins at a multiple of p."""
    p = dist.get_world_size()
    leaving = [x[to::p] for to in range(p)]
    sizes = [length // p + (r < length % p) for r in range(p)]
    counts = [len(range(dist.get_rank(), size, p)) for size in sizes]
    return swapped(torch.cat(leaving), [len(rows) for rows in leaving], counts)


def everything_everywhere(x: Tensor, length: int) -> Tensor:
    """Wrong: every rank gets the whole prompt and keeps what it needs."""
    rank, p = dist.get_rank(), dist.get_world_size()
    longest = -(-length // p)
    padded = torch.cat([x, x.new_zeros(longest - len(x), x.shape[1])])
    every = [torch.empty_like(padded) for _ in range(p)]
    dist.all_gather(every, padded)
    sizes = [length // p + (r < length % p) for r in range(p)]
    whole = torch.cat([part[:size] for part, size in zip(every, sizes, strict=True)])
    return whole[rank::p]


def keeps_its_piece(x: Tensor, length: int) -> Tensor:
    """Wrong: the piece of the prefill is taken for the shard of the cache."""
    return x


def unsorted(x: Tensor, length: int) -> Tensor:
    """Wrong: the rows leave in the order of positions, not of ranks."""
    rank, p = dist.get_rank(), dist.get_world_size()
    pieces = torch.arange(length).tensor_split(p)
    sent = torch.bincount(pieces[rank] % p, minlength=p).tolist()
    coming = [int((piece % p == rank).sum()) for piece in pieces]
    out = x.new_empty(sum(coming), x.shape[1])
    dist.all_to_all_single(out, x, coming, sent)
    return out


def swapped_sizes(x: Tensor, length: int) -> Tensor:
    """Wrong: what comes and what goes in each other's place; right where the ranks divide the pieces."""
    rank, p = dist.get_rank(), dist.get_world_size()
    pieces = torch.arange(length).tensor_split(p)
    target = pieces[rank] % p
    sent = torch.bincount(target, minlength=p).tolist()
    coming = [int((piece % p == rank).sum()) for piece in pieces]
    out = x.new_empty(sum(coming), x.shape[1])
    dist.all_to_all_single(out, x[target.argsort(stable=True)], sent, coming)
    return out


def last_piece_first(x: Tensor, length: int) -> Tensor:
    """Wrong: the positions come out in another order."""
    return my_change(x, length).flip(0)


def block_by_block(x: Tensor, length: int) -> Tensor:
    """Wrong: two positions in a row for a rank."""
    return to_cache(x[None, :, None], length, block=2)[0, :, 0]


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, int]:
    length = trial["length"]
    return inputs.part(inputs.normal(seed, "x", length, ROW), rank, trial.ranks), length


def _one_card(all_given: list[tuple[Tensor, int]]) -> list[Tensor]:
    whole, ranks = torch.cat([x for x, _ in all_given]), len(all_given)
    return [whole[rank::ranks].clone() for rank in range(ranks)]


def _sent(trial: Trial) -> Quantity:
    """One key-value head of 3 numbers: 6 numbers a token."""
    return volume.decode_layout(1, trial["length"], 1, ROW // 2, trial.ranks, itemsize=4)


EXERCISE = Exercise(
    name="10.2",
    title="From prefill to cache",
    statement="""
Write `my_change(x, length)`. `x` (S_r, 6) is this rank's piece of a prompt of `length` tokens, cut as
`tensor_split` cuts: a row holds keys and values of one token. Return the rows of this rank's tokens in a
cache that is dealt in turn, position i on rank i mod p, in the order of positions.

Every rank knows p and `length`, and so who has what; no sizes need to be sent. The ranks need not divide the
length, and a prompt may be shorter than p.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent))),
    calls=("all_to_all", "all_gather"),
    whole=lambda trial: trial["length"] * ROW * 4,
    grain=lambda trial: 0,
    dims=("token", "feature"),
    trials=(
        Trial(4, sizes={"length": 16}),
        Trial(4, sizes={"length": 23}),
        Trial(3, sizes={"length": 10}),
        Trial(4, sizes={"length": 3}),
    ),
    hints=(
        "Which positions are in my piece, and what is each of them mod p? That is where the rows go.",
        "Write the positions 0 to 22 in four rows, as `tensor_split` cuts them: 6, 6, 6, 5. Under each, its "
        "rank in the cache. Row r of this table is what rank r sends; which numbers in it are 2? Those go to "
        "rank 2, and they are already in order.",
        """
    pieces = ...                    # the positions of every rank's piece
    target = ...                    # for each of my rows, the rank that it goes to
    sent, coming = ..., ...         # counted from the pieces: how many rows for each rank, from each rank
    dist.all_to_all_single(out, ..., coming, sent)   # the rows for one rank must lie together
""",
    ),
    solution=my_change,
    explanation="""
All sizes follow from p and the length, so one all-to-all is enough. What comes from a lower rank has lower
positions, so the rows arrive in order.

$\\frac{p-1}{p}$ of a piece leaves. With blocks as long as a piece nothing would; but then all new tokens
would lie on rank 0 until its next block is full, and rank 0 would read most.
""",
    right=(with_steps, from_the_package),
    wrong=(
        Wrong(by_its_own_index, r"length 16 it was right"),
        Wrong(everything_everywhere, r"times the allowed"),
        Wrong(keeps_its_piece, r"Nothing was sent"),
        Wrong(unsorted, r"24 of 24 elements|elements are wrong"),
        Wrong(swapped_sizes, r"Split sizes|length 16 it was right|do not fit together"),
        Wrong(last_piece_first, r"right values in another order"),
        Wrong(block_by_block, r"Rank 0"),
    ),
)
