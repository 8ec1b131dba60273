"""Case 09-b: half of the ranks begin with the other axis."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from mindlab.parallel.mesh import hybrid_mesh
from mindlab.predict.meshes import axis_groups
from mindlab.teach import inputs
from mindlab.teach.lesson import Budget, Case, Choice, Exercise, Trial, Wrong

Tensor = torch.Tensor
LENGTH = 12


def both_axes(x: Tensor, ring: int, ulysses: int) -> tuple[Tensor, Tensor]:
    """The sum of x over this rank's ring group, and that over its Ulysses group."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    sums = {"ring": x.clone(), "ulysses": x.clone()}
    place = mesh.get_local_rank("ring") + mesh.get_local_rank("ulysses")
    order = ["ring", "ulysses"] if place % 2 == 0 else ["ulysses", "ring"]
    for axis in order:
        dist.all_reduce(sums[axis], group=mesh.get_group(axis))
    return sums["ring"], sums["ulysses"]


def repaired(x: Tensor, ring: int, ulysses: int) -> tuple[Tensor, Tensor]:
    """The sum of x over this rank's ring group, and that over its Ulysses group."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    sums = {"ring": x.clone(), "ulysses": x.clone()}
    for axis in sums:
        dist.all_reduce(sums[axis], group=mesh.get_group(axis))
    return sums["ring"], sums["ulysses"]


def the_other_order(x: Tensor, ring: int, ulysses: int) -> tuple[Tensor, Tensor]:
    """Right: Ulysses first, on every rank."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    along, across = x.clone(), x.clone()
    dist.all_reduce(across, group=mesh.get_group("ulysses"))
    dist.all_reduce(along, group=mesh.get_group("ring"))
    return along, across


def without_waiting(x: Tensor, ring: int, ulysses: int) -> tuple[Tensor, Tensor]:
    """Right: both are begun, in one order, and then both are waited for: so they do run at the same time."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    sums = {"ring": x.clone(), "ulysses": x.clone()}
    works = [
        dist.all_reduce(total, group=mesh.get_group(axis), async_op=True) for axis, total in sums.items()
    ]
    for work in works:
        work.wait()
    return sums["ring"], sums["ulysses"]


def _by(how: str, x: Tensor, ring: int, ulysses: int) -> Any:
    """Both sums, with one thing made wrong."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    groups = {axis: mesh.get_group(axis) for axis in ("ring", "ulysses")}
    if how == "groups swapped":
        groups = {"ring": groups["ulysses"], "ulysses": groups["ring"]}
    along, across = x.clone(), x if how == "in each other" else x.clone()
    if how == "one group":
        dist.all_reduce(along)
        dist.all_reduce(across)
        return along, across
    if how == "by ring place" and mesh.get_local_rank("ring") % 2:
        dist.all_reduce(across, group=groups["ulysses"])
        dist.all_reduce(along, group=groups["ring"])
        return along, across
    dist.all_reduce(along, group=groups["ring"])
    across = along.clone() if how == "sum of sums" else across
    if how != "left out":
        dist.all_reduce(across, group=groups["ulysses"])
    if how == "three calls":
        dist.all_reduce(x.clone(), group=groups["ring"])
    return along, across


def by_rank_number(x: Tensor, ring: int, ulysses: int) -> tuple[Tensor, Tensor]:
    """Wrong: even ranks begin with the ring: on two rings of two that is every rank of a ring group."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses)
    sums = {"ring": x.clone(), "ulysses": x.clone()}
    first = dist.get_rank() in (0, dist.get_world_size() - 1)
    for axis in ["ring", "ulysses"] if first else ["ulysses", "ring"]:
        dist.all_reduce(sums[axis], group=mesh.get_group(axis))
    return sums["ring"], sums["ulysses"]


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, int, int]:
    return inputs.numbers(seed, rank, LENGTH), trial["ring"], trial["ulysses"]


def _one_card(given: list[tuple[Tensor, int, int]]) -> list[tuple[Tensor, Tensor]]:
    ring, ulysses = given[0][1:]
    groups = axis_groups({"ring": ring, "ulysses": ulysses})
    found = []
    for rank in range(len(given)):
        each = {axis: next(group for group in groups[axis] if rank in group) for axis in ("ring", "ulysses")}
        ring_sum, ulysses_sum = (
            torch.stack([given[r][0] for r in each[axis]]).sum(0) for axis in ("ring", "ulysses")
        )
        found.append((ring_sum, ulysses_sum))
    return found


REPAIR = Exercise(
    name="09-b",
    title="Both links at once",
    statement="""
