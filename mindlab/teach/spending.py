"""What an answer spent against its budget: bytes, rounds, extra memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import pattern
from mindlab.teach.attempt import Attempt
from mindlab.teach.calls import is_named
from mindlab.teach.lesson import Amount, Bound, Exercise, OfTrial, Trial
from mindlab.teach.words import say

_LOOSE = 1024
"""Bytes of small tensors that nobody needs to count: an index, a shape."""


@dataclass(frozen=True)
class Spent:
    """One row of the budget. Numbers are bytes, rounds, calls or FLOP; None where there is no bound."""

    what: str
    """"sent", "sent_wire", "rounds", "work", "memory", or the name of a collective."""
    unit: str
    yours: float | None
    """None where nothing can tell: not checked."""
    optimum: float | None = None
    allowed: float | None = None
    naive: float | None = None
    slack: float = 0
    """What does not count: an index, a shape, an element where the length cannot be divided."""

    @property
    def within(self) -> bool:
        """Whether it keeps to the budget."""
        return self.allowed is None or self.yours is None or self.yours <= self.allowed + self.slack

    @property
    def best(self) -> bool:
        """Whether nobody can spend less. Bytes below the slack of memory are not judged, and so no merit."""
        if self.optimum is None or self.yours is None:
            return False
        return self.yours <= self.optimum + (0 if self.what == "memory" else self.slack)

    def data(self) -> dict[str, Any]:
        """The row as JSON-able data."""
        return {**asdict(self), "within": self.within}


def at(amount: Amount, exercise: Exercise, trial: Trial) -> Any:
    """What an amount of the exercise's budget is in this trial: a Quantity or a number."""
    return amount.of(trial) if isinstance(amount, OfTrial) else amount(exercise.whole(trial), trial.ranks)


def budget(attempt: Attempt) -> list[Spent]:
    """The rows of an attempt's budget: `sent`, calls, `work` and `memory` of the rank that has most.

    A `pure` exercise has none of messages, and `work` is there where a bound of it is.
    """
    bounds, slack = attempt.exercise.budget, _slack(attempt)
    rounds = float(pattern.rounds_of(attempt.run.events))
    messages = [_sent(attempt)]
    if rounds or bounds.rounds is not None:  # collectives have none that the record shows
        messages.append(_row("rounds", "rounds", rounds, bounds.rounds, attempt, 0))
    work = [_row("work", "FLOP", max(_work(attempt)), bounds.work, attempt, 0)]
    return [
        *(messages if not attempt.exercise.pure else []),
        *(
            Spent(op, "calls", float(max(_calls(attempt, op))), optimum=allowed, allowed=allowed)
            for op, allowed in bounds.collectives.items()
        ),
        *(work if bounds.work is not None else []),
        _row("memory", "B", float(max(attempt.extra)), bounds.memory, attempt, slack + _LOOSE),
    ]


def over_budget(attempt: Attempt) -> str:
    """What was spent too much, as a sentence; "" if nothing was."""
    over = [row for row in budget(attempt) if not row.within]
    calls = next((row for row in over if row.unit == "calls"), None)
    if calls is not None:
        return _too_many_calls(attempt, calls)
    rows = {row.what: row for row in over}
    if "sent" in rows:
        return _too_many_bytes(attempt, rows["sent"])
    return _too_many_in_all(attempt) or next(
        (_COMPLAINTS[what](attempt, row) for what, row in rows.items()), ""
    )


def sent_by_all(attempt: Attempt) -> float | None:
    """Bytes that all ranks together sent: counted; by the wire where a reduction cannot be counted, where
    only the sum does not depend on how the backend cuts the tensor; None where neither can tell."""
    if not attempt.run.sent.note:
        return float(attempt.run.sent.sum())
    wire = attempt.run.wire_sent
    return None if wire is None else float(wire.sum())


def _sent(attempt: Attempt) -> Spent:
    bound, slack = attempt.exercise.budget.sent, _slack(attempt)
    if not attempt.run.sent.note:
        yours = float(max(attempt.run.sent.tolist(), default=0))
        return _row("sent", "B", yours, bound, attempt, slack)
    seen = sent_by_all(attempt)
    if bound is None:
        return Spent("sent_wire", "B", seen)
    naive = None if bound.naive is None else _total(bound.naive, attempt)
    optimum, allowed = _total(bound.optimum, attempt), _total(bound.allowed or bound.optimum, attempt)
    return Spent("sent_wire", "B", seen, optimum, allowed, naive, slack)


def _slack(attempt: Attempt) -> int:
    return attempt.trial.ranks * attempt.exercise.grain(attempt.trial)


def _row(what: str, unit: str, yours: float, bound: Bound | None, attempt: Attempt, slack: int) -> Spent:
    if bound is None:
        return Spent(what, unit, yours)
    optimum = _most(bound.optimum, attempt)
    allowed = optimum if bound.allowed is None else _most(bound.allowed, attempt)
    naive = None if bound.naive is None else _most(bound.naive, attempt)
    return Spent(what, unit, yours, optimum, allowed, naive, slack)


