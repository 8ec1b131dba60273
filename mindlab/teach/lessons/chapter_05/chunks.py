"""Case 05-c: two positions more."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads, ulysses_attention
from mindlab.predict import volume
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards

Tensor = torch.Tensor


def in_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's positions of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()

    def exchange(x: Tensor, split: int, join: int) -> Tensor:
        leaving = [piece.contiguous() for piece in x.tensor_split(p, split)]
        arriving = [torch.empty_like(leaving[0]) for _ in range(p)]
        dist.all_to_all(arriving, leaving)
        return torch.cat(arriving, join)

    q, k, v = (torch.chunk(x, p, dim=1)[rank] for x in (q, k, v))
    q, k, v = (exchange(x, split=2, join=1) for x in (q, k, v))
    out, _ = attention_with_lse(q, k, v)
    return exchange(out, split=1, join=2)


def repaired(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's positions of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()
    pieces = [x.tensor_split(p, dim=1) for x in (q, k, v)]
    sizes = [piece.shape[1] for piece in pieces[0]]
    return ulysses_attention(*(of_all[rank] for of_all in pieces), sizes=sizes)


def filled_up(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: shards are filled up to one length; what was filled in is taken out before attention."""
    rank, p = dist.get_rank(), dist.get_world_size()
    lengths = [len(part) for part in torch.arange(q.shape[1]).tensor_split(p)]
    longest = [max(lengths)] * p
    real = torch.cat([torch.arange(n) + index * max(lengths) for index, n in enumerate(lengths)])

    def to_heads(x: Tensor) -> Tensor:
        mine = x.tensor_split(p, dim=1)[rank]
        mine = torch.cat([mine, mine.new_zeros(*mine.shape)[:, : max(lengths) - mine.shape[1]]], dim=1)
        return sequence_to_heads(mine, sizes=longest)[:, real]

    out, _ = attention_with_lse(to_heads(q), to_heads(k), to_heads(v))
    return heads_to_sequence(out, sizes=lengths)


def lengths_exchanged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right: the ranks tell each other how long their shards are."""
    rank, p = dist.get_rank(), dist.get_world_size()
    return ulysses_attention(*(x.tensor_split(p, dim=1)[rank] for x in (q, k, v)))


def even_but_by_lists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: an even cut, but room as for one's own piece."""
    return _by_lists(q, k, v, room_for_each=False)


