"""Exercise 05.2: from heads back to positions."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.ulysses import heads_to_sequence
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards


def my_heads_to_sequence(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """This rank's positions of all heads, (B, S_r, H, D)."""
    length, p = sizes[dist.get_rank()], dist.get_world_size()
    batch, _, mine, head_dim = x.shape
    leaving = x.transpose(0, 1).contiguous()
    arriving = x.new_empty(p * length, batch, mine, head_dim)
    dist.all_to_all_single(arriving, leaving, [length] * p, sizes)
    pieces = arriving.reshape(p, length, batch, mine, head_dim)
    return pieces.permute(2, 1, 0, 3, 4).reshape(batch, length, p * mine, head_dim)


def piece_by_piece(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: pieces laid flat, cut on arrival, and joined along the heads."""
    length, p = sizes[dist.get_rank()], dist.get_world_size()
    batch, _, mine, head_dim = x.shape
    unit = batch * mine * head_dim
    leaving = torch.cat([piece.flatten() for piece in x.split(sizes, dim=1)])
    arriving = x.new_empty(p * length * unit)
    dist.all_to_all_single(arriving, leaving, [length * unit] * p, [size * unit for size in sizes])
    return torch.cat([piece.view(batch, length, mine, head_dim) for piece in arriving.chunk(p)], dim=2)


def from_the_package(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: the package's own."""
    return heads_to_sequence(x, sizes=sizes)


def _arrived(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """What each rank has of this rank's positions: (p, S_r, B, H/p, D)."""
    length, p = sizes[dist.get_rank()], dist.get_world_size()
    arriving = x.new_empty(p * length, x.shape[0], *x.shape[2:])
    dist.all_to_all_single(arriving, x.transpose(0, 1).contiguous(), [length] * p, sizes)
    return arriving.reshape(p, length, *arriving.shape[1:])


def not_put_in_order(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: the right shape, by a reshape alone: heads and positions change places."""
    pieces = _arrived(x, sizes)
    p, length, batch, mine, head_dim = pieces.shape
    return pieces.reshape(batch, length, p * mine, head_dim)


def as_it_came(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: the same reshape as on the way there: more positions instead of more heads."""
    pieces = _arrived(x, sizes)
    p, length, batch, mine, head_dim = pieces.shape
    return pieces.permute(2, 0, 1, 3, 4).reshape(batch, p * length, mine, head_dim)


def heads_of_all_ranks_in_turn(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: the ranks' heads are dealt like cards: 0, 3, 6, 9, 1, 4, …"""
    pieces = _arrived(x, sizes)
    p, length, batch, mine, head_dim = pieces.shape
    return pieces.permute(2, 1, 3, 0, 4).reshape(batch, length, p * mine, head_dim)


def batch_and_positions_mixed(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: heads are together, but positions still stand before the batch."""
    pieces = _arrived(x, sizes)
    p, length, batch, mine, head_dim = pieces.shape
    return pieces.permute(1, 2, 0, 3, 4).reshape(batch, length, p * mine, head_dim)


def cut_as_tensor_split_does(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: it cuts as `tensor_split` does, whatever `sizes` says."""
    even = [len(part) for part in torch.arange(x.shape[1]).tensor_split(dist.get_world_size())]
    return my_heads_to_sequence(x, even)


def the_last_positions_are_lost(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: every shard is taken to be S // p long."""
    p = dist.get_world_size()
    each = x.shape[1] // p
    return my_heads_to_sequence(x[:, : p * each], [each] * p)


def never_left(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: this rank's positions of its own heads, p times; nothing is sent."""
    rank = dist.get_rank()
    first = sum(sizes[:rank])
    return x[:, first : first + sizes[rank]].repeat(1, 1, dist.get_world_size(), 1)


def everything_to_everybody(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, but all positions go to all ranks, which drop what is not theirs."""
    rank, p = dist.get_rank(), dist.get_world_size()
    leaving = x.transpose(0, 1).repeat(p, 1, 1, 1)
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)
    whole = torch.cat(arriving.chunk(p), dim=2).transpose(0, 1)
    first = sum(sizes[:rank])
    return whole[:, first : first + sizes[rank]].contiguous()


def in_two_calls(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, a call for each sequence of the batch."""
    return torch.cat([my_heads_to_sequence(one, sizes) for one in x.split(1)])


def _given(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor, list[int]]:
    x = shards.whole(seed, "x", trial, trial["heads"])
    mine = x.tensor_split(trial.ranks, dim=2)[rank]
    return mine.clone(memory_format=torch.contiguous_format), shards.sizes(trial)


def _one_card(given: list[tuple[torch.Tensor, list[int]]]) -> list[torch.Tensor]:
    return list(torch.cat([x for x, _ in given], dim=2).split(given[0][1], dim=1))


EXERCISE = Exercise(
    name="05.2",
    title="Back to positions",
    statement="""
Write `my_heads_to_sequence(x, sizes)`, the way back. `x` holds all S positions of this rank's heads, (batch,
S, H/p, head_dim). `sizes` are the numbers of positions that the ranks shall have, by rank; they may differ.

Return this rank's positions of all heads: (batch, sizes[rank], H, head_dim), heads in the order of ranks. One
call of `all_to_all_single`.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(
            OfTrial(lambda trial: shards.back(trial, trial["heads"])),
            naive=OfTrial(lambda trial: trial.ranks * shards.back(trial, trial["heads"])),
        ),
        memory=Bound(
            OfTrial(lambda trial: shards.blocks(3, trial["heads"], trial)),
            allowed=OfTrial(lambda trial: shards.blocks(4, trial["heads"], trial)),
        ),
        collectives={"all_to_all_single": 1},
    ),
    calls=("all_to_all_single",),
    whole=lambda trial: shards.block(trial, trial["heads"]),
    grain=lambda trial: 0,
    dims=("batch", "position", "head", "head_dim"),
    trials=(
        Trial(4, sizes={"sequence": 24, "heads": 12}),
        Trial(4, sizes={"sequence": 26, "heads": 12}),
        Trial(3, sizes={"sequence": 26, "heads": 12}),
    ),
    hints=(
        "What leaves is easy this time: the positions of one rank must lie together. What arrives is not in "
        "order yet.",
        "The piece of rank 0 holds this rank's positions of the first heads, that of rank 1 the same "
        "positions of the next heads. Write down the five dimensions of what arrived: rank, position, batch, "
        "head, head_dim. Which order do you want?",
        """
    leaving = ...                                 # positions first, then batch
    arriving = x.new_empty(...)                   # p pieces, this rank's positions in each
    dist.all_to_all_single(arriving, leaving, ..., ...)
    pieces = arriving.reshape(p, ...)
    return pieces.permute(...).reshape(...)       # heads of all ranks side by side
""",
    ),
    solution=my_heads_to_sequence,
    explanation="""
On the way there the pieces are joined along positions, and that is the order in which they lie. On the way
back they are joined along heads, which stand behind position and batch: this needs a `permute`. A `reshape`
alone gives the right shape, the right bytes, and other numbers.
""",
    right=(piece_by_piece, from_the_package),
    wrong=(
        Wrong(not_put_in_order, r"Rank 0: the right values, all of them, in another order"),
        Wrong(as_it_came, r"shape \(2, 24, 3, 8\), and \(2, 6, 12, 8\) is wanted"),
        Wrong(
            heads_of_all_ranks_in_turn, r"along dimension 2 \(head\), where 1 belongs there is 3\. No rank"
        ),
        Wrong(batch_and_positions_mixed, r"the right values, all of them, in another order"),
        Wrong(cut_as_tensor_split_does, r"shape \(2, 7, 12, 8\), and \(2, 6, 12, 8\) is wanted"),
        Wrong(the_last_positions_are_lost, r"Rank 3 .*shape \(2, 6, 12, 8\), and \(2, 8, 12, 8\)"),
        Wrong(never_left, r"Nothing was sent"),
        Wrong(everything_to_everybody, r"Rank 0 sent .*, 4 times the allowed"),
        Wrong(in_two_calls, r"called all_to_all_single 2 times; the budget is 1"),
    ),
)
