"""Every error that a person meets, as one tree.

MindlabError
├── ExperimentError            one experiment ended; the next cell works
│   ├── RankFailed             a rank raised
│   ├── RankDied               a rank exited, was killed or crashed
│   ├── Mismatch               ranks called different things (or the same one with other arguments)
│   ├── Stuck                  no rank can go on
│   ├── TimedOut               the deadline passed
│   └── Interrupted            the person pressed interrupt (also a KeyboardInterrupt)
├── CannotTravel               an argument or a result cannot go from one process to another
├── BackendUnavailable         the wanted backend is not on this host
├── UnsafeCall                 a call that the backend would get wrong in silence
├── CheckFailed                a claim does not hold
└── UnknownName                a chapter, parameter or name that does not exist (lists the known)
"""

from __future__ import annotations

from collections.abc import Iterable


class MindlabError(Exception):
    """The root of the tree. `str(error)` is the whole message, several lines at most.

    >>> raise ml.MindlabError("what is wrong, and what would work")
    Traceback (most recent call last):
    mindlab.errors.MindlabError: what is wrong, and what would work
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the kernel's own frames: our sentence, nothing else."""
        return [f"{type(self).__name__}: {self}"]


class ExperimentError(MindlabError):
    """An experiment on ranks that ended early.

    `rank` is the first failing rank (or None), `others` says in one line each what the other ranks did.
    """

    def __init__(self, message: str, *, rank: int | None = None, others: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.rank = rank
        self.others = tuple(others)


class RankFailed(ExperimentError):
    """A rank raised. `kind` is the name of its exception, `traceback` its text cut to the person's code."""

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        others: Iterable[str] = (),
        kind: str = "",
        traceback: str = "",
    ) -> None:
        super().__init__(message, rank=rank, others=others)
        self.kind = kind
        self.traceback = traceback


class RankDied(ExperimentError):
    """A rank's process ended without an exception: it exited, was killed or crashed."""


class Mismatch(ExperimentError):
    """Ranks called different things, or the same one with other shapes, dtypes, roots or groups."""


class Stuck(ExperimentError):
    """Every rank waits for another one that cannot come."""


class TimedOut(ExperimentError):
    """The experiment did not end within its `timeout`."""


class Interrupted(ExperimentError, KeyboardInterrupt):
    """The person pressed interrupt; says where each rank stood."""


class CannotTravel(MindlabError):
    """An argument, a function or a result cannot be sent from one process to another."""


class BackendUnavailable(MindlabError):
    """The backend asked for is not on this host; says why and what there is."""


class UnsafeCall(MindlabError):
    """A call of torch.distributed that the backend accepts and gets wrong."""


class CheckFailed(MindlabError):
    """A claim that does not hold.

    >>> with ml.expect_error(ml.CheckFailed):
    ...     ml.check("three is four", 4, 3, provenance="counted")
    """


class UnknownName(MindlabError):
    """A name that does not exist. `UnknownName("chapter", "99", known)` lists the known ones."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what, self.name, self.known = what, name, tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(f"unknown {what} {name!r}; known: {listed}")
