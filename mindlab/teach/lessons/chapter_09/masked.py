"""Case 09-c: a mask for zigzag on shards that were cut plainly."""

from __future__ import annotations

from functools import partial

import torch

from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import hybrid_mesh, own_shard
from mindlab.predict import volume
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_09 import given

Tensor = torch.Tensor


def balanced_attention(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """This rank's zigzag shard of the causal attention over a whole sequence."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    q, k, v = (own_shard(x, mesh) for x in (q, k, v))
    return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")


def repaired(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """This rank's zigzag shard of the causal attention over a whole sequence."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    q, k, v = (own_shard(x, mesh, layout="zigzag") for x in (q, k, v))
    return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")


def cut_by_hand(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """Right: two chunks of 2 R, joined, and of these a piece."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    i, j = mesh.get_local_rank("ring"), mesh.get_local_rank("ulysses")

    def mine(x: Tensor) -> Tensor:
        chunks = x.tensor_split(2 * ring, 1)
        return torch.cat([chunks[i], chunks[-1 - i]], 1).tensor_split(ulysses, 1)[j]

    return hybrid_attention(mine(q), mine(k), mine(v), mesh, causal=True, layout="zigzag")


def ring_inside(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """Wrong: a mesh of its own, with other ranks at the places."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses, inside="ring")
    q, k, v = (own_shard(x, mesh, layout="zigzag") for x in (q, k, v))
    return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")


def order_named(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """Right: one word for the layout, used twice."""
    layout = "zigzag"
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses, inside="ulysses")
    q, k, v = (own_shard(x, mesh, layout=layout) for x in (q, k, v))
    return hybrid_attention(q, k, v, mesh, causal=True, layout=layout)


def _by(how: str, q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """A half repair."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    rank = mesh.get_rank()
    if how == "plain twice":
        q, k, v = (own_shard(x, mesh) for x in (q, k, v))
        return hybrid_attention(q, k, v, mesh, causal=True)
    if how == "by all ranks":
        chunks = [x.tensor_split(2 * ring * ulysses, 1) for x in (q, k, v)]
        q, k, v = (torch.cat([each[rank], each[-1 - rank]], 1) for each in chunks)
        return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")
    if how == "queries only":
        q = own_shard(q, mesh, layout="zigzag")
        k, v = (own_shard(x, mesh) for x in (k, v))
        return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")
    q, k, v = (own_shard(x, mesh, layout="zigzag") for x in (q, k, v))
    if how == "mask for plain":
        return hybrid_attention(q, k, v, mesh, causal=True)
    return hybrid_attention(q, k, v, mesh, layout="zigzag")


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, int, int]:
    q, k, v = given.whole(seed, trial)
    return q, k, v, trial["ring"], trial["ulysses"]


def _one_card(all_given: list[tuple[Tensor, Tensor, Tensor, int, int]]) -> list[Tensor]:
    q, k, v, ring, ulysses = all_given[0]
    trial = Trial(ring * ulysses, sizes={"ring": ring, "ulysses": ulysses})
    return given.shards(given.attended(q, k, v, causal=True), trial, "zigzag")


def mistakes(all_given: list[tuple[Tensor, Tensor, Tensor, int, int]], rank: int) -> dict[str, Tensor]:
    """What plain shards, or no mask, return."""
    q, k, v, ring, ulysses = all_given[0]
    trial = Trial(ring * ulysses, sizes={"ring": ring, "ulysses": ulysses})
    causal, free = (given.attended(q, k, v, causal=masked) for masked in (True, False))
    return {
        "the right values of shards that are cut plainly": given.shards(causal, trial)[rank],
        "the attention without a mask": given.shards(free, trial, "zigzag")[rank],
    }


def _sent(trial: Trial) -> float:
    asked = 8 * (trial["ring"] + trial["ulysses"] - 2)
    return asked + volume.hybrid_attention(
        given.BATCH, trial["sequence"], trial["heads"], trial["kv_heads"], given.HEAD_DIM,
        ring=trial["ring"], ulysses=trial["ulysses"], itemsize=4, layout="zigzag",
    ).value  # fmt: skip


REPAIR = Exercise(
    name="09-c",
    title="The same work for all, and wrong",
    statement="""
The causal attention of a whole sequence, which every rank is given, on `ring` x `ulysses` ranks: each returns
its zigzag shard, as `own_shard(…, layout="zigzag")` cuts, and all have the same work.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent))),
    calls=given.CALLS,
    whole=given.nbytes,
    grain=lambda trial: given.BATCH * trial["heads"] * given.HEAD_DIM * 4,
    dims=given.DIMS,
    look=given.named(mistakes),
    trials=(
        Trial(4, sizes={"ring": 2, "ulysses": 2, "sequence": 24, "heads": 6, "kv_heads": 6}),
        Trial(3, sizes={"ring": 3, "ulysses": 1, "sequence": 24, "heads": 6, "kv_heads": 6}),
        Trial(6, sizes={"ring": 3, "ulysses": 2, "sequence": 36, "heads": 6, "kv_heads": 2}),
    ),
    hints=(
        "Two calls speak of the layout. What does each of them believe?",
        "Write positions 0 to 7 on a strip. Cut it plainly into two parts, and write beside each position "
        "which one a zigzag mask takes it for.",
        """
    q, k, v = (own_shard(...) for x in (q, k, v))     # as the mask expects them
    return hybrid_attention(q, k, v, mesh, causal=True, layout="zigzag")
""",
    ),
    solution=repaired,
    explanation="""
A layout is an agreement between who cuts and who masks. Neither a tensor nor its shape says how it was cut:
both layouts give shards of the same length. The first shard is right by chance, for its first positions are
the same in both, and whoever looks at rank 0 alone sees nothing.

On a mesh zigzag goes by R, the size of the ring axis, not by all ranks.
""",
    right=(cut_by_hand, order_named),
    wrong=(
        Wrong(balanced_attention, r"Rank 1: element .* Rank 0 is right"),
        Wrong(partial(_by, "plain twice"), r"the right values of shards that are cut plainly"),
        Wrong(partial(_by, "by all ranks"), r"Rank 0: element"),
        Wrong(partial(_by, "queries only"), r"element"),
        Wrong(partial(_by, "mask for plain"), r"element"),
        Wrong(partial(_by, "no mask"), r"the attention without a mask"),
        Wrong(ring_inside, r"Rank 1 returned what belongs on rank 2"),
    ),
)

CASE = Case(
    name="09-c",
    title="The same work for all, and wrong",
    story="""
Under a causal mask the last ranks had most of the work. Somebody reads that zigzag shares it out, finds the
argument `layout="zigzag"`, and adds it. Now all ranks take the same time. A test on rank 0 looks at the first
positions: right.
""",
    program=balanced_attention,
    causes=(
        Choice(
            "Zigzag is for the ring alone. With Ulysses it cannot be used.",
            "It can: zigzag cuts the parts, Ulysses' pieces lie within a part.",
            holds=False,
        ),
        Choice(
            "The mask is made for zigzag shards, and the shards were cut plainly.",
            "`own_shard` cuts plainly unless it is told. The mask then hides keys that may be seen, and "
            "shows keys of later positions.",
            holds=True,
        ),
        Choice(
            "The sequence has no 2 p equal chunks.",
            "On this mesh zigzag needs 2 R chunks, and their lengths may differ.",
            holds=False,
        ),
        Choice(
            "The results are right, and stand in zigzag order; the test has to put them in order.",
            "The order is one thing. Put in order, most of them are still wrong.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a layout that only one side knows: zhuzilin/ring-flash-attention gives zigzag a function of its "
    "own and leaves the cut to the caller; the program is ours",
)
