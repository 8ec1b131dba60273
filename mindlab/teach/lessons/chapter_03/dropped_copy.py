"""Case 03-c: right for one request."""

from __future__ import annotations

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.parallel import sequence
from mindlab.predict import volume
from mindlab.teach import amounts, inputs
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, Trial, Wrong

HIDDEN = 16


def shard_of_sum(terms: torch.Tensor) -> torch.Tensor:
    """This rank's positions of the sum over all ranks."""
    positions = terms.transpose(0, 1)
    dist.all_reduce(positions.contiguous())
    mine = positions.tensor_split(dist.get_world_size())[dist.get_rank()]
    return mine.transpose(0, 1).contiguous()


def repaired(terms: torch.Tensor) -> torch.Tensor:
    """The same; what was summed is what is kept."""
    positions = terms.transpose(0, 1).contiguous()
    dist.all_reduce(positions)
    mine = positions.tensor_split(dist.get_world_size())[dist.get_rank()]
    return mine.transpose(0, 1).contiguous()


def by_a_ring(terms: torch.Tensor) -> torch.Tensor:
    """Right, with half of the bytes."""
    mine = ml.collectives.ring_reduce_scatter(terms.transpose(0, 1).contiguous())
    return mine.transpose(0, 1).contiguous()


def without_a_transpose(terms: torch.Tensor) -> torch.Tensor:
    """Right: the sum is over ranks, so the order of dimensions does not matter."""
    total = terms.clone()
    dist.all_reduce(total)
    return total.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


def by_the_library(terms: torch.Tensor) -> torch.Tensor:
    """Right: the library's reduce_scatter, of shards that are contiguous each."""
    parts = [part.contiguous() for part in terms.tensor_split(dist.get_world_size(), dim=1)]
    out = torch.empty_like(parts[dist.get_rank()])
    dist.reduce_scatter(out, parts)
    return out


def in_place_with_gaps(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: no copy any more, and gloo adds up the wrong elements: refused."""
    positions = terms.transpose(0, 1)
    dist.all_reduce(positions)
    return positions.tensor_split(dist.get_world_size())[dist.get_rank()].transpose(0, 1).contiguous()


def summed_twice(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: a second all_reduce after the first, to be safe."""
    positions = terms.transpose(0, 1).contiguous()
    dist.all_reduce(positions)
    dist.all_reduce(positions)
    mine = positions.tensor_split(dist.get_world_size())[dist.get_rank()]
    return mine.transpose(0, 1).contiguous()


def the_whole_sum(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: summed, and not cut."""
    total = terms.contiguous()
    dist.all_reduce(total)
    return total


def cut_along_the_batch(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: cut along the requests."""
    total = terms.contiguous()
    dist.all_reduce(total)
    return total.tensor_split(dist.get_world_size())[dist.get_rank()].contiguous()


def not_turned_back(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: positions stay the first dimension."""
    return ml.collectives.ring_reduce_scatter(terms.transpose(0, 1).contiguous())


def seen_as_positions(terms: torch.Tensor) -> torch.Tensor:
    """Wrong: the numbers are read in another order, as if the sequence stood first."""
    positions = terms.reshape(terms.shape[1], terms.shape[0], -1).contiguous()
    return sequence.scatter_sequence(
        positions.transpose(0, 1),
        [part.shape[1] for part in terms.tensor_split(dist.get_world_size(), dim=1)],
    )


def _given(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor]:
    """This rank's term of the sum."""
    return (inputs.normal(seed, "terms", trial["batch"], trial["sequence"], HIDDEN, rank=rank),)


def _reference(given: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    total = torch.stack([terms for (terms,) in given]).sum(0)
    return [part.clone() for part in total.tensor_split(len(given), dim=1)]


def _summands(given: list[tuple[torch.Tensor]], rank: int) -> list[torch.Tensor]:
    return [terms.tensor_split(len(given), dim=1)[rank] for (terms,) in given]


REPAIR = Exercise(
    name="03-c",
    title="Right for one request",
    statement="This rank's positions of the sum over all ranks, (batch, own positions, hidden).",
    inputs=_given,
    reference=_reference,
    summands=_summands,
    calls=("send", "recv", "isend", "irecv", "all_reduce", "reduce_scatter"),
    budget=Budget(
        sent=Bound(volume.ring_reduce_scatter, naive=amounts.to_every_other, allowed=volume.ring_all_reduce)
    ),
    whole=lambda trial: 4 * trial["batch"] * trial["sequence"] * HIDDEN,
    grain=lambda trial: 4 * trial["batch"] * HIDDEN if trial["sequence"] % trial.ranks else 0,
    dims=("batch", "sequence", "hidden"),
    trials=(
        Trial(4, sizes={"batch": 1, "sequence": 20}),
        Trial(4, sizes={"batch": 2, "sequence": 20}),
        Trial(3, sizes={"batch": 3, "sequence": 20}),
    ),
    hints=(
        "An all_reduce changes the tensor that it is given. Which tensor is that here, and which one is "
        "read after it?",
        "Draw the boxes of memory: one for `terms`, and one for what `.contiguous()` returns. With one "
        "request both are the same box. With two?",
        """
    positions = ...                       # a name for the tensor that is summed
    dist.all_reduce(positions)
    mine = positions....                  # and it is read again
""",
    ),
    solution=repaired,
    explanation="""
`.contiguous()` returns the tensor itself where it is contiguous, and else a copy. Here the copy is summed
and has no name: nobody can read it. With one request, exchanging batch and sequence moves no element, so
there is no copy, and the sum lands where it is looked for.

A reduce-scatter returns its result, and sends half as much.
""",
    right=(by_a_ring, without_a_transpose, by_the_library),
    wrong=(
        Wrong(shard_of_sum, r"Rank 0: missing in .*the parts of ranks 1, 2 and 3"),
        Wrong(in_place_with_gaps, r"a tensor that is not contiguous"),
        Wrong(summed_twice, r"Rank 0: .*4 times"),
        Wrong(the_whole_sum, r"returned a tensor of shape \(1, 20, 16\), and \(1, 5, 16\) is wanted"),
        Wrong(cut_along_the_batch, r"returned a tensor of shape"),
        Wrong(not_turned_back, r"returned a tensor of shape \(5, 1, 16\), and \(1, 5, 16\) is wanted"),
        Wrong(seen_as_positions, r"elements are wrong|another order|missing"),
    ),
)

CASE = Case(
    name="03-c",
    title="Right for one request",
    story="""
The exit of a tensor-parallel layer into sequence shards. The sequence is brought to the front, made
contiguous as the library demands, summed, and cut. All tests pass: they use one request at a time. In
production requests come in batches, and the model talks nonsense.
""",
    program=shard_of_sum,
    causes=(
        Choice(
            "With several requests the shards are cut along the batch.",
            "After the exchange the sequence is the first dimension, and it is cut along that.",
            holds=False,
        ),
        Choice(
            "gloo cannot sum a tensor that is not contiguous.",
            "It cannot. But it is given a contiguous one.",
            holds=False,
        ),
        Choice(
            "What is summed is a copy without a name, and the tensor that is read later never was summed.",
            "With one request `.contiguous()` returns the tensor itself, since no element moves. With two"
            " it copies.",
            holds=True,
        ),
        Choice(
            "The ranks sum different positions.",
            "All ranks hold all positions, in the same order.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="NVIDIA/Megatron-LM issue 5337, repaired in pull request 5338 (no caller handed it such a "
    "tensor); retold here in other words, at the exit of a layer",
)
