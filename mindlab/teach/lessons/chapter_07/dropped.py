"""Case 07-c: three branches on two ranks, and one of them gets lost."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.predict.quantity import Quantity
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_07 import guiding
from mindlab.teach.lessons.chapter_07.guiding import Model

Tensor = torch.Tensor


def a_branch_each(
    model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float]
) -> Tensor:
    """The prediction, guided by all conditions; the first of them is none."""
    rank, p = dist.get_rank(), dist.get_world_size()
    mine = model(x, t, conditions[min(rank, len(conditions) - 1)])
    gathered = [torch.empty_like(mine) for _ in range(p)]
    dist.all_gather(gathered, mine)
    out = gathered[0].clone()
    for eps, scale in zip(gathered[1:], scales):  # noqa: B905 - this is the fault
        out += scale * (eps - gathered[0])
    return out


def all_branches(model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float]) -> Tensor:
    """The prediction, guided by all conditions; the first of them is none."""
    rank, p = dist.get_rank(), dist.get_world_size()
    found = []
    for first in range(0, len(conditions), p):  # as many at a time as there are ranks
        last = min(first + rank, len(conditions) - 1)
        mine = model(x, t, conditions[last])
        gathered = [torch.empty_like(mine) for _ in range(p)]
        dist.all_gather(gathered, mine)
        found += gathered
    found = found[: len(conditions)]
    out = found[0].clone()
    for eps, scale in zip(found[1:], scales, strict=True):
        out += scale * (eps - found[0])
    return out


def each_tells_all(
    model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float]
) -> Tensor:
    """Right: branch k is made on rank k mod p, which tells the others."""
    rank, p = dist.get_rank(), dist.get_world_size()
    found = []
    for k, condition in enumerate(conditions):
        eps = model(x, t, condition) if k % p == rank else torch.empty_like(x)
        dist.broadcast(eps, k % p)
        found.append(eps)
    weights = [1 - sum(scales), *scales]
    return torch.stack([w * eps for w, eps in zip(weights, found, strict=True)]).sum(0)


def weighted_and_added(
    model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float]
) -> Tensor:
    """Right: each rank adds up its branches with their weights; one all-reduce does the rest."""
    rank, p = dist.get_rank(), dist.get_world_size()
    weights = [1 - sum(scales), *scales]
    out = torch.zeros_like(x)
    for k in range(rank, len(conditions), p):
        out += weights[k] * model(x, t, conditions[k])
    dist.all_reduce(out)
    return out


def _made_wrong(
    model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float], *, how: str
) -> Tensor:
    """One mistake at a time."""
    rank, p = dist.get_rank(), dist.get_world_size()
    if how == "everywhere":
        found = [model(x, t, one) for one in conditions]
        dist.barrier()
    else:
        found = []
        for k, condition in enumerate(conditions):
            eps = model(x, t, condition) if k % p == rank else torch.zeros_like(x)
            if not (how == "not told" and k >= p):
                dist.broadcast(eps, k % p)
            found.append(eps)
    if how == "last twice":
        found[1] = found[-1]
    if how == "reverse":
        found.reverse()
    base = torch.stack(found).mean(0) if how == "mean" else found[0]
    return base + sum(s * (eps - base) for s, eps in zip(scales, found[1:], strict=True))


def refuses(model: Model, x: Tensor, t: Tensor, conditions: list[Tensor], scales: list[float]) -> Tensor:
    """Wrong here: honest, but it makes nothing."""
    if len(conditions) != dist.get_world_size():
        raise ValueError(f"{len(conditions)} branches need as many ranks")
    return a_branch_each(model, x, t, conditions, scales)


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Model, Tensor, Tensor, list[Tensor], list[float]]:
    del rank
    conditions = [guiding.condition(seed, k) for k in range(trial["branches"])]
    return Model(seed), *guiding.step(seed, trial), conditions, [5.0, 2.0, 3.0][: len(conditions) - 1]


def _one_card(given: list[tuple[Model, Tensor, Tensor, list[Tensor], list[float]]]) -> list[Tensor]:
    return [_by_hand(given[0], len(given[0][3]))] * len(given)


def _by_hand(given: tuple[Model, Tensor, Tensor, list[Tensor], list[float]], branches: int) -> Tensor:
    """Guidance by the first so many branches."""
    model, x, t, conditions, scales = given
    eps = [model(x, t, one).double() for one in conditions[:branches]]
    return (
        eps[0] + sum(s * (e - eps[0]) for s, e in zip(scales[: branches - 1], eps[1:], strict=True))
    ).float()


def _likely(attempt: Attempt, rank: int) -> dict[str, Tensor]:
    branches = len(attempt.given[rank][3])
    return {
        f"a guidance by {fewer} of {branches} branches: {branches - fewer} did not count": _by_hand(
            attempt.given[rank], fewer
        )
        for fewer in range(branches - 1, 0, -1)
    }


def _look(attempt: Attempt) -> str:
    branches, p = attempt.trial["branches"], attempt.trial.ranks
    made = [guiding.calls(attempt, rank) for rank in range(p)]
    if max(made) > -(-branches // p):
        return f"A rank called the model {max(made)} times, for {branches} branches on {p} ranks."
    return guiding.resembled(attempt, _likely)


def _whole(trial: Trial) -> int:
    return 4 * 2 * trial["tokens"] * guiding.WIDTH


def _most(trial: Trial) -> Quantity:
    rounds = -(-trial["branches"] // trial.ranks)
    return Quantity(rounds * trial.ranks * _whole(trial), "B", r"\lceil n/p\rceil\,p\,D", ranks=trial.ranks)


REPAIR = Exercise(
    name="07-c",
    title="The third branch",
    statement="The prediction guided by all conditions, $\\epsilon_0 + \\sum_k s_k (\\epsilon_k - "
    "\\epsilon_0)$, on every rank, for any number of branches on any number of ranks. No rank makes more "
    "than its share of the calls of the model, rounded up.",
    inputs=_inputs,
    reference=_one_card,
    calls=("all_gather", "all_reduce", "broadcast", "send", "recv", "isend", "irecv", "barrier"),
    budget=Budget(sent=Bound(OfTrial(_most))),
    whole=_whole,
    grain=lambda trial: _whole(trial),
    look=_look,
    trials=(
        Trial(2, sizes={"branches": 3, "tokens": 5}),
        Trial(2, sizes={"branches": 2, "tokens": 5}),
        Trial(3, sizes={"branches": 4, "tokens": 5}),
        Trial(4, sizes={"branches": 3, "tokens": 5}),
    ),
    tolerance={"float32": Tolerance(5e-5, 1e-5, "differences rounded to 24 bits, and then taken 5 times")},
    dims=guiding.DIMS,
    hints=(
        "Count the branches, count the ranks, and count how many predictions the loop at the end has to go "
        "through.",
        "Write the branches in rows of p. A row is one round, in which each rank makes one. What does a rank "
        "do that has none in the last row?",
        """
    found = []
    for first in ...:                 # the first branch of a row
        mine = ...                    # a rank without a branch hands in anything of that shape
        ...                           # all hand in, all get p of them
    found = ...                       # only as many as there are branches
    ...                               # and a loop that does not stop early
