"""Exercise 08.2: when each box of a pipeline begins."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.planning.schedules import schedule
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Tensor = torch.Tensor
STAGES = {"equal": (2, 2, 2, 2), "slow": (1, 3, 2, 5, 1), "first": (4, 1, 2)}


def my_schedule(seconds: list[int], microbatches: int) -> Tensor:
    """When each box begins, (stages, microbatches)."""
    begins = torch.zeros(len(seconds), microbatches, dtype=torch.int64)
    for stage, took in enumerate(seconds):
        for batch in range(microbatches):
            here = begins[stage, batch - 1] + took if batch else 0
            before = begins[stage - 1, batch] + seconds[stage - 1] if stage else 0
            begins[stage, batch] = max(here, before)
    return begins


def by_slowest_so_far(seconds: list[int], microbatches: int) -> Tensor:
    """Right: a micro-batch is let through at the pace of the slowest stage up to here, this one included."""
    rows = []
    for stage in range(len(seconds)):
        first = sum(seconds[:stage])
        pace = max(seconds[: stage + 1])
        rows.append([first + batch * pace for batch in range(microbatches)])
    # a stage that is itself the slowest starts its first box at once; a quicker one waits for the slow one
    return torch.tensor(rows, dtype=torch.int64)


def from_the_package(seconds: list[int], microbatches: int) -> Tensor:
    """Right: the package's boxes."""
    begins = torch.empty(len(seconds), microbatches, dtype=torch.int64)
    for slot in schedule(seconds, microbatches):
        begins[slot.stage, slot.microbatch] = int(slot.start)
    return begins


def in_lockstep(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: all stages step at the pace of the slowest from the start."""
    steps = torch.arange(len(seconds)).unsqueeze(1) + torch.arange(microbatches)
    return steps * max(seconds)


def one_after_the_other(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: a micro-batch begins when the one before has left the last stage."""
    firsts = torch.tensor([sum(seconds[:stage]) for stage in range(len(seconds))])
    return firsts.unsqueeze(1) + torch.arange(microbatches) * sum(seconds)


def stage_by_stage(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: a stage begins when the one before has done all micro-batches."""
    rows, free = [], 0
    for took in seconds:
        rows.append([free + batch * took for batch in range(microbatches)])
        free += microbatches * took
    return torch.tensor(rows)


def at_its_own_pace(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: a stage goes on whether its input is there or not."""
    rows = [
        [sum(seconds[:stage]) + batch * took for batch in range(microbatches)]
        for stage, took in enumerate(seconds)
    ]
    return torch.tensor(rows)


def endless_hands(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: a stage works on several micro-batches at a time."""
    rows = [
        [sum(seconds[:stage]) + batch * seconds[0] for batch in range(microbatches)]
        for stage in range(len(seconds))
    ]
    return torch.tensor(rows)


def the_ends(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: when each box ends."""
    return my_schedule(seconds, microbatches) + torch.tensor(seconds).unsqueeze(1)


def the_other_way_round(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: micro-batches down, stages across."""
    return my_schedule(seconds, microbatches).T.contiguous()


def asks_the_others(seconds: list[int], microbatches: int) -> Tensor:
    """Wrong: right, but the ranks need not talk for it."""
    dist.barrier()
    return my_schedule(seconds, microbatches)


def _given(seed: int, rank: int, trial: Trial) -> tuple[list[int], int]:
    stages = next(times for name, times in STAGES.items() if trial.sizes.get(name))
    return [took + 10 * (seed % 3) for took in stages], trial["microbatches"]


def _one_card(given: list[tuple[list[int], int]]) -> list[Tensor]:
    return [from_the_package(*mine) for mine in given]


def _first_box(attempt: Attempt) -> str:
    """The first box that begins too early or too late, and what it waits for."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if (
        not isinstance(seen, Tensor)
        or seen.shape != wanted.shape
        or torch.equal(seen.double(), wanted.double())
    ):
        return ""
    stage, batch = (int(at) for at in torch.nonzero(seen.double() != wanted.double())[0])
    when = "early" if seen[stage, batch] < wanted[stage, batch] else "late"
    return (
        f"The box of stage {stage} and micro-batch {batch} begins at {seen[stage, batch]:g}, too {when}: "
        f"its stage is free and its input is there at {wanted[stage, batch]}. "
        f"The stages take {attempt.given[0][0]}."
    )


EXERCISE = Exercise(
    name="08.2",
    title="When does each box begin?",
    statement="""
Write `my_schedule(seconds, microbatches)`. Stage s takes `seconds[s]` for each micro-batch, a whole number.
Micro-batch 0 is at stage 0 at time 0, and so are all the others. A stage works on one at a time, in order,
and begins as soon as it is free and the stage before has handed the micro-batch on. Handing on takes no time.

Return when each box begins: an int64 tensor (stages, microbatches).
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_first_box,
    trials=(
        Trial(2, sizes={"equal": 1, "microbatches": 3}),
        Trial(2, sizes={"slow": 1, "microbatches": 4}),
        Trial(2, sizes={"first": 1, "microbatches": 1}),
        Trial(2, sizes={"first": 1, "microbatches": 6}),
    ),
    hints=(
        "A box waits for two others: the one before it in its row, and the one above it in its column.",
        "Draw stages as rows and time to the right. Put micro-batch 0 in, then 1. Where a slow stage comes "
        "before a quick one, the quick one has gaps; where it comes after, boxes pile up in front of it.",
        """
    begins = torch.zeros(len(seconds), microbatches, dtype=torch.int64)
    for stage, took in enumerate(seconds):
        for batch in range(microbatches):
            here = ...        # when this stage has done the micro-batch before; 0 for the first
            before = ...      # when the stage before has done this micro-batch; 0 for the first
            begins[stage, batch] = ...
    return begins
""",
    ),
    solution=my_schedule,
    explanation="""
The last box ends at $\\sum_i t_i + (m-1)\\max_i t_i$: the first micro-batch goes through all stages, and from
then on one leaves for every beat of the slowest. Equal stages: $(m+p-1)\\,t$. The rest of the rectangle,
p times that long, is idle.
""",
    right=(by_slowest_so_far, from_the_package),
    wrong=(
        Wrong(in_lockstep, r"stage \d and micro-batch \d begins at \d+, too late"),
        Wrong(one_after_the_other, r"stage 0 and micro-batch 1 begins at 8, too late"),
        Wrong(stage_by_stage, r"stage 1 and micro-batch 0 begins at 6, too late"),
        Wrong(at_its_own_pace, r"stage 2 and micro-batch 1 begins at 6, too early"),
        Wrong(endless_hands, r"stage 1 and micro-batch 1 begins at 2, too early"),
        Wrong(the_ends, r"stage 0 and micro-batch 0 begins at 2, too late"),
        Wrong(the_other_way_round, r"shape \(3, 4\)"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
