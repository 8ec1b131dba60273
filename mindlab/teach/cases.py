"""`ml.case("01-b")`: a broken program to run safely, a cause to name, a repair to be judged."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import panel, registry, values
from mindlab.teach.attempt import TIMEOUT, Attempt, Ending, attempt, usable_backend
from mindlab.teach.grade import Grade, grade
from mindlab.teach.hints import source_of
from mindlab.teach.journal import journal
from mindlab.teach.lesson import Case
from mindlab.teach.reading import unanswered
from mindlab.teach.spending import at, sent_by_all
from mindlab.teach.words import say, translated
from mindlab.trace.places import plain_code
from mindlab.trace.run import Run


@dataclass(frozen=True)
class Evidence:
    """What the broken program did: facts, one a line, and the Run if it came to its end (else None)."""

    facts: tuple[str, ...]
    run: Run | None = None
    detail: str = ""
    """Where the ranks stood, or the lines that raised, if it did not come to its end."""
    ranks: int = 0

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._title(), *self.facts, self.detail]))

    def _repr_html_(self) -> str:
        parts = [panel.text("\n\n".join(self.facts))]
        parts += [panel.code(self.detail)] if self.detail else []
        parts += [panel.small(self.run.provenance)] if self.run else []
        return panel.box(self._title(), parts, kind="evidence")

    def _title(self) -> str:
        return say("evidence", ranks=self.ranks)


@dataclass(frozen=True)
class Causes:
    """The causes to choose from, or what was chosen and why. True only for the right one."""

    lines: tuple[str, ...]
    state: str = panel.OPEN
    word: str = ""

    def __bool__(self) -> bool:
        return self.state == panel.GOOD

    def __repr__(self) -> str:
        return "\n".join([*self._judged(), *self.lines])

    def _judged(self) -> list[str]:
        return [f"{panel.MARKS[self.state]} {self.word}"] if self.word else []

    def _repr_html_(self) -> str:
        title, *rest = self.lines
        return panel.box(
            title, [panel.text(line) for line in rest], tone=self.state, word=self.word, kind="cause"
        )


class CaseFile:
    """A case as a learner meets it: story and program. `run`, `cause`, `check` are its three steps."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._evidence: Evidence | None = None

    @property
    def name(self) -> str:
        """Chapter and letter: "01-b"."""
        return self.case.name

    @property
    def program(self) -> Any:
        """The broken function, to be run with `ml.launch` in other ways than `run` does."""
        return self.case.program

    @property
    def evidence(self) -> Evidence:
        """What `run` found; runs it if nobody has yet."""
        return self._evidence if self._evidence is not None else self.run()

    def run(self, *, seed: int = 0, backend: str | None = None, timeout: float = TIMEOUT) -> Evidence:
        """The Evidence of the broken program on real ranks: it may hang or crash, the notebook does not."""
        trial = self.case.repair.trials[self.case.shown_trial]
        backend = backend or usable_backend(trial.ranks)
        # What a dying rank writes comes early, late or never: two equal runs would differ.
        with contextlib.redirect_stdout(io.StringIO()):
            found = attempt(
                self.case.repair, self.case.program, trial, seed=seed, backend=backend, timeout=timeout
            )
        if isinstance(found, Ending):
            facts = (say("ended"), found.sentence)
            self._evidence = Evidence(facts, None, self._with_code(found.detail), trial.ranks)
        else:
            self._evidence = Evidence(_facts(found, self.case.look), found.run, "", trial.ranks)
        return self._evidence

    def _with_code(self, detail: str) -> str:
        """The detail, its line numbers replaced by the lines: a learner sees the program, not its file."""
        path = inspect.getsourcefile(self.case.program) or ""

        def line(found: re.Match[str]) -> str:
            return plain_code(linecache.getline(path, int(found[1])).strip()) or found[0]

        name = re.escape(Path(path).name)
        return re.sub(rf"{name}, line (\d+)(?:, in \w+\n.*)?", line, detail)

    def cause(self, choice: str | Any = None) -> Causes:
        """The causes to choose from; with a letter ("b"), whether that is the one, and why.

        `...` is no answer yet. Raises ValueError for another letter.
        """
        letters = "abcdefgh"[: len(self.case.causes)]
        if choice is None or unanswered(choice):
            lines = [
                f"{letter}) {translated(str(one.text))}"
                for letter, one in zip(letters, self.case.causes, strict=True)
            ]
            return Causes((say("cause_ask", last=letters[-1]), *lines))
        if not isinstance(choice, str) or choice.lower().strip() not in tuple(letters):
            raise ValueError(f"cause {choice!r}: choose one of {', '.join(letters)}")
        chosen = self.case.causes[letters.index(choice.lower().strip())]
        right = bool(chosen.holds() if callable(chosen.holds) else chosen.holds)
        why = chosen.why() if callable(chosen.why) else chosen.why
        journal().set("cases", self.name, cause=right)
        word = say("cause_right" if right else "cause_wrong")
        return Causes(
            (translated(str(chosen.text)), translated(why)), panel.GOOD if right else panel.BAD, word
        )

    def check(
        self, fn: Any, *, seed: int | None = None, backend: str | None = None, timeout: float = TIMEOUT
    ) -> Grade:
        """The Grade of the repaired program, judged as an exercise is (see `ml.exercise`)."""
        chosen = int(os.environ.get("MINDLAB_SEED", "0")) if seed is None else seed
        claim = f"{say('repaired', name=say('case', name=self.name))}: {translated(self.case.title)}"
        found = grade(self.case.repair, fn, claim=claim, seed=chosen, backend=backend, timeout=timeout)
        journal().tried("cases", self.name, found.verdict)
        return found.settle()

    def __repr__(self) -> str:
        parts = [
            self._title(),
            translated(self.case.story).strip(),
            source_of(self.case.program),
            self._source(),
        ]
        return "\n\n".join(filter(None, parts))

    def _repr_html_(self) -> str:
        parts = [panel.text(translated(self.case.story)), panel.code(source_of(self.case.program))]
        parts += [panel.small(self._source())] if self.case.source else []
        return panel.box(self._title(), parts, kind="case")

    def _title(self) -> str:
        return f"{say('case', name=self.name)}: {translated(self.case.title)}"

    def _source(self) -> str:
        return say("source", source=self.case.source) if self.case.source else ""


