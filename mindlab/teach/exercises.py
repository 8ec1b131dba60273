"""`ml.exercise("01.2")`: shows a task, and checks an answer on real ranks."""

from __future__ import annotations

import os
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import panel, registry
from mindlab.teach.attempt import TIMEOUT
from mindlab.teach.grade import Grade, grade
from mindlab.teach.journal import journal
from mindlab.teach.lesson import Bound, Exercise
from mindlab.teach.spending import at
from mindlab.teach.words import say, translated


class Task:
    """An exercise as a learner meets it: shows its statement; `check` judges an answer."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise

    @property
    def name(self) -> str:
        """Chapter and number: "01.2"."""
        return self.exercise.name

    @property
    def title(self) -> str:
        """The exercise's title."""
        return translated(self.exercise.title)

    def check(
        self, fn: Any, *, seed: int | None = None, backend: str | None = None, timeout: float = TIMEOUT
    ) -> Grade:
        """The Grade of the function `fn`, run on 3 and on 4 ranks, also with a length that neither divides.

        Values on every rank, who sent to whom, bytes, rounds and extra memory are judged. `...`, or a
        function that still returns `...`, is "not answered yet". A wrong answer is a red box and a Grade that
        is False; only under MINDLAB_STRICT=1 it raises CheckFailed. `seed` chooses the data (None: the
        environment variable MINDLAB_SEED, else 0), `timeout` the seconds after which a run is ended.
        """
        chosen = int(os.environ.get("MINDLAB_SEED", "0")) if seed is None else seed
        found = grade(self.exercise, fn, seed=chosen, backend=backend, timeout=timeout)
        journal().tried("exercises", self.name, found.verdict)
        return found.settle()

    def __repr__(self) -> str:
        lines = [self._heading(), translated(self.exercise.statement).strip()]
        return "\n\n".join([*lines, *filter(None, [self._limits()])])

    def _repr_html_(self) -> str:
        parts = [panel.text(translated(self.exercise.statement))]
        parts += [panel.small(self._limits())] if self._limits() else []
        return panel.box(self._heading(), parts, kind="task")

    def _heading(self) -> str:
        return f"{say('exercise', name=self.name)}: {self.title}"

    def _limits(self) -> str:
        exercise = self.exercise
        bounds = exercise.budget
        judged = {"sent": bounds.sent, "rounds": bounds.rounds, "work": bounds.work, "memory": bounds.memory}
        said = [_limit(what, bound, exercise) for what, bound in judged.items() if bound is not None]
        said += [f"{say('calls_of', op=op)}: {most}" for op, most in bounds.collectives.items()]
        calls = say("may_call", calls=", ".join(exercise.calls)) if exercise.calls else ""
        return " · ".join(part for part in (*said, say("calls_nobody") if exercise.pure else calls) if part)


def exercise(name: str) -> Task:
    """The exercise called `name`, such as "01.2": shows the task; `.check(fn)` judges an answer.

    Raises UnknownName, which lists the known ones.

    >>> ml.exercise("00.1").check(...).verdict
    'not answered yet'
    """
    return Task(registry.find_exercise(name))


def _limit(what: str, bound: Bound, exercise: Exercise) -> str:
    trial = exercise.trials[0]
    quantity = at(bound.allowed or bound.optimum, exercise, trial)
    if not isinstance(quantity, Quantity):
        return ""
    if what == "work":
        return f"{say(what)}: {units.number(max(quantity.by_rank(trial.ranks)))}"
    if max(quantity.by_rank(trial.ranks)) > quantity.value:
        # The formula is that of the mean; the budget of the busiest rank is more.
        most, whole = units.size(max(quantity.by_rank(trial.ranks))), units.size(exercise.whole(trial))
        return f"{say(what)}: {say('busiest', most=most, whole=whole, ranks=trial.ranks)}"
    if not quantity.formula:
        return ""
    # Where sizes have names, the formula's letters need not be those of the arguments.
    named = bool(trial.sizes) and quantity.unit == "B"
    first = say("at_first", size=units.size(quantity.value), ranks=trial.ranks) if named else ""
    return f"{say(what)}: ${quantity.formula}${first}"
