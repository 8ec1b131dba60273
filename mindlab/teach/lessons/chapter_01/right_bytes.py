"""Case 01-b: right bytes, wrong values."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from mindlab.predict import volume
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Wrong
from mindlab.teach.lessons.chapter_01 import all_reduce


def learners_ring(x: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks, as a ring in two halves."""
    rank, p = dist.get_rank(), dist.get_world_size()
    chunks = list(x.tensor_split(p))

    def move(number: int) -> torch.Tensor:
        arriving = torch.empty_like(chunks[(number - 1) % p])
        sending = dist.isend(chunks[number % p], (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        return arriving

    for step in range(p - 1):
        chunks[(rank - step - 1) % p] += move(rank - step)
    for step in range(p - 1):
        chunks[(rank - step - 1) % p] = move(rank - step)
    return torch.cat(chunks)


_RING = all_reduce.EXERCISE

REPAIR = replace(
    _RING,
    name="01-b",
    title="Right bytes",
    statement="The sum over all ranks, on every rank, with the bytes and rounds of a ring.",
    budget=Budget(sent=_RING.budget.sent, rounds=Bound(volume.rounds.ring_all_reduce)),
    hints=(
        "The bytes are right, so every message has the right length. Look at what is in them: which "
        "chunk is finished "
        "on which rank when the second half begins?",
        "Follow chunk 0 through the first half on paper, with three ranks. On which rank does it meet "
        "the last of the "
        "three parts? That rank must send it first.",
        """
Only one line is wrong, in the second half:

    for step in range(p - 1):
        number = ...                               # the finished chunk first
        chunks[(number - 1) % p] = move(number)
""",
    ),
    explanation="""
After the first half, rank r holds the finished chunk r + 1: it arrived in the last round. So the second
half sends `rank + 1 - step`, not `rank - step`, and what arrives is the chunk before it. Here one formula
serves both halves, because `step` simply goes on counting.
""",
    wrong=(Wrong(learners_ring, r"missing in chunk 0"), *_RING.wrong[2:8]),
)

CASE = Case(
    name="01-b",
    title="Right bytes",
    story="""
A learner writes a ring AllReduce in two halves. On one rank, on the laptop at hand, it gives the right sum.
The number of bytes that it would send on p ranks is computed, and it is exactly the textbook's. So it is
handed in.
""",
    program=learners_ring,
    causes=(
        Choice(
            "The first half adds each part twice.",
            "Then a part would be in the sum two times. Look at the evidence: parts are missing, none is "
            "there twice.",
            holds=False,
        ),
        Choice(
            "The remainder of the division is dropped.",
            "`tensor_split` keeps it: some chunks are one element longer. And the values are wrong at a "
            "length that p "
            "divides, too.",
            holds=False,
        ),
        Choice(
            "A rank changes a chunk that is still being sent.",
            "`sending.wait()` comes before anything is changed. MindLab would have refused it, too.",
            holds=False,
        ),
        Choice(
            "The second half passes on a chunk that is not finished.",
            "It starts with chunk r on rank r, which has met only one rank's part; finished is the one "
            "that arrived "
            "last. With one rank nothing is passed on at all, so nobody sees it.",
            holds=True,
        ),
    ),
    repair=REPAIR,
    source="a learner's solution to an exercise of a public course (ARENA), run with one rank; rewritten",
)
