"""Exercise 08.3: a pipeline by hand, from send and receive."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_08 import line

Tensor = torch.Tensor


def my_pipeline(weight: Tensor, batches: list[Tensor]) -> Tensor | None:
    """All results, joined, on the last rank; None on the others."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    outputs, sending = [], []
    for x in batches:
        if rank > 0:
            x = torch.empty_like(x)
            dist.recv(x, rank - 1)
        out = torch.tanh(x @ weight)
        if rank < last:
            sending.append((dist.isend(out, rank + 1), out))
        else:
            outputs.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(outputs) if rank == last else None


def with_plain_sends(weight: Tensor, batches: list[Tensor]) -> Tensor | None:
    """Right: `send` waits until the next stage takes it; forward only, no circle can form."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    outputs = []
    for batch in batches:
        if rank:
            dist.recv(batch, rank - 1)
        outputs.append(torch.tanh(batch @ weight))
        if rank < last:
            dist.send(outputs.pop(), rank + 1)
    return torch.cat(outputs) if outputs else None


def receives_posted_first(weight: Tensor, batches: list[Tensor]) -> Tensor | None:
    """Right: all receives are asked for before the first is needed."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    coming = [dist.irecv(x, rank - 1) for x in batches] if rank else []
    kept = []
    for number, x in enumerate(batches):
        if rank:
            coming[number].wait()
        kept.append(torch.tanh(x @ weight))
        if rank < last:
            dist.send(kept[-1], rank + 1)
    return torch.cat(kept) if rank == last else None


def _line(weight: Tensor, batches: list[Tensor], how: str = "") -> Any:
    """A pipeline that can be made wrong."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    order = list(range(len(batches)))[:: -1 if how == "backwards" else 1]
    outputs = []
    for number in order:
        x = torch.empty_like(batches[number])
        if rank:
            dist.recv(x, rank - 1)
        else:
            x = batches[number]
        out = x if how == "last one passes on" and rank == last else torch.tanh(x @ weight)
        out = torch.tanh(out @ weight) if how == "twice" and rank == 1 else out
        if rank < last:
            dist.send(x if how == "sends its input" else out, rank + 1)
        outputs.append(out)
    if how == "every rank":
        return torch.cat(outputs)
    if how == "the last one":
        return outputs[-1] if rank == last else None
    return torch.cat(outputs) if rank == last else None


def backwards(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: the results are in the other order."""
    return _line(weight, batches, "backwards")


