"""Case 04-a: the sample of a manual that was never run."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from mindlab.teach.lesson import Case, Choice, Wrong
from mindlab.teach.lessons.chapter_04 import by_shards

Tensor = torch.Tensor


def ring_of_the_manual(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's part of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()

    def attend(q, k, v):  # type: ignore[no-untyped-def]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ v

    out = attend(q, k, v)
    for _ in range(p - 1):
        k_next, v_next = torch.empty_like(k), torch.empty_like(v)
        dist.send_recv(k, k_next, send=(rank + 1) % p, recv=(rank - 1) % p)  # type: ignore[attr-defined]
        dist.send_recv(v, v_next, send=(rank + 1) % p, recv=(rank - 1) % p)  # type: ignore[attr-defined]
        k, v = k_next, v_next
        out += attend(q, k, v)
    return out  # type: ignore[no-any-return]


REPAIR = replace(
    by_shards.REPAIR,
    title="The sample of a manual",
    hints=(
        "Repair what stops it, and hold the result against one card. Then ask how far one rank alone is "
        "right: with p = 1 nothing travels at all.",
        "Write the shapes beside the product: q is (batch, sequence, heads, head_dim), k transposed in its "
        "last two dimensions. Which two lengths does the table of scores have? Which two should it have?",
        """
    merged = ...                                  # (out, lse) over the own keys
    for _ in range(p - 1):
        ...                                       # both ends posted, then both waited for
        merged = ...                              # what you have, and the new block, each with its weight
    return merged[0]
""",
    ),
    explanation="""
Three faults, each hidden behind the one before. torch.distributed has no `send_recv`; `batch_isend_irecv`
posts both ends at once (a plain `send` before `recv` would wait for ever). In (batch, sequence, heads,
head_dim) the product of the last two dimensions is heads x heads: every position attends to its own heads,
and the shape of the result is right all the same. And `+=` adds softmaxes that were divided by different
sums.
""",
    wrong=(
        Wrong(ring_of_the_manual, r"Rank 0 raised AttributeError: .*send_recv"),
        *by_shards.REPAIR.wrong,
    ),
)

CASE = Case(
    name="04-a",
    title="The sample of a manual",
    story="""
A manual of parallel inference shows ring attention in some thirty lines, the only code for it on the page.
Somebody copies it. It stops at once, so the call that stops it is replaced by one that exists. Now it runs,
and the shapes are right.
""",
    program=ring_of_the_manual,
    causes=(
        Choice(
            "It calls a function that torch.distributed does not have; with that replaced it is right.",
            "That is the first fault. Behind it the values are wrong, even with one rank.",
            holds=False,
        ),
        Choice(
            "It makes $p-1$ transfers; one more is needed before every rank has met all keys.",
            "After $p-1$ transfers every rank has met all $p$ blocks: its own needs none.",
            holds=False,
        ),
        Choice(
            "A missing function, a softmax over heads, and results added without their weights.",
            "Each fault hides the next one. With one rank the last cannot be seen, and no check of shapes "
            "sees the second.",
            holds=True,
        ),
        Choice(
            "The blocks travel the wrong way round the ring.",
            "Either direction brings all blocks to all ranks.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="MindIE SD, documentation of multi-card parallelism, Ring Sequence Parallel (docs/zh/features/"
    "parallelism.md in Ascend/MindIE-SD, May 2026); retold here in other words",
)
