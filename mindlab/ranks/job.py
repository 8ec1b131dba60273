"""What goes to a rank and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mindlab.ranks.payload import Packed


@dataclass
class Job:
    """One experiment, as a rank gets it."""

    number: int
    packed: Packed
    """(function, args, kwargs)"""
    seed: int
    guarded: bool
    origin: float
    """time.monotonic() of the notebook at dispatch: second 0 of the experiment."""
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Cell files: name -> (label "cell 3", text), for tracebacks and source lines."""
    path: list[str] = field(default_factory=list)
    folder: str = ""
    """The notebook's working directory."""
    keep: bool = False
    """A %%ranks cell: leave its groups and random state for the next one."""


@dataclass
class Frame:
    """One line of a traceback."""

    file: str
    line: int
    function: str
    code: str


@dataclass
class Failure:
    """An exception in a rank. `when` is on the clock common to all ranks of the host."""

    kind: str
    message: str
    frames: list[Frame]
    when: float
    travelling: bool = False
    """The function ran (or could not be loaded); it is the function or its value that cannot travel."""
    exit_code: int | None = None
    """For SystemExit."""


@dataclass
class Outcome:
    """How one rank's part of a job ended."""

    number: int
    failure: Failure | None = None
    packed: Packed | None = None
    seconds: float = 0.0
    record: Any = None
    before: Any = None
    after: Any = None
    dirty: str = ""
    """Why this rank must not serve another job: a thread left behind, a call nobody waited for."""
