"""Case 01-a: right values, too many bytes."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.distributed as dist

from mindlab.predict import volume
from mindlab.predict.sources import PYTORCH_TUTORIAL
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Wrong
from mindlab.teach.lessons.chapter_01 import all_reduce


def published_ring(x: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks, as a ring."""
    rank, p = dist.get_rank(), dist.get_world_size()
    total = x.clone()
    travelling = x.clone()
    for _ in range(p - 1):
        arriving = torch.empty_like(travelling)
        sending = dist.isend(travelling, (rank + 1) % p)
        dist.recv(arriving, (rank - 1) % p)
        sending.wait()
        total += arriving
        travelling = arriving
    return total


_RING = all_reduce.EXERCISE

REPAIR = replace(
    _RING,
    name="01-a",
    title="Right values",
    statement="The sum over all ranks, on every rank, with as few bytes as a ring needs.",
    budget=Budget(sent=_RING.budget.sent, rounds=Bound(volume.rounds.ring_all_reduce)),
    hints=(
        "The values are right, so look at the bytes. Count them for one rank by hand: what leaves in one "
        "round, and "
        "how many rounds are there?",
        "Draw the tensor of one rank as p boxes. How many of them leave in a round? How many would have "
        "to, if every "
        "rank were responsible for one box of the sum?",
        """
Two halves instead of one loop:

    chunks = x.tensor_split(p)
    ...        # p-1 rounds: a chunk leaves, the arriving one is added
    ...        # p-1 rounds: a finished chunk leaves, the arriving one replaces
""",
    ),
    picture=(),
    wrong=(Wrong(published_ring, r"Rank 0 sent .*, 2 times the allowed"), *_RING.wrong[2:8]),
)

CASE = Case(
    name="01-a",
    title="Right values",
    story="""
A tutorial shows its own ring AllReduce, and others have copied it. It runs without an error, and every
rank holds the right sum. A team uses it on 8 cards and finds it four times slower than expected. On two
cards it was as quick as it should be.
""",
    program=published_ring,
    causes=(
        Choice(
            "Each rank sends to one neighbour only, so the other links are idle.",
            "That is so in every ring, also in a good one. It does not add a single byte.",
            holds=False,
        ),
        Choice(
            "The whole tensor travels in every round, where one chunk of p would do.",
            "Each rank sends $(p-1)D$. In chunks it is $2\\frac{p-1}{p}D$, which is p/2 times less, and "
            "the same at "
            "p = 2: two ranks cannot show the difference.",
            holds=True,
        ),
        Choice(
            "`isend` is followed by `recv`, so sending and receiving do not overlap.",
            "They do: `isend` returns at once, and its message leaves while this rank receives.",
            holds=False,
        ),
        Choice(
            "Sent and received bytes are added up, so the numbers are twice too large.",
            "The evidence counts what was sent, and nothing else. The wire says the same.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source=PYTORCH_TUTORIAL + "; retold here in other words",
)