def case(name: str) -> CaseFile:
    """The case file called `name`, such as "01-b": shows the story and the broken program.

    `.run()` runs it under the watchdog, `.cause("a")` names what is wrong, `.check(fn)` judges the repair.
    Raises UnknownName, which lists the known ones.

    >>> bool(ml.case("01-c").cause("b"))
    True
    """
    return CaseFile(registry.find_case(name))


def _facts(found: Attempt, own: Callable[[Any], str] | None) -> tuple[str, ...]:
    """What is to be seen of a program that came to its end: values, calls, bytes, what it printed."""
    wrong = values.kind(found) or values.wrong_value(found)
    look = own or found.exercise.look
    named = look(found) if look else ""
    verdict = [named] if wrong and named else [wrong or say("values_right"), *filter(None, [named])]
    return (*verdict, *_calls(found), *_bytes(found), *_printed(found))


def _calls(found: Attempt) -> list[str]:
    """Which collectives a rank calls, where it calls any."""
    ops = [event.op for event in found.run.events if event.rank == 0 and not event.is_point_to_point]
    if not ops:
        return []
    listed = ", ".join(f"{op} x{count}" for op, count in sorted(Counter(ops).items()))
    return [say("collectives_called", calls=listed)]


def _bytes(found: Attempt) -> list[str]:
    if not found.run.events and found.exercise.pure:
        return []
    bound = found.exercise.budget.sent
    sent, total = found.run.sent.tolist(), sent_by_all(found)
    if found.run.sent.note:
        lines = [say("bytes_on_wire", seen=units.with_base(total, "B"))] if total is not None else []
    elif len(set(sent)) == 1:
        lines = [say("bytes_sent", seen=units.with_base(sent[0], "B"))]
    else:
        lines = [say("bytes_sent_by_rank", seen=", ".join(f"{nbytes:,}" for nbytes in sent))]
    if bound is not None and not found.run.sent.note:
        optimum = at(bound.optimum, found.exercise, found.trial)
        value = max(optimum.by_rank(found.trial.ranks)) if isinstance(optimum, Quantity) else optimum
        lines.append(say("bytes_needed", optimum=units.with_base(value, "B")))
    return lines


def _printed(found: Attempt) -> list[str]:
    return [
        say("printed", rank=rank, text=text.strip())
        for rank, text in enumerate(found.run.printed)
        if text.strip()
    ]
