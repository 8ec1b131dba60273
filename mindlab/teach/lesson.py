"""What a chapter's lessons are made of: exercises, case files, quiz questions. Only data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]
Amount = Callable[[int, int], Any]
"""(nbytes, ranks) -> Quantity or number, as the functions of `ml.volume` and `ml.volume.rounds` are."""


WHOLE = -1
"""The number of a chunk that is the whole tensor (see `Exercise.chunks`)."""


@dataclass(frozen=True)
class Trial:
    """One experiment of a check: so many ranks, so many elements of the full tensor."""

    ranks: int
    numel: int


USUAL_TRIALS = (Trial(4, 16_800), Trial(4, 16_801), Trial(3, 16_801))
"""First 4 ranks and a length that they divide, then a length that neither 4 nor 3 divides."""


@dataclass(frozen=True)
class Bound:
    """One line of a budget, as functions of (nbytes, ranks)."""

    optimum: Amount
    """The least that is possible, or that the exercise's algorithm needs."""
    naive: Amount | None = None
    """What the obvious way needs."""
    allowed: Amount | None = None
    """The most that passes; None: the optimum."""


@dataclass(frozen=True)
class Budget:
    """What an answer may spend. A bound that is None is not judged; the number is shown all the same."""

    sent: Bound | None = None
    """Bytes that a rank sends: no rank more than the largest, all together not more than the sum."""
    rounds: Bound | None = None
    """Messages one after the other, if a rank sends at most one at a time."""
    memory: Bound | None = None
    """Bytes of tensors alive at one time beside the input, on the rank that has most."""


@dataclass(frozen=True)
class Wrong:
    """An answer that the check must reject, and a pattern (re.search) that its sentence must contain."""

    answer: Function
    says: str


@dataclass(frozen=True)
class Exercise:
    """A task whose answer is a function, run on real ranks."""

    name: str
    """Chapter and number: "01.2"."""
    title: str
    statement: str
    """What to write, what it gets, what it returns. Paragraphs between empty lines."""
    inputs: Callable[[int, int, int, int], tuple[Any, ...]]
    """(seed, rank, ranks, numel) -> the arguments of one rank."""
    reference: Callable[[list[tuple[Any, ...]]], list[Any]]
    """The arguments of all ranks -> what each rank must return, computed on one card."""
    solution: Function
    explanation: str
    hints: tuple[str, str, str]
    """The idea, the picture, the skeleton."""
    wrong: tuple[Wrong, ...]
    right: tuple[Function, ...]
    budget: Budget = field(default_factory=Budget)
    calls: tuple[str, ...] = ("send", "recv", "isend", "irecv")
    """The calls of torch.distributed that an answer may make; empty: any."""
    edges: Callable[[int], Sequence[tuple[int, int]]] | None = None
    """ranks -> the pairs (from, to) that may be used; None: any."""
    chunks: Callable[[int, int], Sequence[int]] | None = None
    """(rank, ranks) -> which chunks of the inputs, added over ranks, make up this rank's result, in order.
    With it the check can say whose part is missing. `[WHOLE]`: the inputs are not cut. None where a result is
    no sum of such parts."""
    picture: Sequence[Sequence[tuple[Any, ...]]] = ()
    """Rounds for the second hint, drawn as `ml.draw.moves` does: (from, to, bytes, what stands on it)."""
    look: Callable[[Any], str] | None = None
    """A finding of this exercise's own, asked before the general ones: Attempt -> sentence or ""."""
    trials: tuple[Trial, ...] = USUAL_TRIALS
    itemsize: int = 4


@dataclass(frozen=True)
class Choice:
    """One answer to choose. Its `text` may be a number or a Quantity: it is printed with its unit."""

    text: Any
    why: str | Callable[[], str]
    """Why it is right, or what the mistake is."""
    holds: Callable[[], bool] | bool | None = None
    """Whether it is right, where the question has no `answer`."""
    read: str = ""
    """Where to read again: "4, Rounds"; empty: the question's."""


@dataclass(frozen=True)
class Question:
    """One question of a quiz. With `answer` (a function), the choices equal to its result are right."""

    text: str
    choices: tuple[Choice, ...]
    answer: Callable[[], Any] | None = None
    unit: str = ""
    """The unit of bare numbers among the choices."""
    read: str = ""


@dataclass(frozen=True)
class Case:
    """A broken program: what is claimed, what it does, what is wrong, and what counts as repaired."""

    name: str
    """Chapter and letter: "01-b"."""
    title: str
    story: str
    program: Function
    """Called as an answer to `repair` would be."""
    causes: tuple[Choice, ...]
    repair: Exercise
    """Judges the repaired program; its hints and solution are the case's."""
    source: str = ""
    """Where such a program was published or reported."""
    shown_trial: int = 0
    """Which of the repair's trials shows what is wrong."""


@dataclass(frozen=True)
class Quiz:
    """The questions at the end of a chapter."""

    name: str
    title: str
    questions: tuple[Question, ...]