Two sums of `x` on a mesh of `ring` x `ulysses` ranks: the one over this rank's ring group, and the one over
its Ulysses group, returned in this order.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(collectives={"all_reduce": 2}),
    calls=("all_reduce", "new_group"),
    whole=lambda trial: LENGTH * 4,
    grain=lambda trial: 0,
    results=("ring_sum", "ulysses_sum"),
    trials=(
        Trial(4, sizes={"ring": 2, "ulysses": 2}),
        Trial(3, sizes={"ring": 3, "ulysses": 1}),
        Trial(6, sizes={"ring": 3, "ulysses": 2}),
    ),
    hints=(
        "Read in which group each rank waits, and for whom. Who is to come, and where does that one wait?",
        "Draw the ranks as a square. From each rank an arrow to the one that it waits for: along a row for "
        "Ulysses, down a column for the ring. When does following the arrows never end?",
        """
    for axis in ...:           # the same on every rank
        dist.all_reduce(sums[axis], group=mesh.get_group(axis))
""",
    ),
    picture=[[(0, 2, 0, "ring"), (2, 3, 0, "Ulysses"), (3, 1, 0, "ring"), (1, 0, 0, "Ulysses")]],
    solution=repaired,
    explanation="""
Each group is in order by itself: all its members call the same thing. The circle goes through four groups: 0
waits for 2 in a ring, 2 for 3 in a row, 3 for 1 in the other ring, 1 for 0 in the other row.

One order for all ranks, and there is no circle, whatever the groups. If the links are to be busy at the same
time, begin both calls with `async_op=True`, in one order, and wait at the end.
""",
    right=(the_other_order, without_waiting),
    wrong=(
        Wrong(both_axes, r"wait for each other|stand still|deadlock|Deadlock"),
        Wrong(by_rank_number, r"wait for each other|stand still|deadlock|Deadlock"),
        Wrong(partial(_by, "groups swapped"), r"ring_sum"),
        Wrong(partial(_by, "one group"), r"ring_sum"),
        Wrong(partial(_by, "sum of sums"), r"ulysses_sum"),
        Wrong(partial(_by, "left out"), r"ulysses_sum"),
        Wrong(partial(_by, "three calls"), r"called all_reduce 3 times; the budget is 2"),
    ),
)

CASE = Case(
    name="09-b",
    title="Both links at once",
    story="""
A rank needs two sums: over its ring group, which lies across hosts, and over its Ulysses group, inside one.
Somebody sees that the first link idles while the second one works, and lets half of the ranks begin with the
other axis, like the fields of a chessboard. Now both kinds of link are busy from the start. So is the
program: it does not end. MindLab's watchdog ends it.
""",
    program=both_axes,
    causes=(
        Choice(
            "The two ranks of some group call different collectives.",
            "All calls are all-reduces of one size, and in each group both ranks make the same one.",
            holds=False,
        ),
        Choice(
            "The groups were made in another order on some ranks.",
            "`hybrid_mesh` makes them on every rank in one order. Then MindLab would have named the calls "
            "that do not fit.",
            holds=False,
        ),
        Choice(
            "Each rank waits in a group for one that waits in another: a circle through all four groups.",
            "Ranks 0 and 3 wait in their rings, for 2 and 1. These wait in their Ulysses groups, for 3 "
            "and 0.",
            holds=True,
        ),
        Choice(
            "A rank may be in one group only.",
            "It is in a group on each axis. Waiting is the trouble, not membership.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a known trap of sub-groups: PyTorch's documentation of torch.distributed says that collectives "
    "on several groups must be called in one order on all ranks; the program is ours",
)
