"""Case 05-a: equal to the last bit."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.teach import inputs, likely
from mindlab.teach.lesson import Budget, Case, Choice, Exercise, Trial, Wrong
from mindlab.teach.lessons.chapter_05 import shards

Environment = Mapping[str, str]
PER_HOST = 2


def published_sample(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """The attention of one sequence over itself, whole on every rank."""
    world_size = int(environment["WORLD_SIZE"])
    rank = int(environment["LOCAL_RANK"])

    def exchange(tensor: torch.Tensor, split: int, join: int) -> torch.Tensor:
        leaving = [piece.contiguous() for piece in tensor.tensor_split(world_size, split)]
        arriving = [torch.empty_like(leaving[0]) for _ in leaving]
        dist.all_to_all(arriving, leaving)
        return torch.cat(arriving, join)

    x = x.chunk(world_size, dim=1)[rank]
    x = exchange(x, split=2, join=1)
    out, _ = attention_with_lse(x, x, x)
    out = exchange(out, split=1, join=2)
    gathered = [torch.empty_like(out) for _ in range(world_size)]
    dist.all_gather(gathered, out)
    return torch.cat(gathered, dim=1)


def repaired(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """The attention of rank 0's sequence over itself, whole on every rank."""
    world_size, rank = int(environment["WORLD_SIZE"]), int(environment["RANK"])
    dist.broadcast(x, src=0)
    mine = x.tensor_split(world_size, dim=1)[rank].contiguous()
    out = ulysses_attention(mine, mine, mine)
    gathered = [torch.empty_like(out) for _ in range(world_size)]
    dist.all_gather(gathered, out)
    return torch.cat(gathered, dim=1)


