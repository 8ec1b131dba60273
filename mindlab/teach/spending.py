"""What an answer spent against its budget: bytes, rounds, extra memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import pattern
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Amount, Bound
from mindlab.teach.words import say

_LOOSE = 1024
"""Bytes of small tensors that nobody needs to count: an index, a shape."""


@dataclass(frozen=True)
class Spent:
    """One row of the budget. Numbers are bytes or rounds; None where there is no bound."""

    what: str
    """"sent", "rounds" or "memory"."""
    unit: str
    yours: float
    optimum: float | None = None
    allowed: float | None = None
    naive: float | None = None
    slack: float = 0
    """What does not count: an index, a shape, an element where the length cannot be divided."""

    @property
    def within(self) -> bool:
        """Whether it keeps to the budget."""
        return self.allowed is None or self.yours <= self.allowed + self.slack

    @property
    def best(self) -> bool:
        """Whether nobody can spend less."""
        return self.optimum is not None and self.yours <= self.optimum + self.slack

    def data(self) -> dict[str, Any]:
        """The row as JSON-able data."""
        return {**asdict(self), "within": self.within}


def budget(attempt: Attempt) -> list[Spent]:
    """The rows of an attempt's budget. `sent` and `memory` are those of the rank that has most."""
    bounds = attempt.exercise.budget
    slack = (
        attempt.trial.ranks * attempt.exercise.itemsize if attempt.trial.numel % attempt.trial.ranks else 0
    )
    yours = float(max(attempt.run.sent.tolist(), default=0))
    return [
        _row("sent", "B", yours, bounds.sent, attempt, slack),
        _row("rounds", "rounds", pattern.rounds_of(attempt.run.events), bounds.rounds, attempt, 0),
        _row("memory", "B", max(attempt.extra), bounds.memory, attempt, slack + _LOOSE),
    ]


def over_budget(attempt: Attempt) -> str:
    """What was spent too much, as a sentence; "" if nothing was."""
    sent, rounds, memory = budget(attempt)
    if not sent.within:
        return _too_many_bytes(attempt, sent)
    if attempt.exercise.budget.sent is not None:
        sentence = _too_many_in_all(attempt)
        if sentence:
            return sentence
    if not rounds.within:
        return _too_many_rounds(attempt, rounds)
    return "" if memory.within else _too_much_memory(attempt, memory)


def _row(what: str, unit: str, yours: float, bound: Bound | None, attempt: Attempt, slack: int) -> Spent:
    if bound is None:
        return Spent(what, unit, yours)
    optimum = _most(bound.optimum, attempt)
    allowed = optimum if bound.allowed is None else _most(bound.allowed, attempt)
    naive = None if bound.naive is None else _most(bound.naive, attempt)
    return Spent(what, unit, yours, optimum, allowed, naive, slack)


def _most(amount: Amount, attempt: Attempt) -> float:
    """The amount at this trial; the largest of all ranks where they differ."""
    value = amount(attempt.nbytes, attempt.trial.ranks)
    return float(max(value.by_rank(attempt.trial.ranks)) if isinstance(value, Quantity) else value)


def _too_many_bytes(attempt: Attempt, sent: Spent) -> str:
    by_rank = attempt.run.sent.tolist()
    rank = by_rank.index(max(by_rank))
    return say(
        "too_many_bytes", rank=rank, seen=units.size(by_rank[rank]), allowed=units.size(sent.allowed or 0),
        factor=_factor(by_rank[rank], sent.allowed), cause=_cause(by_rank[rank], sent.optimum or 0, attempt),
    )  # fmt: skip


def _cause(seen: float, optimum: float, attempt: Attempt) -> str:
    """What this many bytes look like, if exactly one well-known mistake makes so many at this p."""
    p, whole = attempt.trial.ranks, attempt.nbytes
    looks = {
        say("cause_twice"): 2 * optimum,
        say("cause_own"): optimum * p / (p - 1),
        **{say("cause_whole", rounds=n): n * whole for n in (p - 1, p, 2 * (p - 1))},
    }
    near = [text for text, nbytes in looks.items() if abs(seen - nbytes) <= 0.001 * nbytes]
    return near[0] if len(near) == 1 else ""


def _too_many_in_all(attempt: Attempt) -> str:
    bound = attempt.exercise.budget.sent
    assert bound is not None, "asked without a bound"
    value = (bound.allowed or bound.optimum)(attempt.nbytes, attempt.trial.ranks)
    total = sum(value.by_rank(attempt.trial.ranks)) if isinstance(value, Quantity) else 0
    seen = int(attempt.run.sent.sum())
    if not total or seen <= total + attempt.trial.ranks * attempt.exercise.itemsize:
        return ""
    size, allowed = units.size(seen), units.size(float(total))
    return say("too_many_in_all", seen=size, allowed=allowed, factor=_factor(seen, float(total)))


def _too_many_rounds(attempt: Attempt, rounds: Spent) -> str:
    senders = Counter(event.rank for event in attempt.run.events if event.op in ("send", "isend"))
    rank, count = min(senders.items(), key=lambda pair: (-pair[1], pair[0]))
    alone = count > (rounds.allowed or 0)
    return say(
        "too_many_rounds", seen=units.number(rounds.yours), allowed=units.number(rounds.allowed or 0),
        ranks=attempt.trial.ranks,
        why=say("rounds_sender", rank=rank, count=count) if alone else say("rounds_chain"),
    )  # fmt: skip


def _too_much_memory(attempt: Attempt, memory: Spent) -> str:
    return say(
        "too_much_memory", rank=attempt.extra.index(max(attempt.extra)), seen=units.size(memory.yours),
        allowed=units.size(memory.allowed or 0), whole=units.size(attempt.nbytes), ranks=attempt.trial.ranks,
    )  # fmt: skip


def _factor(seen: float, allowed: float | None) -> str:
    return f"{seen / allowed:.3g}" if allowed else "∞"
