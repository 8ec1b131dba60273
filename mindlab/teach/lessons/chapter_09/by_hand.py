"""Exercise 09.2: hybrid attention from its two parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import hybrid_mesh
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads, ulysses_attention
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_09 import given

Tensor = torch.Tensor
Sizes = list[list[int]]


def my_hybrid(q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Tensor:
    """This rank's shard of the causal attention over the whole sequence."""
    mesh = hybrid_mesh(ring=len(sizes), ulysses=len(sizes[0]))
    near, far = mesh.get_group("ulysses"), mesh.get_group("ring")
    part, parts = sizes[mesh.get_local_rank("ring")], [sum(row) for row in sizes]
    q, k, v = (sequence_to_heads(x, sizes=part, group=near) for x in (q, k, v))
    out = ring_attention(q, k, v, causal=True, sizes=parts, group=far)
    return heads_to_sequence(out, sizes=part, group=near)


def from_the_package(q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Tensor:
    """Right: the package's own."""
    mesh = hybrid_mesh(ring=len(sizes), ulysses=len(sizes[0]))
    return hybrid_attention(q, k, v, mesh, causal=True, sizes=sizes)


def groups_by_numbers(q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Tensor:
    """Right: groups from the ranks' numbers, made by every rank in one order."""
    rank, table = dist.get_rank(), torch.arange(len(sizes) * len(sizes[0])).view(len(sizes), -1)
    rows = [dist.new_group(row) for row in table.tolist()]
    columns = [dist.new_group(column) for column in table.T.tolist()]
    i, j = rank // table.shape[1], rank % table.shape[1]
    heads = [sequence_to_heads(x, sizes=sizes[i], group=rows[i]) for x in (q, k, v)]
    out = ring_attention(*heads, causal=True, sizes=[sum(row) for row in sizes], group=columns[j])
    return heads_to_sequence(out, sizes=sizes[i], group=rows[i])


def _by(how: str, q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Any:
    """Hybrid attention with one thing made wrong."""
    inside = "ring" if how == "ring inside" else "ulysses"
    mesh = hybrid_mesh(ring=len(sizes), ulysses=len(sizes[0]), inside=inside)
    near, far = mesh.get_group("ulysses"), mesh.get_group("ring")
    part, parts = sizes[mesh.get_local_rank("ring")], [sum(row) for row in sizes]
    if how == "ring alone":
        return ring_attention(q, k, v, causal=True, sizes=[n for row in sizes for n in row])
    if how == "part alone":
        return ulysses_attention(q, k, v, causal=True, sizes=part, group=near)
    if how == "column alone":
        column = [row[mesh.get_local_rank("ulysses")] for row in sizes]
        return ring_attention(q, k, v, causal=True, sizes=column, group=far)
    if how == "axes swapped":
        near, far = far, near
    if how == "lengths asked":
        part, parts = None, None  # type: ignore[assignment]
    q, k, v = (sequence_to_heads(x, sizes=part, group=near) for x in (q, k, v))
    if how == "keys twice":
        v = k
    layout = "zigzag" if how == "zigzag" else "contiguous"
    out = ring_attention(q, k, v, causal=how != "no mask", layout=layout, sizes=parts, group=far)
    return out if how == "no way back" else heads_to_sequence(out, sizes=part, group=near)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, Sizes]:
    cut = [given.shards(x, trial) for x in given.whole(seed, trial)]
    lengths = [shard.shape[1] for shard in cut[0]]
    columns = trial["ulysses"]
    table = [lengths[i : i + columns] for i in range(0, len(lengths), columns)]
    return cut[0][rank], cut[1][rank], cut[2][rank], table


def _one_card(all_given: list[tuple[Any, ...]]) -> list[Tensor]:
    q, k, v = (torch.cat([one[place] for one in all_given], 1) for place in (0, 1, 2))
    out = given.attended(q, k, v, causal=True)
    return list(out.split([one[0].shape[1] for one in all_given], 1))


def _sent(trial: Trial) -> Quantity:
    return volume.hybrid_attention(
        given.BATCH, trial["sequence"], trial["heads"], trial["kv_heads"], given.HEAD_DIM,
        ring=trial["ring"], ulysses=trial["ulysses"], itemsize=4,
    )  # fmt: skip


def _mistakes(all_given: list[tuple[Any, ...]], rank: int) -> dict[str, Tensor]:
    """What comes without a mask, and of a mesh with the ring inside, where the parts are as long."""
    rows, columns = len(all_given[0][3]), len(all_given[0][3][0])
    order = [i + rows * j for i in range(rows) for j in range(columns)]

    def shard(order: list[int], causal: bool) -> Tensor:
        q, k, v = (torch.cat([all_given[r][place] for r in order], 1) for place in (0, 1, 2))
        lengths = [all_given[r][0].shape[1] for r in order]
        out: Tensor = given.attended(q, k, v, causal=causal).split(lengths, 1)[order.index(rank)]
        return out

    return {
        "the attention without a mask": shard(sorted(order), False),
        "the attention with the two axes exchanged: a ring inside, Ulysses across": shard(order, True),
    }


def _look(attempt: Attempt) -> str:
    """A mistake by its name, or that the lengths were asked for."""
    exact = _sent(attempt.trial).by_rank(attempt.trial.ranks)
    more = {seen - int(need) for seen, need in zip(attempt.run.sent.tolist(), exact, strict=True)}
    few = len(more) == 1 and 0 < max(more) <= 128 and max(more) % 8 == 0
    if few and all(map(given.near, attempt.values, attempt.wanted)):
        size = f"{max(more):.0f} B"
        return (
            f"Each rank sent {size} more than is needed: the lengths were asked for, and they are in `sizes`."
        )
    return given.named(_mistakes)(attempt)


def _by_ring(trial: Trial) -> Quantity:
    return volume.ring_attention(
        given.BATCH, trial["sequence"], trial["kv_heads"], given.HEAD_DIM, trial.ranks, itemsize=4
    )


EXERCISE = Exercise(
    name="09.2",
    title="Two dimensions",
    statement="""
Write `my_hybrid(q, k, v, sizes)`. `q`, `k`, `v` (batch, positions, heads, head_dim) are this rank's shards,
with all heads. `sizes` is a table of all shards' lengths: a row for each ring place, in it a number for each
ulysses place. Ulysses is the inner axis, the parts are contiguous.

Return this rank's shard of the **causal** attention over the whole sequence. Make the mesh with
`hybrid_mesh(ring=…, ulysses=…)`. You may use `sequence_to_heads`, `heads_to_sequence` and `ring_attention`,
each with `sizes=` and `group=`. No more bytes than hybrid attention needs; the lengths are known, so nobody
has to ask for them.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent), naive=OfTrial(_by_ring))),
    calls=given.CALLS,
    whole=given.nbytes,
    grain=lambda trial: 0,
    dims=given.DIMS,
    look=_look,
    trials=(
        Trial(4, sizes={"ring": 2, "ulysses": 2, "sequence": 24, "heads": 6, "kv_heads": 6}),
        Trial(4, sizes={"ring": 2, "ulysses": 2, "sequence": 25, "heads": 6, "kv_heads": 6}),
        Trial(3, sizes={"ring": 3, "ulysses": 1, "sequence": 25, "heads": 6, "kv_heads": 2}),
        Trial(6, sizes={"ring": 3, "ulysses": 2, "sequence": 25, "heads": 8, "kv_heads": 4}),
    ),
    hints=(
        "After the first exchange a rank has some heads of a whole part. From there on its partners are "
        "those with the same heads of the other parts.",
        "Draw the ranks as a table, a row for each part. Along a row: to the heads and, at the end, back. "
        "Down a column: the ring. Which lengths does a row know, and which a column?",
        """
    mesh = hybrid_mesh(ring=..., ulysses=...)
    near, far = mesh.get_group(...), mesh.get_group(...)
    part = ...                         # the lengths of the shards in this rank's row
    parts = ...                        # the lengths of all parts
    ...                                # to the heads, round the ring, back
""",
    ),
    solution=my_hybrid,
    explanation="""
The ring sees one sequence: the parts, one a ring place, of this rank's heads. That they were put together
from pieces a moment ago is nothing to it. So the causal mask needs no third case.
""",
    right=(from_the_package, groups_by_numbers),
    wrong=(
        Wrong(partial(_by, "ring alone"), r"sent .* the allowed"),
        Wrong(partial(_by, "part alone"), r"element .* wrong|Rank 2"),
        Wrong(partial(_by, "column alone"), r"Rank \d: element|element \["),
        Wrong(partial(_by, "axes swapped"), r"two axes exchanged"),
        Wrong(partial(_by, "lengths asked"), r"32 B more than is needed: the lengths were asked for"),
        Wrong(partial(_by, "ring inside"), r"two axes exchanged"),
        Wrong(partial(_by, "no way back"), r"shape \(2, 12, 3, 8\), and \(2, 6, 6, 8\) is wanted"),
        Wrong(partial(_by, "no mask"), r"without a mask"),
        Wrong(partial(_by, "zigzag"), r"element"),
        Wrong(partial(_by, "keys twice"), r"element"),
    ),
)
