"""Case 05-b: there and back is where you were."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads, ulysses_attention
from mindlab.predict import volume
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards

Tensor = torch.Tensor


def one_exchange_for_both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's positions of the attention over the whole sequence."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = q.shape

    def exchange(x: Tensor) -> Tensor:
        leaving = x.reshape(p, -1)
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving)
        return arriving

    q, k, v = (exchange(x).reshape(batch, p * length, heads // p, head_dim) for x in (q, k, v))
    out, _ = attention_with_lse(q, k, v)
    return exchange(out).reshape(batch, length, heads, head_dim)


def repaired(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's positions of the attention over the whole sequence."""
    p = dist.get_world_size()
    batch, length, _, head_dim = q.shape

    def exchange(pieces: Tensor) -> Tensor:
        arriving = torch.empty_like(pieces)
        dist.all_to_all_single(arriving, pieces)
        return arriving

    def to_heads(x: Tensor) -> Tensor:
        pieces = x.reshape(batch, length, p, -1, head_dim)
        pieces = pieces.permute(2, 0, 1, 3, 4).contiguous()
        return exchange(pieces).transpose(0, 1).reshape(batch, p * length, -1, head_dim)

    def to_positions(x: Tensor) -> Tensor:
        pieces = x.reshape(batch, p, length, -1, head_dim).transpose(0, 1).contiguous()
        return exchange(pieces).permute(1, 2, 0, 3, 4).reshape(q.shape)

    out, _ = attention_with_lse(to_heads(q), to_heads(k), to_heads(v))
    return to_positions(out)


def by_lists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: lists of pieces, joined along the dimension that grows."""

    def exchange(x: Tensor, split: int, join: int) -> Tensor:
        leaving = [piece.contiguous() for piece in x.chunk(dist.get_world_size(), split)]
        arriving = [torch.empty_like(piece) for piece in leaving]
        dist.all_to_all(arriving, leaving)
        return torch.cat(arriving, join)

    out, _ = attention_with_lse(*(exchange(x, 2, 1) for x in (q, k, v)))
    return exchange(out, 1, 2)


def from_the_package(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: the package's own."""
    return ulysses_attention(q, k, v, sizes=[q.shape[1]] * dist.get_world_size())