""",
    ),
    solution=all_branches,
    explanation="""
With p ranks the gathering brings p predictions. The loop ends with the shorter list, so a condition for which
there is no rank is left out, and its scale with it. Nothing says so, and the picture is plausible: it follows
the first condition and ignores the second.

Either every branch is made somewhere, or a number of ranks that does not do is refused (as `cfg_parallel`
does). A `zip` with `strict=True` would have told it.
""",
    right=(each_tells_all, weighted_and_added),
    wrong=(
        Wrong(a_branch_each, r"a guidance by 2 of 3 branches: 1 did not count"),
        Wrong(partial(_made_wrong, how="everywhere"), r"called the model 3 times, for 3 branches on 2"),
        Wrong(partial(_made_wrong, how="not told"), r"Rank 1: element|Rank 1"),
        Wrong(partial(_made_wrong, how="last twice"), r"Rank 0: element"),
        Wrong(partial(_made_wrong, how="reverse"), r"Rank 0: element"),
        Wrong(partial(_made_wrong, how="mean"), r"Rank 0: element"),
        Wrong(refuses, r"raised ValueError: 3 branches need as many ranks"),
    ),
)

CASE = Case(
    name="07-c",
    title="The third branch",
    story="""
A model that edits pictures is guided twice: by a text and by a picture. That makes three predictions a step.
On three cards all is well. On two cards it runs too, and faster, and the pictures look fine. They just have
little to do with the picture that was to be edited.
""",
    program=a_branch_each,
    causes=(
        Choice(
            "The second rank has no time to make two predictions.",
            "It is never asked to: each rank makes one.",
            holds=False,
        ),
        Choice(
            "The scales belong to other branches than they should.",
            "Those that count have the right scale. One branch does not count.",
            holds=False,
        ),
        Choice(
            "A branch for which there is no rank is never made, and the loop ends without it.",
            "Two ranks bring two predictions, and `zip` stops with the shorter list.",
            holds=True,
        ),
        Choice(
            "The gathering mixes up the order of the branches.",
            "Rank k hands in branch k, and the list is in the order of the ranks.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="vllm-omni, pull request 1578, review (vllm-project/vllm-omni, March 2026); rewritten",
)
