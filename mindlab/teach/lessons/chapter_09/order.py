"""Case 09-a: the axes of the mesh in another order than the shards were cut for."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import device_mesh, hybrid_mesh, join_hybrid, split_hybrid
from mindlab.parallel.ring import ring_attention
from mindlab.predict import volume
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_09 import given

Tensor = torch.Tensor


def attend_on_mesh(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """This rank's shard of the causal attention; shard n of the sequence lies on rank n."""
    mesh = device_mesh({"ulysses": ulysses, "ring": ring})
    return hybrid_attention(q, k, v, mesh, causal=True)


def repaired(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """This rank's shard of the causal attention; shard n of the sequence lies on rank n."""
    mesh = device_mesh({"ring": ring, "ulysses": ulysses})
    return hybrid_attention(q, k, v, mesh, causal=True)


def by_name(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """Right: the inner axis is said by its name."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses, inside="ulysses")
    return hybrid_attention(q, k, v, mesh, causal=True)


def told_lengths(q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """Right: with the lengths, which are all equal here."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    return hybrid_attention(q, k, v, mesh, causal=True, sizes=[[q.shape[1]] * ulysses] * ring)


def _by(how: str, q: Tensor, k: Tensor, v: Tensor, ring: int, ulysses: int) -> Tensor:
    """A half repair."""
    if how == "sizes swapped":
        mesh = device_mesh({"ring": ulysses, "ulysses": ring})
        return hybrid_attention(q, k, v, mesh, causal=True)
    if how == "ring alone":
        return ring_attention(q, k, v, causal=True)
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses, inside="ring" if how == "zigzag" else "ulysses")
    layout = "zigzag" if "zigzag" in how else "contiguous"
    return hybrid_attention(q, k, v, mesh, causal=how != "no mask", layout=layout)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, int, int]:
    q, k, v = (given.shards(x, trial)[rank] for x in given.whole(seed, trial))
    return q, k, v, trial["ring"], trial["ulysses"]


def _one_card(all_given: list[tuple[Any, ...]]) -> list[Tensor]:
    q, k, v = (torch.cat([one[place] for one in all_given], 1) for place in (0, 1, 2))
    return list(given.attended(q, k, v, causal=True).tensor_split(len(all_given), 1))


def mistakes(all_given: list[tuple[Any, ...]], rank: int) -> dict[str, Tensor]:
    """What another layout, or no mask, returns."""
    ring, ulysses = all_given[0][3:]
    found = {}
    for name, layout, causal in (
        ("the attention over a sequence in zigzag", "zigzag", True),
        ("the attention without a mask", "contiguous", False),
    ):
        parts = ([one[place] for one in all_given] for place in (0, 1, 2))
        q, k, v = (join_hybrid(part, ring=ring, ulysses=ulysses, layout=layout) for part in parts)
        out = given.attended(q, k, v, causal=causal)
        found[name] = split_hybrid(out, ring=ring, ulysses=ulysses, layout=layout)[rank]
    return found


def _sent(trial: Trial) -> int:
    asked = 8 * (trial["ring"] + trial["ulysses"] - 2)
    sent = volume.hybrid_attention(
        given.BATCH, trial["sequence"], trial["heads"], trial["kv_heads"], given.HEAD_DIM,
        ring=trial["ring"], ulysses=trial["ulysses"], itemsize=4,
    )  # fmt: skip
    return asked + int(sent.value)


REPAIR = Exercise(
    name="09-a",
    title="Right until somebody needs a mask",
    statement="""
This rank's shard of the causal attention on `ring` x `ulysses` ranks. Shard n of the sequence lies on rank n,
and all shards have one length.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(sent=Bound(OfTrial(_sent))),
    calls=given.CALLS,
    whole=given.nbytes,
    grain=lambda trial: 0,
    dims=given.DIMS,
    look=given.named(mistakes),
    trials=(
        Trial(4, sizes={"ring": 2, "ulysses": 2, "sequence": 24, "heads": 6, "kv_heads": 6}),
        Trial(3, sizes={"ring": 3, "ulysses": 1, "sequence": 24, "heads": 6, "kv_heads": 6}),
        Trial(6, sizes={"ring": 3, "ulysses": 2, "sequence": 24, "heads": 6, "kv_heads": 2}),
    ),
    hints=(
        "Which ranks are wrong, and by what? Compare the first and the last rank with those between.",
        "Write down for each rank its ring place and its ulysses place in this mesh, and beside it the piece "
        "of the sequence that belongs there (section 3 has the table). Which piece does it really have?",
        """
    mesh = ...                  # which of the two axes has neighbouring ranks?
    return hybrid_attention(q, k, v, mesh, causal=True)
""",
    ),
    solution=repaired,
    explanation="""
The last axis is inside: its groups are neighbours. With Ulysses outside, ranks 0 and 2 joined their pieces to
one "part", and took it for the first half of the sequence. Without a mask the order of keys is nothing to
attention, so every test without a mask passes. With one, positions decide who sees whom.

Rank 0 has the first piece and rank p-1 the last one in either order, so both are right. Look at the ranks in
the middle.
""",
    right=(by_name, told_lengths),
    wrong=(
        Wrong(attend_on_mesh, r"Rank 1: element .* Ranks 0 and 3 are right"),
        Wrong(partial(_by, "zigzag"), r"Ranks 0 and 1 are right"),
        Wrong(partial(_by, "zigzag and inside"), r"the attention over a sequence in zigzag"),
        Wrong(partial(_by, "no mask"), r"the attention without a mask"),
        Wrong(partial(_by, "ring alone"), r"times the allowed|sent"),
        Wrong(partial(_by, "sizes swapped"), r"cannot split|ring=2|element|sent"),
    ),
)

CASE = Case(
    name="09-a",
    title="Right until somebody needs a mask",
    story="""
A sampler for images cuts its sequence into four shards, shard n on rank n, and attends on a mesh of 2 x 2. It
has been compared with one card: equal. Then the same function is used in a language model. The results on
ranks 0 and 3 are right, and the text is nonsense.
""",
    program=attend_on_mesh,
    causes=(
        Choice(
            "The ring applies the mask to each block as if it were the first one.",
            "Then the last rank would be wrong as well. The same function on the other mesh is right.",
            holds=False,
        ),
        Choice(
            "Causal attention needs shards in zigzag.",
            "Zigzag shares out the work. Contiguous shards are right too, only unequal in work.",
            holds=False,
        ),
        Choice(
            "The mesh has Ulysses outside; the shards were dealt out for Ulysses inside.",
            "So ranks 0 and 2 take their pieces for neighbours. Without a mask the order of keys does not "
            "matter, and nobody noticed.",
            holds=True,
        ),
        Choice(
            "Ranks 1 and 2 are in no common group, so they never see each other's keys.",
            "On a mesh of two axes every piece reaches every rank, by one axis and then the other.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="the order of `use_ulysses_low` has to be that of the cut: feifeibear/long-context-attention "
    "(yunchang 0.6.4) gives it to both functions; the program is ours",
)