def _most(amount: Amount, attempt: Attempt) -> float:
    """The amount at this trial; the largest of all ranks where they differ."""
    value = at(amount, attempt.exercise, attempt.trial)
    return float(max(value.by_rank(attempt.trial.ranks)) if isinstance(value, Quantity) else value)


def _total(amount: Amount, attempt: Attempt) -> float:
    """The amount of all ranks together."""
    value = at(amount, attempt.exercise, attempt.trial)
    ranks = attempt.trial.ranks
    return float(sum(value.by_rank(ranks)) if isinstance(value, Quantity) else value * ranks)


def _calls(attempt: Attempt, op: str) -> list[int]:
    """How often each rank called a collective, in whichever form."""
    made = Counter(event.rank for event in attempt.run.events if is_named(event.op, op))
    return [made[rank] for rank in range(attempt.trial.ranks)]


def _work(attempt: Attempt) -> list[float]:
    """The floating-point operations that each rank stated."""
    ranks, work = range(attempt.trial.ranks), attempt.run.work
    return [float(sum(one.flop for one in work if one.rank == rank)) for rank in ranks]


def _too_many_calls(attempt: Attempt, row: Spent) -> str:
    counts = _calls(attempt, row.what)
    return say(
        "too_many_calls", rank=counts.index(max(counts)), op=row.what, seen=max(counts),
        allowed=units.number(row.allowed or 0),
    )  # fmt: skip


def _too_many_bytes(attempt: Attempt, sent: Spent) -> str:
    by_rank = attempt.run.sent.tolist()
    rank = by_rank.index(max(by_rank))
    return say(
        "too_many_bytes", rank=rank, seen=units.size(by_rank[rank]), allowed=units.size(sent.allowed or 0),
        times=_times(by_rank[rank], sent.allowed), cause=_cause(by_rank[rank], sent.optimum or 0, attempt),
    )  # fmt: skip


def _cause(seen: float, optimum: float, attempt: Attempt) -> str:
    """What this many bytes look like, if exactly one well-known mistake makes so many at this p."""
    p, whole = attempt.trial.ranks, attempt.nbytes
    calls_bounded = bool(attempt.exercise.budget.collectives)  # then nothing was sent a second time
    looks = {
        **({} if calls_bounded else {say("cause_twice"): 2 * optimum}),
        say("cause_own"): optimum * p / (p - 1),
        **{say("cause_whole", rounds=n): n * whole for n in (p - 1, p, 2 * (p - 1))},
    }
    near = [text for text, nbytes in looks.items() if abs(seen - nbytes) <= 0.001 * nbytes]
    return near[0] if len(near) == 1 else ""


def _too_many_in_all(attempt: Attempt) -> str:
    bound, seen = attempt.exercise.budget.sent, sent_by_all(attempt)
    if bound is None or seen is None:
        return ""
    total = _total(bound.allowed or bound.optimum, attempt)
    if seen <= total + _slack(attempt):
        return ""
    size, allowed = units.size(seen), units.size(total)
    return say("too_many_in_all", seen=size, allowed=allowed, times=_times(seen, total))


def _too_many_rounds(attempt: Attempt, rounds: Spent) -> str:
    senders = Counter(event.rank for event in attempt.run.events if event.op in ("send", "isend"))
    rank, count = min(senders.items(), key=lambda pair: (-pair[1], pair[0]))
    alone = count > (rounds.allowed or 0)
    return say(
        "too_many_rounds", seen=units.number(rounds.yours or 0), allowed=units.number(rounds.allowed or 0),
        ranks=attempt.trial.ranks,
        why=say("rounds_sender", rank=rank, count=count) if alone else say("rounds_chain"),
    )  # fmt: skip


def _too_much_memory(attempt: Attempt, memory: Spent) -> str:
    return say(
        "too_much_memory", rank=attempt.extra.index(max(attempt.extra)), seen=units.size(memory.yours or 0),
        allowed=units.size(memory.allowed or 0), whole=units.size(attempt.nbytes), ranks=attempt.trial.ranks,
    )  # fmt: skip


def _too_much_work(attempt: Attempt, work: Spent) -> str:
    by_rank = _work(attempt)
    return say(
        "too_much_work", rank=by_rank.index(max(by_rank)), seen=units.number(work.yours or 0),
        allowed=units.number(work.allowed or 0),
    )  # fmt: skip


_COMPLAINTS = {"rounds": _too_many_rounds, "work": _too_much_work, "memory": _too_much_memory}


def _times(seen: float, allowed: float | None) -> str:
    """ "2 times", or "32 B more than" where a factor would be nearly 1."""
    if allowed and seen < 1.01 * allowed:
        return say("more_than", size=units.size(seen - allowed))
    return say("times", factor=f"{seen / allowed:.3g}" if allowed else "∞")