def lists_with_room_for_each(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: an even cut and the right room; gloo takes no lists of unequal pieces."""
    return _by_lists(q, k, v, room_for_each=True)


def _by_lists(q: Tensor, k: Tensor, v: Tensor, *, room_for_each: bool) -> Tensor:
    rank, p = dist.get_rank(), dist.get_world_size()

    def to_heads(x: Tensor) -> Tensor:
        shares = x.tensor_split(p, dim=1)
        leaving = [piece.contiguous() for piece in shares[rank].tensor_split(p, dim=2)]
        length = [share.shape[1] if room_for_each else shares[rank].shape[1] for share in shares]
        batch, _, heads, head_dim = leaving[0].shape
        arriving = [x.new_empty(batch, n, heads, head_dim) for n in length]
        dist.all_to_all(arriving, leaving)
        return torch.cat(arriving, dim=1)

    out, _ = attention_with_lse(to_heads(q), to_heads(k), to_heads(v))
    return heads_to_sequence(out)


def filled_with_zeros(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: zeros at the end make all shards equal, and are attended to."""
    rank, p, length = dist.get_rank(), dist.get_world_size(), q.shape[1]
    wider = [torch.cat([x, x.new_zeros(*x.shape)[:, : -length % p]], dim=1) for x in (q, k, v)]
    equal = [wider[0].shape[1] // p] * p
    by_heads = (sequence_to_heads(x.chunk(p, dim=1)[rank], sizes=equal) for x in wider)
    return heads_to_sequence(attention_with_lse(*by_heads)[0][:, :length])


def rest_dropped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: the positions beyond p times S // p are left out."""
    rank, p = dist.get_rank(), dist.get_world_size()
    each = q.shape[1] // p
    mine = (x[:, rank * each : (rank + 1) * each] for x in (q, k, v))
    return ulysses_attention(*mine, sizes=[each] * p)


def shards_as_chunk_cuts(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: right numbers for the uneven cut of `chunk`, where an even one is wanted."""
    rank, p = dist.get_rank(), dist.get_world_size()
    each = -(-q.shape[1] // p)
    mine = [x[:, rank * each : (rank + 1) * each] for x in (q, k, v)]
    return ulysses_attention(*mine)


def whole_everywhere(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: every rank does everything."""
    return attention_with_lse(q, k, v)[0].tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()]


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, ...]:
    return tuple(shards.whole(seed, name, trial, trial["heads"]) for name in "qkv")


def _one_card(given: list[tuple[Tensor, ...]]) -> list[Tensor]:
    return list(attention_with_lse(*given[0])[0].tensor_split(len(given), dim=1))


def _bytes(trial: Trial) -> object:
    shape = shards.BATCH, trial["sequence"], trial["heads"], trial["heads"], shards.HEAD_DIM
    return volume.ulysses_attention(*shape, trial.ranks, itemsize=4)


def _filled_up(trial: Trial) -> int:
    """Bytes of the longest shard on every rank, and the lengths."""
    longest = -(-trial["sequence"] // trial.ranks)
    row = shards.BATCH * trial["heads"] * shards.HEAD_DIM * 4
    return 4 * longest * row * (trial.ranks - 1) // trial.ranks + 8 * (trial.ranks - 1)


REPAIR = Exercise(
    name="05-c",
    title="Two positions more",
    statement="""
This rank's positions of the attention over the whole sequence, cut as `torch.tensor_split` cuts. `q`, `k` and
`v` are whole on every rank, (batch, S, heads, head_dim). Any S will do, also one that p does not divide; p
divides the heads.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_bytes), allowed=OfTrial(_filled_up))),
    calls=("all_to_all", "send", "recv", "isend", "irecv", "all_gather"),
    whole=lambda trial: shards.block(trial, trial["heads"]),
    grain=lambda trial: 0,
    dims=("batch", "position", "head", "head_dim"),
    trials=(
        Trial(4, sizes={"sequence": 24, "heads": 12}),
        Trial(4, sizes={"sequence": 26, "heads": 12}),
        Trial(4, sizes={"sequence": 9, "heads": 12}),
        Trial(3, sizes={"sequence": 26, "heads": 12}),
    ),
    hints=(
        "Print `[piece.shape[1] for piece in torch.chunk(x, p, dim=1)]` for S = 26 and for S = 9, with p = 4."
        " How many pieces are there, and how long are they?",
        "Two things must change: the cut, and the room that each rank makes for what arrives from another. "
        "Which call takes lengths?",
        """
    pieces = [x.tensor_split(p, dim=1) for x in (q, k, v)]
    sizes = ...                       # the lengths of all ranks' shards
    return ulysses_attention(..., sizes=sizes)
""",
    ),
    solution=repaired,
    explanation="""
`torch.chunk` rounds the length of a piece up: 26 for 4 gives 7, 7, 7, 5, and 9 for 4 gives 3, 3, 3, only
three pieces. `tensor_split` gives p pieces whose lengths differ by one at most. An even cut alone is not
enough: the pieces still differ, each needs the room of its sender, and the list form of gloo takes equal
pieces only. One tensor and its lengths go through.

Zeros at the end are no way out by themselves: a key of zeros has the score 0 and gets its share of the
weights.
""",
    right=(filled_up, lengths_exchanged),
    wrong=(
        Wrong(in_chunks, r"do not fit together|raised"),
        Wrong(even_but_by_lists, r"do not fit together|raised"),
        Wrong(lists_with_room_for_each, r"raised .*invalid tensor size"),
        Wrong(filled_with_zeros, r"Rank 0: element .* it was right"),
        Wrong(rest_dropped, r"Rank 0 returned a tensor of shape \(2, 6, 12, 8\), and \(2, 7, 12, 8\)"),
        Wrong(
            shards_as_chunk_cuts, r"Rank 2 returned a tensor of shape \(2, 7, 12, 8\), and \(2, 6, 12, 8\)"
        ),
        Wrong(whole_everywhere, r"Nothing was sent"),
    ),
)

CASE = Case(
    name="05-c",
    title="Two positions more",
    story="""
The layout change of the documentation is right for 4096 positions on 4 or 8 cards. Real sequences are not
that round: with 26 positions on 4 ranks the program does not come to its end. On another library's tracker
somebody asks what to do with a sequence of 8423.
""",
    program=in_chunks,
    causes=(
        Choice(
            "4 ranks cannot share 26 positions.",
            "They can: 7, 7, 6, 6. Attention has no rule about lengths, and the ring takes them too.",
            holds=False,
        ),
        Choice(
            "`chunk` cuts unequal pieces, and every rank makes room as if all were like its own.",
            "The pieces are 7, 7, 7 and 5 long. A rank receives a piece as long as its sender's shard, "
            "not as its own.",
            holds=True,
        ),
        Choice(
            "The heads are not divisible: 12 heads on 4 ranks.",
            "They are: three each. Look at the lengths in the evidence.",
            holds=False,
        ),
        Choice(
            "A piece is not contiguous.",
            "`.contiguous()` is called on each. What does not fit is a length.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="the same sample as in case a (Ascend/MindIE-SD), rewritten; the question: "
    "feifeibear/long-context-attention issue 154, DeepSpeed issue 5177",
)
