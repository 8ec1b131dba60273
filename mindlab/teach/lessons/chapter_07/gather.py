"""Exercise 07.1: what each branch has predicted, combined on every rank, for any number of branches."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_07 import guiding

Tensor = torch.Tensor


def my_guidance(mine: Tensor, scales: list[float]) -> Tensor:
    """The guided prediction, from one branch's prediction on each rank."""
    rank, p = dist.get_rank(), dist.get_world_size()
    branches = len(scales) + 1
    each = p // branches  # ranks that have one branch
    partners = [(rank + k * each) % p for k in range(1, branches)]
    found = {rank // each: mine}
    for partner in partners:
        found[partner // each] = torch.empty_like(mine)
    sending = [dist.isend(mine, partner) for partner in partners]
    for partner in partners:
        dist.recv(found[partner // each], partner)
    for work in sending:
        work.wait()
    out = found[0].clone()
    for k, scale in enumerate(scales, 1):
        out += scale * (found[k] - found[0])
    return out


def posted_at_once(mine: Tensor, scales: list[float]) -> Tensor:
    """Right: all messages in one batch, one table of predictions."""
    rank, p = dist.get_rank(), dist.get_world_size()
    branches = len(scales) + 1
    each = p // branches
    table = mine.new_empty(branches, *mine.shape)
    table[rank // each] = mine
    ops = []
    for k in range(branches):
        partner = k * each + rank % each
        if partner != rank:
            ops += [dist.P2POp(dist.irecv, table[k], partner), dist.P2POp(dist.isend, mine, partner)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    weights = torch.tensor([1 - sum(scales), *scales], dtype=torch.float64)
    return torch.einsum("k,k...->...", weights, table.double()).to(mine.dtype)


def round_the_branches(mine: Tensor, scales: list[float]) -> Tensor:
    """Right: each message one branch further, one round after the other."""
    rank, p = dist.get_rank(), dist.get_world_size()
    branches = len(scales) + 1
    each = p // branches
    found = [mine] * branches
    for step in range(1, branches):
        arriving = torch.empty_like(mine)
        sending = dist.isend(mine, (rank + step * each) % p)
        dist.recv(arriving, (rank - step * each) % p)
        sending.wait()
        found[(rank // each - step) % branches] = arriving
    return found[0] + sum(s * (eps - found[0]) for s, eps in zip(scales, found[1:], strict=True))


def _made_wrong(mine: Tensor, scales: list[float], *, how: str) -> Tensor:
    """The right exchange, and one mistake."""
    rank, p = dist.get_rank(), dist.get_world_size()
    branches = len(scales) + 1
    each = p // branches
    table = [mine.clone() for _ in range(branches)]
    if how != "own":
        for k in range(branches):
            partner = k * each + rank % each
            if how == "first ranks":  # ranks 0, 1, … have the branches 0, 1, …: so it is with one rank each
                partner = k * each
            if partner == rank:
                continue
            sending = dist.isend(mine, partner)
            dist.recv(table[k], partner)
            sending.wait()
    if how == "swapped":
        table.reverse()
    if how == "rank 0" and rank:
        return mine
    base = table[-1] if how == "last" else table[0]
    return base + sum(s * (eps - table[0]) for s, eps in zip(scales, table[1:], strict=True))


def to_everyone(mine: Tensor, scales: list[float]) -> Tensor:
    """Wrong: right values; each rank sends to all others, also to those that have the same branch."""
    rank, p = dist.get_rank(), dist.get_world_size()
    table = [mine.clone() for _ in range(p)]
    works = [dist.isend(mine, other) for other in range(p) if other != rank]
    for other in range(p):
        if other != rank:
            dist.recv(table[other], other)
    for work in works:
        work.wait()
    found = table[:: p // (len(scales) + 1)]
    return found[0] + sum(s * (eps - found[0]) for s, eps in zip(scales, found[1:], strict=True))


def polite(mine: Tensor, scales: list[float]) -> Tensor:
    """Wrong: everybody sends before anybody receives."""
    rank, p = dist.get_rank(), dist.get_world_size()
    each = p // (len(scales) + 1)
    dist.send(mine, (rank + each) % p)
    theirs = torch.empty_like(mine)
    dist.recv(theirs, (rank - each) % p)
    return mine + scales[0] * (theirs - mine)


def the_library(mine: Tensor, scales: list[float]) -> Tensor:
    """Wrong here: a collective over all ranks does it."""
    table = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(table, mine)
    found = table[:: len(table) // (len(scales) + 1)]
    return found[0] + sum(s * (eps - found[0]) for s, eps in zip(scales, found[1:], strict=True))


def _scales(trial: Trial) -> list[float]:
    return [7.5, 2.0, 3.0][: trial["branches"] - 1]


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Tensor, list[float]]:
    branch = rank // (trial.ranks // trial["branches"])
    shape = 2, trial["tokens"], 6
    return inputs.normal(seed, f"branch {branch}", *shape, dtype=trial.dtype), _scales(trial)


def _branches(given: list[tuple[Tensor, list[float]]]) -> list[Tensor]:
    each = len(given) // (len(given[0][1]) + 1)
    return [mine.double() for mine, _ in given[::each]]


def _one_card(given: list[tuple[Tensor, list[float]]]) -> list[Tensor]:
    eps, dtype = _branches(given), given[0][0].dtype
    out = eps[0] + sum(s * (one - eps[0]) for s, one in zip(given[0][1], eps[1:], strict=True))
    return [out.to(dtype)] * len(given)


def _likely(attempt: Attempt, rank: int) -> dict[str, Tensor]:
    eps, scales = _branches(attempt.given), attempt.given[0][1]
    differences = [s * (one - eps[0]) for s, one in zip(scales, eps[1:], strict=True)]
    turned = eps[::-1]
    return {
        "its own branch's prediction, not guided": attempt.given[rank][0],
        "a guidance away from the last branch: the predictions are in the reverse order": turned[0]
        + sum(s * (one - turned[0]) for s, one in zip(scales, turned[1:], strict=True)),
        "the guidance on top of the last branch, not of branch 0": eps[-1] + sum(differences),
    }


def _sent(trial: Trial) -> Quantity:
    """The own prediction to one rank of each other branch."""
    others = trial["branches"] - 1
    return Quantity(others * _whole(trial), "B", r"(n-1)\,D", ranks=trial.ranks)


def _whole(trial: Trial) -> int:
    return 2 * trial["tokens"] * 6 * (2 if trial.dtype == "bfloat16" else 4)


def _to_all(trial: Trial) -> Quantity:
    return Quantity((trial.ranks - 1) * _whole(trial), "B", r"(p-1)\,D", ranks=trial.ranks)


def _pairs(ranks: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(ranks) for b in range(ranks) if a != b]


_OTHER = r"Rank 0: element|Rank 1: element|Rank 2: element|Rank 3: element"

EXERCISE = Exercise(
    name="07.1",
    title="Guidance over any number of branches",
    statement="""
Write `my_guidance(mine, scales)`. There are n = `len(scales)` + 1 branches, and p ranks, a multiple of n. The
first p/n ranks have predicted branch 0, without any condition; the next p/n ranks branch 1; and so on. `mine`
is this rank's prediction, the same on all ranks of one branch.

Return on every rank $\\epsilon_0 + \\sum_k s_k (\\epsilon_k - \\epsilon_0)$, where $s_1, s_2, \\dots$ are the
`scales`. With n = 2 this is the guidance of this chapter.

Only send and receive. A rank need not send its prediction to those that have the same one.
""",
    inputs=_inputs,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(_sent), naive=OfTrial(_to_all)),
        rounds=Bound(OfTrial(lambda trial: Quantity(trial["branches"] - 1, "rounds", "n-1"))),
    ),
    whole=_whole,
    grain=lambda trial: 0,
    edges=_pairs,
    look=lambda attempt: guiding.resembled(attempt, _likely),
    trials=(
        Trial(4, sizes={"branches": 2, "tokens": 5}),
        Trial(2, sizes={"branches": 2, "tokens": 5}),
        Trial(3, sizes={"branches": 3, "tokens": 5}),
        Trial(6, sizes={"branches": 3, "tokens": 5}),
        Trial(4, sizes={"branches": 2, "tokens": 5}, dtype="bfloat16"),
    ),
    tolerance={
        "bfloat16": Tolerance(0.3, 2.0**-7, "differences rounded to 8 bits, and then taken 7.5 times"),
        "float32": Tolerance(1e-5, 1e-5, "differences rounded to 24 bits, and then taken 7.5 times"),
    },
    dims=guiding.DIMS,
    hints=(
        "Which ranks hold a prediction that this rank lacks? One of each other branch is enough, and each of "
        "the p/n ranks of a branch can serve another one.",
        "Write the ranks as a table: a row a branch, p/n columns. A rank exchanges within its column. How "
        "far apart in rank are two that stand below each other?",
        """
    each = ...                                   # ranks that have one branch
    partners = ...                               # the ranks of this column, without this one
    ...                                          # post all sends, receive, wait
    out = ...                                    # begin with branch 0, whoever has it
    for k, scale in enumerate(scales, 1):
        out += ...
    return out
""",
    ),
    solution=my_guidance,
    explanation="""
A column of the table is one rank of each branch: an all-gather among n ranks. A rank sends n - 1 times its
prediction, however many ranks there are. With n = 2 that is one message each way between rank r and rank
r + p/2.

What must be right everywhere is which prediction is branch 0. A rank that begins with "mine" is right in the
first group alone.
""",
    right=(posted_at_once, round_the_branches),
    wrong=(
        Wrong(partial(_made_wrong, how="own"), r"its own branch's prediction, not guided"),
        Wrong(partial(_made_wrong, how="rank 0"), r"Rank 1 returned its own branch's prediction"),
        Wrong(partial(_made_wrong, how="swapped"), r"away from the last branch"),
        Wrong(partial(_made_wrong, how="last"), r"on top of the last branch"),
        Wrong(partial(_made_wrong, how="first ranks"), r"wait|rank"),
        Wrong(to_everyone, r"Rank 0 sent .* times the allowed"),
        Wrong(polite, r"wait for each other"),
        Wrong(the_library, r"It calls all_gather"),
    ),
)
