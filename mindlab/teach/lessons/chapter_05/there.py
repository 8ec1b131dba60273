"""Exercise 05.1: from positions to heads."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.ulysses import sequence_to_heads
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards


def my_sequence_to_heads(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """All positions of this rank's heads, (B, S, H/p, D)."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = x.shape
    leaving = x.reshape(batch, length, p, heads // p, head_dim).permute(2, 1, 0, 3, 4)
    leaving = leaving.reshape(p * length, batch, heads // p, head_dim)
    arriving = x.new_empty(sum(sizes), batch, heads // p, head_dim)
    dist.all_to_all_single(arriving, leaving, sizes, [length] * p)
    return arriving.transpose(0, 1)


def flat(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: pieces laid flat one after the other, cut again on arrival."""
    p, rank = dist.get_world_size(), dist.get_rank()
    batch, _, heads, head_dim = x.shape
    unit = batch * heads // p * head_dim
    leaving = torch.cat([piece.flatten() for piece in x.tensor_split(p, dim=2)])
    arriving = x.new_empty(sum(sizes) * unit)
    dist.all_to_all_single(arriving, leaving, [size * unit for size in sizes], [sizes[rank] * unit] * p)
    pieces = arriving.split([size * unit for size in sizes])
    return torch.cat([piece.view(batch, -1, heads // p, head_dim) for piece in pieces], dim=1)


def from_the_package(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Right: the package's own."""
    return sequence_to_heads(x, sizes=sizes)


def _exchange(leaving: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Equal pieces (p, ...) of this rank, for the pieces that all ranks have for it, one after the other."""
    p, rank = dist.get_world_size(), dist.get_rank()
    leaving = leaving.reshape(p * sizes[rank], -1)
    arriving = leaving.new_empty(sum(sizes), leaving.shape[1])
    dist.all_to_all_single(arriving, leaving, sizes, [sizes[rank]] * p)
    return arriving


def a_view(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: the memory is cut as it lies, by batch and positions, not by heads."""
    p = dist.get_world_size()
    batch, _, heads, head_dim = x.shape
    return _exchange(x.contiguous(), sizes).reshape(batch, sum(sizes), heads // p, head_dim)


def every_pth_head(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: rank r gets the heads r, r + p, …, not its neighbours."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = x.shape
    leaving = x.reshape(batch, length, heads // p, p, head_dim).permute(3, 1, 0, 2, 4)
    return _exchange(leaving, sizes).reshape(sum(sizes), batch, heads // p, head_dim).transpose(0, 1)


def batch_first(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: pieces are packed batch first, and taken for positions first: right for a batch of one."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = x.shape
    leaving = x.reshape(batch, length, p, heads // p, head_dim).permute(2, 0, 1, 3, 4)
    return _exchange(leaving, sizes).reshape(batch, sum(sizes), heads // p, head_dim)


def last_rank_first(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: the pieces are joined from the last rank to the first."""
    pieces = my_sequence_to_heads(x, sizes).split(sizes, dim=1)
    return torch.cat(pieces[::-1], dim=1)


def positions_first(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right numbers, but sequence first."""
    return my_sequence_to_heads(x, sizes).transpose(0, 1)


def in_equal_parts(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: all shards are taken to be as long as this one's; right where the ranks divide the sequence."""
    return my_sequence_to_heads(x, [x.shape[1]] * dist.get_world_size())


def by_lists(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong here: a list of pieces, which the library takes apart; gloo wants them equal."""
    leaving = [piece.contiguous() for piece in x.tensor_split(dist.get_world_size(), dim=2)]
    arriving = [torch.empty_like(piece) for piece in leaving]
    dist.all_to_all(arriving, leaving)
    return torch.cat(arriving, dim=1)


def one_call_a_sequence(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, a call for each sequence of the batch."""
    return torch.cat([my_sequence_to_heads(one, sizes) for one in x.split(1)])


def everything_to_everybody(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right values, but all heads go to all ranks, which then drop what is not theirs."""
    rank, p = dist.get_rank(), dist.get_world_size()
    leaving = x.transpose(0, 1).repeat(p, 1, 1, 1)
    arrived = _exchange(leaving, sizes).reshape(sum(sizes), *leaving.shape[1:]).transpose(0, 1)
    return arrived.tensor_split(p, dim=2)[rank].contiguous()


def many_copies(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Wrong: right and lean on the wire, with more copies in memory than it needs."""
    kept = [x.clone(), x.clone()]
    out = my_sequence_to_heads(kept[0], sizes).contiguous()
    return out + 0 * kept[1].sum()


def _given(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor, list[int]]:
    lengths = shards.sizes(trial)
    x = shards.whole(seed, "x", trial, trial["heads"])
    return x.split(lengths, dim=1)[rank].clone(memory_format=torch.contiguous_format), lengths


def _one_card(given: list[tuple[torch.Tensor, list[int]]]) -> list[torch.Tensor]:
    return list(torch.cat([x for x, _ in given], dim=1).tensor_split(len(given), dim=2))


EXERCISE = Exercise(
    name="05.1",
    title="From positions to heads",
    statement="""
Write `my_sequence_to_heads(x, sizes)`. `x` is this rank's shard of a sequence, (batch, positions, heads,
head_dim), with all H heads. `sizes` are the numbers of positions of all ranks, by rank; they may differ.

Return all S positions of this rank's own heads: (batch, S, H/p, head_dim). Rank 0 has the first H/p heads,
rank 1 the next ones, and so on. p divides H.

Make one call of `all_to_all_single(arriving, leaving, lengths that arrive, lengths that leave)`. It cuts
both tensors along their first dimension.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(
            OfTrial(lambda trial: shards.there(trial, trial["heads"])),
            naive=OfTrial(lambda trial: trial.ranks * shards.there(trial, trial["heads"])),
        ),
        memory=Bound(
            OfTrial(lambda trial: shards.blocks(2, trial["heads"], trial)),
            naive=OfTrial(lambda trial: shards.blocks(trial.ranks + 1, trial["heads"], trial)),
            allowed=OfTrial(lambda trial: shards.blocks(3, trial["heads"], trial)),
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
        "The call cuts memory, and knows nothing of heads. What is to reach one rank must lie together when "
        "it leaves.",
        "What arrives is cut the same way: the piece of rank 0, then that of rank 1, and so on. If positions "
        "are the first dimension of each piece, the pieces follow each other as the sequence does, and "
        "nothing has to be put in order afterwards.",
        """
    leaving = x.reshape(batch, length, p, ..., head_dim)   # heads in p groups
    leaving = leaving.permute(...)                         # rank, position, batch, head, head_dim
    leaving = leaving.reshape(...)                         # ranks and positions in one dimension
    arriving = x.new_empty(...)
    dist.all_to_all_single(arriving, leaving, ..., ...)
    return ...                                             # batch in front again
""",
    ),
    solution=my_sequence_to_heads,
    explanation="""
One copy before the call, none after it. `permute` only describes another order; the `reshape` behind it
copies, because the new order is no view of the old one.

The rank's own piece is in the call and in the memory, but does not travel: $\\frac{p-1}{p}$ of the shard
leaves.
""",
    right=(flat, from_the_package),
    wrong=(
        Wrong(a_view, r"Rank 0: element \[0, "),
        Wrong(every_pth_head, r"Rank 0: element \[0, 0, 1, 0\]"),
        Wrong(batch_first, r"Rank 0: the right values, all of them, in another order"),
        Wrong(last_rank_first, r"another order: along dimension 1 \(position\), where 0 belongs there is 18"),
        Wrong(positions_first, r"shape \(24, 2, 3, 8\), and \(2, 24, 3, 8\) is wanted"),
        Wrong(in_equal_parts, r"26|do not fit"),
        Wrong(by_lists, r"It calls all_to_all\b"),
        Wrong(one_call_a_sequence, r"called all_to_all_single 2 times; the budget is 1"),
        Wrong(everything_to_everybody, r"Rank 0 sent .*, 4 times the allowed"),
        Wrong(many_copies, r"held .* beside its input"),
    ),
)