def last_one_passes_on(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: the last stage is left out."""
    return _line(weight, batches, "last one passes on")


def twice(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: rank 1 applies its stage twice."""
    return _line(weight, batches, "twice")


def sends_its_input(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: what arrived is handed on, not what was made of it."""
    return _line(weight, batches, "sends its input")


def every_rank_returns(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: ranks return what they passed on."""
    return _line(weight, batches, "every rank")


def only_the_last_batch(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: one micro-batch is kept."""
    return _line(weight, batches, "the last one")


def its_own_batches(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: receives, and computes with what it had."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    outputs = []
    for x in batches:
        if rank:
            dist.recv(torch.empty_like(x), rank - 1)
        outputs.append(torch.tanh(x @ weight))
        if rank < last:
            dist.send(outputs[-1], rank + 1)
    return torch.cat(outputs) if rank == last else None


def all_in_one(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: right values in one large batch: no stage works while another one does."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    x = torch.cat(batches)
    if rank:
        dist.recv(x, rank - 1)
    out = torch.tanh(x @ weight)
    if rank < last:
        dist.send(out, rank + 1)
    return out if rank == last else None


def by_broadcast(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: every stage's output goes to all ranks."""
    rank, p = dist.get_rank(), dist.get_world_size()
    outputs = []
    for x in batches:
        for stage in range(p):
            x = torch.tanh(x @ weight) if rank == stage else torch.empty_like(x)
            dist.broadcast(x, stage)
        outputs.append(x)
    return torch.cat(outputs) if rank == p - 1 else None


def back_to_the_first(weight: Tensor, batches: list[Tensor]) -> Any:
    """Wrong: right values, and the results travel once more."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    out = _line(weight, batches)
    if rank == last:
        dist.send(out, 0)
    elif rank == 0:
        dist.recv(torch.cat(batches), last)
    return out


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, list[Tensor]]:
    return line.weights(seed, trial.ranks)[rank], line.batches(seed, rank, trial)


def _one_card(given: list[tuple[Tensor, list[Tensor]]]) -> list[Any]:
    x = torch.cat(given[0][1])
    for weight, _ in given:
        x = torch.tanh(x @ weight)
    return line.only_last(x, len(given))


def _look(attempt: Attempt) -> str:
    """Micro-batches that were joined; results on a rank that has none."""
    wanted = attempt.trial["microbatches"]
    messages = sum(event.rank == 0 for event in attempt.run.events if event.op in ("send", "isend"))
    if messages and messages != wanted:
        return (
            f"Rank 0 sent {messages} message{'s' * (messages > 1)} for {wanted} micro-batches: while a "
            "stage has all of them, the others have nothing to do."
        )
    some = [rank for rank, value in enumerate(attempt.values[:-1]) if value is not None]
    return f"Rank {some[0]} returned something; only the last rank has results." if some else ""


EXERCISE = Exercise(
    name="08.3",
    title="A pipeline by hand",
    statement="""
Write `my_pipeline(weight, batches)`. This rank's stage is `torch.tanh(x @ weight)`. `batches` are the
micro-batches, (rows, hidden), not all with as many rows. Only rank 0 has their values; on the other ranks
the tensors have the right shapes and hold NaN.

Each micro-batch goes through all stages, rank after rank. Return on the last rank all results joined along
the rows, in order; on the others None. Micro-batches travel one by one, so that stages can work at the same
time; nothing travels twice.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(line.sent)),
        rounds=Bound(OfTrial(lambda trial: trial["microbatches"] + trial.ranks - 2)),
    ),
    whole=lambda trial: sum(line.rows(trial)) * line.HIDDEN * 4,
    grain=lambda trial: 0,
    edges=lambda ranks: [(rank, rank + 1) for rank in range(ranks - 1)],
    look=_look,
    trials=(
        Trial(4, sizes={"microbatches": 3}),
        Trial(3, sizes={"microbatches": 5}),
        Trial(4, sizes={"microbatches": 6}),
    ),
    hints=(
        "All ranks go through the same loop over micro-batches. What differs is where x comes from and where "
        "the result goes.",
        "Draw a row of boxes for each rank. Above each box (but those of rank 0) an arrow comes in, below "
        "each (but those of the last rank) one goes out. Every arrow leads one row down.",
        """
    for x in batches:
        if ...:                              # not the first rank
            x = ...                          # room of the same shape
            dist.recv(x, ...)
        out = torch.tanh(x @ weight)
        ...                                  # to the next rank, or into a list
    ...                                      # whatever was sent without waiting
    return ...
""",
    ),
    solution=my_pipeline,
    explanation="""
`isend` lets a stage go on with the next micro-batch while the last one waits to be taken. The tensor must
stay as it is until then, so it is kept beside its handle. Plain `send` is right here as well: everything
flows one way, so somebody can always go on. It costs time where the next stage is slower.

$m$ micro-batches over $p-1$ hops make $m+p-2$ rounds, where one request at a time would make $m(p-1)$.
""",
    right=(with_plain_sends, receives_posted_first),
    wrong=(
        Wrong(backwards, r"the right values in another order"),
        Wrong(last_one_passes_on, r"Rank 3: element \[0, 0\]"),
        Wrong(twice, r"Rank 3: element \[0, 0\]"),
        Wrong(sends_its_input, r"Rank 3: element \[0, 0\]"),
        Wrong(every_rank_returns, r"Rank 0 returned something; only the last rank has results"),
        Wrong(only_the_last_batch, r"shape \(4, 6\), and \(9, 6\)"),
        Wrong(its_own_batches, r"NaN"),
        Wrong(all_in_one, r"Rank 0 sent 1 message for 3 micro-batches"),
        Wrong(by_broadcast, r"It calls broadcast"),
        Wrong(back_to_the_first, r"Rank 3 sent .* to rank 0.*may send to nobody"),
    ),
)