def right_there_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: heads for positions on the way there, a mere reshape on the way back."""
    sizes = [q.shape[1]] * dist.get_world_size()
    out, _ = attention_with_lse(*(sequence_to_heads(x, sizes=sizes) for x in (q, k, v)))
    leaving = out.transpose(0, 1).contiguous()
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving)
    return arriving.reshape(q.shape)


def right_back_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: a mere reshape on the way there, put in order on the way back."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = q.shape

    def there(x: Tensor) -> Tensor:
        leaving = x.reshape(p, -1)
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving)
        return arriving.reshape(batch, p * length, heads // p, head_dim)

    out, _ = attention_with_lse(there(q), there(k), there(v))
    return heads_to_sequence(out)


def for_a_batch_of_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: right for a batch of one; else the batch is taken for positions."""
    p = dist.get_world_size()
    batch, length, heads, head_dim = q.shape

    def there(x: Tensor) -> Tensor:
        pieces = x.reshape(batch, length, p, -1, head_dim).permute(2, 0, 1, 3, 4).contiguous()
        arriving = torch.empty_like(pieces)
        dist.all_to_all_single(arriving, pieces)
        return arriving.reshape(batch, p * length, heads // p, head_dim)

    out, _ = attention_with_lse(there(q), there(k), there(v))
    return heads_to_sequence(out)


def heads_joined_along_positions(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: the way back has the shape of the way there."""
    out = from_the_package(q, k, v)
    p = dist.get_world_size()
    return out.reshape(q.shape[0], p * q.shape[1], q.shape[2] // p, q.shape[3])


def own_positions_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: no exchange at all."""
    return attention_with_lse(q, k, v)[0]


def everything_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: right values, at twice the bytes."""
    from_the_package(q, k, v)
    return from_the_package(q, k, v)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, ...]:
    wholes = (shards.whole(seed, name, trial, trial["heads"]) for name in "qkv")
    return tuple(inputs.part(x, rank, trial.ranks, dim=1) for x in wholes)


def _one_card(given: list[tuple[Tensor, ...]]) -> list[Tensor]:
    q, k, v = (torch.cat(list(parts), dim=1) for parts in zip(*given, strict=True))
    return list(attention_with_lse(q, k, v)[0].tensor_split(len(given), dim=1))


def _bytes(trial: Trial) -> object:
    shape = shards.BATCH, trial["sequence"], trial["heads"], trial["heads"], shards.HEAD_DIM
    return volume.ulysses_attention(*shape, trial.ranks, itemsize=4)


REPAIR = Exercise(
    name="05-b",
    title="There and back",
    statement="""
This rank's positions of the attention over the whole sequence. `q`, `k` and `v` are its shards, (batch,
positions, heads, head_dim), on all ranks equally long; p divides the heads.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_bytes)), collectives={"all_to_all": 4}),
    calls=("all_to_all",),
    whole=lambda trial: shards.block(trial, trial["heads"]),
    grain=lambda trial: 0,
    dims=("batch", "position", "head", "head_dim"),
    trials=(
        Trial(4, sizes={"sequence": 24, "heads": 12, "batch": shards.BATCH}),
        Trial(3, sizes={"sequence": 24, "heads": 12, "batch": shards.BATCH}),
    ),
    hints=(
        "Bytes, calls and shapes are right. What is in a piece? Follow the first piece that rank 0 sends to "
        "rank 1: which positions, which heads?",
        "Put (position, head) in place of features, as section 3 does, and draw what a rank holds between "
        "the two exchanges.",
        """
    def to_heads(x):
        pieces = ...        # what goes to one rank lies together: permute, then contiguous
        return ...          # what arrived, joined along positions
    def to_positions(x):
        pieces = ...        # another cut
        return ...          # what arrived, joined along heads: permute
""",
    ),
    solution=repaired,
    explanation="""
`x.reshape(p, -1)` cuts the memory as it lies: by batch and positions, each piece with all heads. Under the
shape (batch, S, H/p, head_dim) these numbers pass for other positions and heads, and attention mixes what
does not belong together.

The second exchange sends every piece home, and the second reshape undoes the first. So a round trip without
attention gives back what went in, bit by bit, however wrong the layout between is.
""",
    right=(by_lists, from_the_package),
    wrong=(
        Wrong(one_exchange_for_both, r"Rank 0: element .* are wrong"),
        Wrong(right_there_only, r"Rank 0: .*another order"),
        Wrong(right_back_only, r"Rank 0: element .* are wrong"),
        Wrong(for_a_batch_of_one, r"Rank 0: element .* are wrong"),
        Wrong(heads_joined_along_positions, r"shape \(2, 24, 3, 8\), and \(2, 6, 12, 8\) is wanted"),
        Wrong(own_positions_only, r"Nothing was sent"),
        Wrong(everything_twice, r"called all_to_all 8 times; the budget is 4"),
    ),
)

CASE = Case(
    name="05-b",
    title="There and back",
    story="""
A library goes over from the list form to `all_to_all_single`, which takes one tensor instead of p. A test
puts a random tensor through both exchanges and gets it back, bit by bit. Bytes, calls and shapes are as
before. The attention is not.
""",
    program=one_exchange_for_both,
    causes=(
        Choice(
            "The way back lacks the permutation that puts the heads in order.",
            "It lacks one, and so does the way there. If only the way back were wrong, the round trip would "
            "show it.",
            holds=False,
        ),
        Choice(
            "`all_to_all_single` splits along the first dimension, which is the batch.",
            "It would, without the `reshape(p, -1)`. Now it cuts the memory into p equal pieces; what is in "
            "them is the question.",
            holds=False,
        ),
        Choice(
            "Pieces are cut from the memory as it lies, by batch and position, and not by heads.",
            "Both exchanges make the same mistake, and the second undoes the first. In between each rank "
            "holds a part of the positions under other names.",
            holds=True,
        ),
        Choice(
            "`torch.empty_like` leaves numbers in `arriving` that nobody wrote.",
            "Every element is written by the exchange. Else the round trip would not give back what went in.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source='DeepSpeed pull request 5664, "Fixing the reshape bug in sequence parallel alltoall, which '
    'corrupted all QKV data" (2024); related: issue 5808 (a batch above one), pull request 8317; rewritten, '
    "and the test is ours",
)
