"""Exercise 04.3: causal attention over zigzag shards, with no more work than there is."""

from __future__ import annotations

from functools import partial

import torch

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ring import merge_lse, visible_part
from mindlab.predict import flops
from mindlab.predict.quantity import Quantity
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_04 import attending

Tensor = torch.Tensor


def my_causal_zigzag(rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """The causal attention of this rank's queries over the shards of all ranks."""
    half = q.shape[1] // 2
    early = [attention_with_lse(q[:, :half], keys[rank][:, :half], values[rank][:, :half], causal=True)]
    late = [attention_with_lse(q[:, half:], keys[rank], values[rank], causal=True)]
    for source in range(len(keys)):
        k, v = keys[source], values[source]
        if source < rank:  # the first chunk of the block, to all queries
            k, v = k[:, :half], v[:, :half]
            early.append(attention_with_lse(q[:, :half], k, v))
        if source != rank:  # the whole of a later block, to the late queries
            late.append(attention_with_lse(q[:, half:], k, v))
    outs = [merge_lse(*zip(*parts, strict=True))[0] for parts in (early, late)]
    return torch.cat(outs, 1)


def by_the_packages_rule(rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Right: what is seen of a block, as the package has it."""
    sizes = [k.shape[1] for k in keys]
    own = attention_with_lse(q, keys[rank], values[rank], causal=True)
    outs, lses = [own[0]], [own[1]]
    for source, (k, v) in enumerate(zip(keys, values, strict=True)):
        if source == rank:
            continue
        seen = visible_part(rank, source, sizes, causal=True, layout="zigzag")
        out, lse = torch.zeros_like(q), torch.full_like(own[1], -torch.inf)
        out[:, seen.first :], lse[:, :, seen.first :] = attention_with_lse(
            q[:, seen.first :], k[:, : seen.keys], v[:, : seen.keys]
        )
        outs.append(out)
        lses.append(lse)
    return merge_lse(outs, lses)[0]


def chunks_in_order(rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Right: each chunk of queries meets all chunks up to its own, put in order; nothing to merge."""
    half, p = q.shape[1] // 2, len(keys)

    def up_to(parts: list[Tensor], number: int) -> Tensor:
        firsts, lasts = [x[:, :half] for x in parts], [x[:, half:] for x in reversed(parts)]
        return torch.cat((firsts + lasts)[: number + 1], 1)

    outs = [
        attention_with_lse(chunk, up_to(keys, number), up_to(values, number), causal=True)[0]
        for chunk, number in ((q[:, :half], rank), (q[:, half:], 2 * p - 1 - rank))
    ]
    return torch.cat(outs, 1)


def _by_rule(
    rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor], *, how: str = "", added: bool = False
) -> Tensor:
    """A rule for each block that can be made wrong."""
    half = q.shape[1] // 2
    parts = (
        [] if how == "others" else [attention_with_lse(q, keys[rank], values[rank], causal=how != "no mask")]
    )
    none = torch.zeros_like(q), torch.full((q.shape[0], q.shape[2], q.shape[1]), -torch.inf)
    for source, (k, v) in enumerate(zip(keys, values, strict=True)):
        out, lse = none[0].clone(), none[1].clone()
        rows, seen = slice(None), slice(None)
        if source == rank or (how == "contiguous" and source > rank):
            continue
        if source < rank and how not in ("contiguous", "all"):
            seen = slice(half, None) if how == "late keys" else slice(half)
        if source > rank:
            rows = slice(half) if how == "early queries" else slice(half, None)
        out[:, rows], lse[:, :, rows] = attention_with_lse(q[:, rows], k[:, seen], v[:, seen])
        parts.append((out, lse))
    outs, lses = zip(*parts, strict=True)
    return torch.stack(outs).sum(0) if added else merge_lse(outs, lses)[0]


def everything_masked_later(rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Wrong: right values; the whole triangle is computed on every rank, and most of it thrown away."""
    half, p = q.shape[1] // 2, len(keys)
    k, v = (torch.cat([x[:, :half] for x in parts] + [x[:, half:] for x in reversed(parts)], 1)
            for parts in (keys, values))  # fmt: skip
    padded = q.new_zeros(q.shape[0], k.shape[1], *q.shape[2:])
    places = (slice(rank * half, (rank + 1) * half), slice((2 * p - 1 - rank) * half, (2 * p - rank) * half))
    padded[:, places[0]], padded[:, places[1]] = q[:, :half], q[:, half:]
    out = attention_with_lse(padded, k, v, causal=True)[0]
    return torch.cat([out[:, place] for place in places], 1)


def by_plain_products(rank: int, q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Wrong here: nobody can tell how much it computes."""
    k, v = _in_order(keys), _in_order(values)
    half = q.shape[1] // 2
    at = torch.cat([torch.arange(half) + number * half for number in (rank, 2 * len(keys) - 1 - rank)])
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(torch.arange(k.shape[1]) > at[:, None], -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[int, Tensor, list[Tensor], list[Tensor]]:
    q, keys, values = attending.zigzag(seed, trial)
    return rank, q[rank], keys, values


def _one_card(given: list[tuple[int, Tensor, list[Tensor], list[Tensor]]]) -> list[Tensor]:
    q, k, v = (_in_order(shards) for shards in ([mine[1] for mine in given], given[0][2], given[0][3]))
    out = attending.exact(q, k, v, causal=True)
    chunks = out.chunk(2 * len(given), 1)
    return [torch.cat([chunks[rank], chunks[-1 - rank]], 1) for rank in range(len(given))]


def _in_order(shards: list[Tensor]) -> Tensor:
    """The sequence of zigzag shards with two chunks of one length each."""
    chunks = [x.chunk(2, 1) for x in shards]
    return torch.cat([early for early, _ in chunks] + [late for _, late in reversed(chunks)], 1)


def _each_pair(trial: Trial) -> int:
    """Floating-point operations of one pair of query and key, in all heads, batch 2."""
    return 4 * 2 * trial["heads"] * trial["head_dim"]


def _visible(trial: Trial) -> Quantity:
    return flops.visible_keys(trial["sequence"], trial.ranks, layout="zigzag")


def _too_much_work(attempt: Attempt) -> str:
    """Pairs of query and key that nobody had to compute, as the recorded attention says."""
    each, ranks = _each_pair(attempt.trial), attempt.trial.ranks
    for rank, wanted in enumerate(_visible(attempt.trial).by_rank(ranks)):
        pairs = round(sum(work.flop for work in attempt.run.work if work.rank == rank) / each)
        if not pairs:
            return f"Rank {rank} computed no attention that was recorded: use attention_with_lse."
        if pairs > wanted:
            return (
                f"Rank {rank} computed {pairs:,} pairs of query and key for each head; "
                f"its queries may see {wanted:,.0f}."
            )
    return ""


_PAIRS = r"computed {} pairs of query and key for each head; its queries may see {}"

EXERCISE = Exercise(
    name="04.3",
    title="Causal, and the same work on every rank",
    statement="""
Write `my_causal_zigzag(rank, q, keys, values)`. The sequence is cut in zigzag: of $2p$ chunks of one
length, rank r has chunk r and chunk $2p-1-r$, joined. `q` are this rank's queries, `keys` and `values` are
lists of all ranks' shards, by rank: think of them as the blocks that come round the ring. Nothing is to be
sent here.

Return the causal attention of these queries: each sees the keys up to its own position in the whole
sequence. Compute no pair that is hidden. `attention_with_lse(q, k, v, causal=…)` and `merge_lse` may be
used: the pairs are counted there. With `causal=True` and more keys than queries, the last query sees the
last key.
""",
    inputs=_inputs,
    reference=_one_card,
    pure=True,
    look=_too_much_work,
    budget=Budget(
        work=Bound(
            OfTrial(lambda trial: _each_pair(trial) * _visible(trial)),
            naive=OfTrial(lambda trial: _each_pair(trial) * trial["sequence"] ** 2 // trial.ranks),
        )
    ),
    trials=(
        Trial(4, sizes={"sequence": 48, "heads": 2, "head_dim": 10}),
        Trial(3, sizes={"sequence": 30, "heads": 2, "head_dim": 10}),
    ),
    dims=attending.DIMS,
    hints=(
        "Of a block, each of the two chunks of keys is either seen whole, or not at all, or along the "
        "diagonal, by each of the two chunks of queries. So there are four cases a block.",
        "Draw the mask for p = 2: four chunks of queries down, four chunks of keys across. Rank 0 has rows "
        "0 and 3, rank 1 rows 1 and 2. Mark what each of them computes with its own block, and with the "
        "other one's.",
        """
    half = q.shape[1] // 2
    ...                                  # own block: a causal mask fits, for both chunks are in order
    for source in range(len(keys)):
        if source < rank:
            ...                          # which keys of the block? which queries see them?
        if source > rank:
            ...                          # and here?
    ...                                  # merge the parts; a query that saw nothing of a block has none of it
""",
    ),
    solution=my_causal_zigzag,
    explanation="""
Chunk `source` of an earlier rank lies before both of this rank's chunks: all queries see it. Its other
chunk, $2p-1-$source, lies behind both: nobody sees it. Of a later rank it is the other way round: both its
chunks lie between this rank's two, so the late queries see both of them and the early ones none.

Either way it is half of the pairs of a block, for every rank and in every step but the first. That is why the
work is even. `visible_part` of the package holds this rule, for chunks of unequal length too.
""",
    right=(by_the_packages_rule, chunks_in_order),
    wrong=(
        Wrong(partial(_by_rule, how="contiguous"), _PAIRS.format(366, 294)),
        Wrong(partial(_by_rule, how="all"), _PAIRS.format(366, 294)),
        Wrong(partial(_by_rule, how="no mask"), _PAIRS.format(360, 294)),
        Wrong(partial(_by_rule, how="late keys"), r"Rank 1: element .*Rank 0 is right"),
        Wrong(partial(_by_rule, how="early queries"), r"Rank 0: element .*Rank 3 is right"),
        Wrong(partial(_by_rule, how="others"), r"Rank 0: element .* is 0 where .*No rank is right"),
        Wrong(partial(_by_rule, added=True), r"Rank 0: element \[0, 6, 0, 0\]"),
        Wrong(everything_masked_later, _PAIRS.format("1,176", 294)),
        Wrong(by_plain_products, r"no attention that was recorded"),
    ),
)
