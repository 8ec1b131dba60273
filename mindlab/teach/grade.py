"""The judgement of one answer: verdict, sentence, budget, and what was graded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mindlab import notebook
from mindlab.errors import CheckFailed
from mindlab.predict import units
from mindlab.teach import findings, panel, values
from mindlab.teach.attempt import TIMEOUT, Attempt, Ending, attempt, code_hash, misfit, usable_backend
from mindlab.teach.lesson import Exercise, Trial
from mindlab.teach.spending import Spent, budget
from mindlab.teach.verdict import EXPECTED_ERRORS, FAILED, MIME, NOT_ANSWERED, PASSED, Verdict
from mindlab.teach.words import say, trial_words

_TONES = {PASSED: panel.GOOD, FAILED: panel.BAD, NOT_ANSWERED: panel.OPEN}
_WORDS = {PASSED: "passed", FAILED: "failed", NOT_ANSWERED: "open"}


@dataclass(eq=False)
class Grade:
    """What the check of an exercise found. True in an `if` only where it passed.

    In a notebook it shows itself once, as a box, and leaves its row for `mindlab run`.
    """

    name: str
    claim: str
    verdict: str
    sentence: str = ""
    """Why it is not yet right, in the learner's terms."""
    detail: str = ""
    """The learner's own lines, or where the ranks stood."""
    spent: Sequence[Spent] = ()
    graded: dict[str, Any] | None = None
    trial: Trial | None = None
    """The trial that the budget was counted in, or that failed."""
    meant_to_fail: bool = False
    _shown_in: Any = None

    @property
    def passed(self) -> bool | None:
        """True, False, or None where there is no answer yet."""
        return {PASSED: True, FAILED: False}.get(self.verdict)

    @property
    def reason(self) -> str:
        """Sentence and detail."""
        return "\n".join(part for part in (self.sentence, self.detail) if part)

    def data(self) -> dict[str, Any]:
        """The grade as JSON-able data: the row of a check, with the exercise's name and its budget."""
        row = Verdict(self.claim, self.verdict, reason=self.reason, graded=self.graded or {}).data()
        ranks = [trial["ranks"] for trial in (self.graded or {}).get("trials", [])]
        spent = [one.data() for one in self.spent]
        return {**row, "ranks": max(ranks, default=None), "exercise": self.name, "budget": spent}

    def __bool__(self) -> bool:
        return self.verdict == PASSED

    def __repr__(self) -> str:
        mark = panel.MARKS[_TONES[self.verdict]]
        lines = [f"{mark} {self._word()}: {self.claim}", self.reason]
        if self.spent:
            lines += panel.columns(*self._table())
        return "\n".join([*filter(None, lines), *([self._graded()] if self.graded else [])])

    def _repr_html_(self) -> str:
        parts = [panel.text(self.sentence)] if self.sentence else []
        parts += [panel.code(self.detail)] if self.detail else []
        if self.spent:
            head, rows = self._table()
            parts.append(panel.table(head, rows, right=(1, 2, 3, 4)))
        parts += [panel.small(self._graded())] if self.graded else []
        return panel.box(self.claim, parts, tone=_TONES[self.verdict], word=self._word(), kind="exercise")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        return bundle if self.meant_to_fail else {**bundle, MIME: self.data()}

    def _ipython_display_(self) -> None:
        """Called by IPython when a cell ends with the grade: shows it unless this cell already did."""
        shell = notebook.shell()
        if shell is not None and self._shown_in != shell.execution_count:
            self.show()

    def show(self) -> None:
        """Shows the grade in the notebook; outside of one it stays silent."""
        if panel.publish(self._repr_mimebundle_()):
            self._shown_in = notebook.shell().execution_count

    def settle(self) -> Grade:
        """The grade, shown. Raises CheckFailed for a wrong answer under MINDLAB_STRICT=1 or in
        `expect_error`; elsewhere a wrong answer shows as a red box and the notebook goes on."""
        blocks = EXPECTED_ERRORS.get()
        if blocks:
            seen = Verdict(self.claim, self.verdict, reason=self.reason)
            blocks[-1].saw(seen)
            self.meant_to_fail = seen.meant_to_fail
        self.show()
        if self.verdict == FAILED and (blocks or os.environ.get("MINDLAB_STRICT") == "1"):
            raise CheckFailed(f"{self.claim}: {self.reason}")
        return self

    def _word(self) -> str:
        return say(_WORDS[self.verdict])

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = [self._counted_with(), *map(say, ("yours", "optimum", "allowed", "naive")), ""]
        return head, [_cells(one) for one in self.spent]

    def _counted_with(self) -> str:
        if self.trial is None:
            return say("budget")
        return trial_words(self.trial)

    def _graded(self) -> str:
        graded = self.graded or {}
        trials = "; ".join(trial_words(Trial(**one)) for one in graded["trials"])
        return say(
            "graded", trials=trials, backend=graded["backend"], seed=graded["seed"], code=graded["code"]
        )


