"""What a chapter's lessons are made of: exercises, case files, quiz questions. Only data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]

WHOLE = -1
"""The number of a chunk that is the whole tensor (see `Exercise.chunks`)."""


@dataclass(frozen=True)
class Trial:
    """One experiment of a check: so many ranks, and how large the tensors are.

    >>> trial = Trial(4, sizes={"sequence": 10, "heads": 8}, dtype="bfloat16")
    >>> trial["sequence"]
    10
    """

    ranks: int
    numel: int = 0
    """Elements of the full tensor, where it has one dimension."""
    sizes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Sizes by name, where there are several tensors or dimensions."""
    dtype: str = "float32"

    def __getitem__(self, name: str) -> int:
        if name not in self.sizes:
            raise KeyError(f"{name!r} is none of the trial's sizes: {', '.join(self.sizes) or 'it has none'}")
        return self.sizes[name]


@dataclass(frozen=True)
class OfTrial:
    """An amount that must know the sizes: Trial -> Quantity or number."""

    of: Callable[[Trial], Any]


Amount = Callable[[int, int], Any] | OfTrial
"""(nbytes, ranks) -> Quantity or number, as the functions of `ml.volume` and `ml.volume.rounds` are."""


@dataclass(frozen=True)
class Tolerance:
    """How far an element may be from one card's: atol + rtol x |element|, and why so far."""

    atol: float
    rtol: float
    why: str


USUAL_TRIALS = (Trial(4, 16_800), Trial(4, 16_801), Trial(3, 16_801))
"""First 4 ranks and a length that they divide, then a length that neither 4 nor 3 divides."""


@dataclass(frozen=True)
class Bound:
    """One line of a budget, as functions of (nbytes, ranks) or as `OfTrial`."""

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
    """Bytes that a rank sends: no rank more than the largest, all together not more than the sum. Where a
    reduction is among the calls, all ranks together, by the wire; without a wire it is not checked."""
    rounds: Bound | None = None
    """Messages one after the other, if a rank sends at most one at a time."""
    memory: Bound | None = None
    """Bytes of tensors alive at one time beside the input, on the rank that has most."""
    work: Bound | None = None
    """Floating-point operations that a rank's calls stated (`recorder.compute`, as attention does), on the
    rank that has most. Without a bound no row."""
    collectives: Mapping[str, int] = field(default_factory=dict, hash=False)
    """How many calls of a collective a rank may make: {"all_reduce": 1}. A name stands for all forms:
    "all_gather" also for all_gather_into_tensor."""


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
    inputs: Callable[[int, int, Trial], tuple[Any, ...]]
    """(seed, rank, trial) -> the arguments of one rank."""
    reference: Callable[[list[tuple[Any, ...]]], list[Any]]
    """The arguments of all ranks -> what each rank must return, computed on one card: a tensor, a tuple of
    tensors (see `results`), or other data, which must be equal."""
    solution: Function
    explanation: str
    hints: tuple[str, str, str]
    """The idea, the picture, the skeleton."""
    wrong: tuple[Wrong, ...]
    right: tuple[Function, ...]
    budget: Budget = field(default_factory=Budget)
    calls: tuple[str, ...] = ("send", "recv", "isend", "irecv")
    """The calls of torch.distributed that an answer may make, a collective in all its forms; empty: any."""
    pure: bool = False
    """A function that needs no other rank: nothing may be sent."""
    results: tuple[str, ...] = ()
    """The names of the tensors that an answer returns as a tuple: ("out", "lse")."""
    dims: tuple[str, ...] = ()
    """The names of the (first) result's dimensions: ("batch", "sequence", "heads", "head_dim")."""
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict, hash=False)
    """By dtype of a result; a dtype that is not in it: what another order of additions can do."""
    edges: Callable[[int], Sequence[tuple[int, int]]] | None = None
    """ranks -> the pairs (from, to) that may be used; None: any."""
    chunks: Callable[[int, int], Sequence[int]] | None = None
    """(rank, ranks) -> which chunks of the inputs, added over ranks, make up this rank's result, in order.
    With it the check can say whose part is missing. `[WHOLE]`: the inputs are not cut. None where a result is
    no sum of such parts."""
    summands: Callable[[list[tuple[Any, ...]], int], Sequence[Any]] | None = None
    """(the arguments of all ranks, rank) -> one tensor a rank, whose sum is this rank's result. For floats,
    what `chunks` is for whole numbers."""
    picture: Sequence[Sequence[tuple[Any, ...]]] = ()
    """Rounds for the second hint, drawn as `ml.draw.moves` does: (from, to, bytes, what stands on it)."""
    look: Callable[[Any], str] | None = None
    """A finding of this exercise's own, asked before the general ones: Attempt -> sentence or ""."""
    trials: tuple[Trial, ...] = USUAL_TRIALS
    whole: Callable[[Trial], int] = lambda trial: 4 * trial.numel
    """Bytes of D, the tensor of which the budget speaks."""
    grain: Callable[[Trial], int] = lambda trial: 4 if trial.numel % trial.ranks else 0
    """Bytes of what one rank may have more of than another: an element, a row. 0 where all have the same, or
    where the budget is exact for each rank. The budget has one such piece a rank to spare."""


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
    look: Callable[[Any], str] | None = None
    """(the attempt) -> what `run` says of wrong values, where the repair's `look` would name the cause."""


@dataclass(frozen=True)
class Quiz:
    """The questions at the end of a chapter."""

    name: str
    title: str
    questions: tuple[Question, ...]