def dealt_by_rank_zero(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Right: rank 0 deals out the shards of its own sequence."""
    pieces = [piece.contiguous() for piece in x.chunk(dist.get_world_size(), dim=1)]
    mine = torch.empty_like(pieces[0])
    dist.scatter(mine, pieces if dist.get_rank() == 0 else None, src=0)
    out = ulysses_attention(mine, mine, mine)
    gathered = [torch.empty_like(out) for _ in pieces]
    dist.all_gather(gathered, out)
    return torch.cat(gathered, dim=1)


def asks_the_group(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Right: the sample with one input, and the rank that the group itself gives."""
    dist.broadcast(x, src=0)
    return published_sample({**environment, "LOCAL_RANK": str(dist.get_rank())}, x)


def one_input_only(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: one input, but the second host cuts the pieces of the first."""
    dist.broadcast(x, src=0)
    return published_sample(environment, x)


def right_rank_only(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: each rank cuts its own piece, of its own input."""
    return published_sample({**environment, "LOCAL_RANK": environment["RANK"]}, x)


def one_input_a_host(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: the first rank of each host sends its input to its own host only."""
    first = dist.get_rank() - int(environment["LOCAL_RANK"])
    if first == dist.get_rank():
        for other in range(first + 1, min(first + PER_HOST, dist.get_world_size())):
            dist.send(x, other)
    else:
        dist.recv(x, first)
    return right_rank_only(environment, x)


def everyone_for_himself(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: no exchange; right on rank 0 alone."""
    dist.barrier()
    return attention_with_lse(x, x, x)[0]


def own_positions_only(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: one input, right ranks, and attention over a rank's own positions."""
    dist.broadcast(x, src=0)
    mine = x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()
    out, _ = attention_with_lse(mine, mine, mine)
    gathered = [torch.empty_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, out)
    return torch.cat(gathered, dim=1)


def keeps_its_shard(environment: Environment, x: torch.Tensor) -> torch.Tensor:
    """Wrong: right, but each rank keeps its positions to itself."""
    return repaired(environment, x).chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


def environment_of(rank: int, ranks: int) -> dict[str, str]:
    """What a launcher sets on hosts of two cards each."""
    return {"WORLD_SIZE": str(ranks), "RANK": str(rank), "LOCAL_RANK": str(rank % PER_HOST)}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Environment, torch.Tensor]:
    shape = shards.BATCH, trial["sequence"], trial["heads"], shards.HEAD_DIM
    return environment_of(rank, trial.ranks), inputs.normal(seed, "x", *shape, rank=rank)


def _one_card(given: list[tuple[Environment, torch.Tensor]]) -> list[torch.Tensor]:
    x = given[0][1]
    return [attention_with_lse(x, x, x)[0]] * len(given)


def mistakes(given: list[tuple[Environment, torch.Tensor]], rank: int) -> dict[str, torch.Tensor]:
    """What half a repair returns."""
    pieces = [x.chunk(len(given), dim=1) for _, x in given]
    own = torch.cat([mine[place] for place, mine in enumerate(pieces)], dim=1)
    twice = torch.cat([pieces[0][place % PER_HOST] for place in range(len(given))], dim=1)
    return {
        "the attention over pieces of different ranks' inputs": attention_with_lse(own, own, own)[0],
        "the attention over pieces of rank 0's input, of which some are there twice": attention_with_lse(
            twice, twice, twice
        )[0],
    }


REPAIR = Exercise(
    name="05-a",
    title="Equal to the last bit",
    statement="""
The attention of one sequence over itself, whole on every rank. `environment` is what a launcher sets on hosts
of two cards each: WORLD_SIZE, RANK, LOCAL_RANK. `x` is what `torch.randn` gave on this rank; the sequence of
rank 0 counts.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(),
    calls=("all_to_all", "all_gather", "broadcast", "scatter", "send", "recv", "isend", "irecv", "barrier"),
    whole=lambda trial: shards.block(trial, trial["heads"]),
    dims=("batch", "position", "head", "head_dim"),
    look=likely.named(mistakes),
    trials=(
        Trial(4, sizes={"sequence": 24, "heads": 12, "per_host": PER_HOST}),
        Trial(3, sizes={"sequence": 24, "heads": 12, "per_host": PER_HOST}),
    ),
    hints=(
        "Two things must be the same everywhere, or different everywhere. What must be the same on all ranks,"
        " and what different on each?",
        "Draw two hosts with two cards. Write RANK and LOCAL_RANK beside each card, and under it which piece "
        "of which input it takes.",
        """
    rank = int(environment[...])
    dist....(x, src=0)                          # one input for all
    mine = x.tensor_split(world_size, dim=1)[rank].contiguous()
    ...                                         # attention, then gather
""",
    ),
    solution=repaired,
    explanation="""
RANK counts through all hosts and says which piece is whose. LOCAL_RANK counts on one host and says which card
a process takes; on one host the two are the same number. And every process draws its own random numbers
unless they share a seed, or one of them hands its own to the others.

After the all-gather all ranks hold the same tensor, whatever was wrong before. So the test "all ranks agree"
passes.
""",
    right=(dealt_by_rank_zero, asks_the_group),
    wrong=(
        Wrong(published_sample, r"All ranks returned the same, and it is not what one card has"),
        Wrong(one_input_only, r"pieces of rank 0's input, of which some are there twice"),
        Wrong(right_rank_only, r"Every rank returned the attention over pieces of different ranks' inputs"),
        Wrong(one_input_a_host, r"element .* are wrong"),
        Wrong(everyone_for_himself, r"Rank 1: element .* Rank 0 is right"),
        Wrong(own_positions_only, r"All ranks returned the same"),
        Wrong(keeps_its_shard, r"shape \(2, 6, 12, 8\), and \(2, 24, 12, 8\) is wanted"),
    ),
)

CASE = Case(
    name="05-a",
    title="Equal to the last bit",
    story="""
The documentation of a library shows how to switch Ulysses on. Each process makes its input, takes its piece,
goes to the heads, attends, comes back, and gathers the whole. Somebody compares the results of the ranks:
they are equal to the last bit. So it is taken over, and started on two hosts of two cards each.

Here the group of ranks is up already. In the original, `init_process_group` is given the same number as the
piece, and on two hosts it is told rank 0 twice.
""",
    program=published_sample,
    causes=(
        Choice(
            "One tensor is taken for queries, keys and values.",
            "That is what was asked for: a sequence that attends to itself. It halves the bytes, but spoils "
            "no value.",
            holds=False,
        ),
        Choice(
            "After the way back the heads stand in the wrong order.",
            "The pieces are joined along the heads in the order of ranks, which is right. On one rank, and "
            "with one input for all, the same lines give what one card gives.",
            holds=False,
        ),
        Choice(
            "Each rank cuts a piece of its own random input, and the number of the piece starts again at 0 "
            "on the second host.",
            "What is attended to is a sequence that nobody has: pieces 0 and 1 of four inputs. The "
            "all-gather then makes all ranks agree on it.",
            holds=True,
        ),
        Choice(
            "The all-gather joins the shards in another order on each rank.",
            "It joins them by rank, on all ranks alike. The ranks do return the same.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="the Ulysses sample of a public documentation of multi-card inference (Ascend/MindIE-SD, "
    "docs/zh/features/parallelism.md, 3066189), rewritten; its layout change is right",
)