def grade(
    exercise: Exercise,
    fn: Any,
    *,
    claim: str = "",
    seed: int = 0,
    backend: str | None = None,
    timeout: float = TIMEOUT,
) -> Grade:
    """The Grade of an answer: all trials of the exercise in their order, up to the first that fails."""
    title = claim or f"{say('exercise', name=exercise.name)}: {exercise.title}"
    unfit = misfit(exercise, fn)
    if unfit is not None:
        return _ended(exercise, title, unfit, None, None)
    backend = backend or usable_backend(max(trial.ranks for trial in exercise.trials))
    done: list[Attempt] = []
    for trial in exercise.trials:
        found = attempt(exercise, fn, trial, seed=seed, backend=backend, timeout=timeout)
        if isinstance(found, Ending):
            graded = _graded(exercise, fn, seed, [*(one.trial for one in done), trial], backend)
            return _ended(exercise, title, found, graded, trial)
        before = next((one for one in done if one.trial.ranks == trial.ranks), None)
        sentence = findings.find(found, before)
        done.append(found)
        if sentence:
            graded = _graded(exercise, fn, seed, [one.trial for one in done], backend)
            spent = [] if values.wrong(found) else budget(found)
            return Grade(exercise.name, title, FAILED, sentence, "", spent, graded, trial)
    first = done[0]
    graded = _graded(exercise, fn, seed, [one.trial for one in done], backend)
    return Grade(exercise.name, title, PASSED, "", "", budget(first), graded, first.trial)


def _ended(
    exercise: Exercise, title: str, ending: Ending, graded: dict[str, Any] | None, trial: Trial | None
) -> Grade:
    if ending.blank:
        return Grade(exercise.name, title, NOT_ANSWERED)
    return Grade(exercise.name, title, FAILED, ending.sentence, ending.detail, (), graded, trial)


def _graded(exercise: Exercise, fn: Any, seed: int, trials: Sequence[Trial], backend: str) -> dict[str, Any]:
    """What was graded: exercise, trials, backend, seed, name and hash of the code."""
    return {
        "exercise": exercise.name,
        "trials": [asdict(one) for one in trials],
        "backend": backend,
        "seed": seed,
        "name": getattr(fn, "__name__", type(fn).__name__),
        "code": code_hash(fn),
    }


def _cells(one: Spent) -> list[str]:
    def shown(value: float | None) -> str:
        return "" if value is None else units.size(value) if one.unit == "B" else units.number(value)

    state = ""
    if one.yours is None:
        state = say("not_checked")
    elif one.allowed is not None:
        state = say("best" if one.best else "within" if one.within else "over")
    what = say("calls_of", op=one.what) if one.unit == "calls" else say(one.what)
    return [what, shown(one.yours), shown(one.optimum), shown(one.allowed), shown(one.naive), state]
