"""What the runner asks of a worker, and what it gets back. Plain values: both travel as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

START_SECONDS = 60.0
"""For a kernel's start and end, on top of a deadline."""

ENDINGS = ("passed", "failed", "timeout", "died", "interrupted")


@dataclass(frozen=True)
class Task:
    """One chapter to execute."""

    chapter: str
    notebook: str
    output: str
    parameters: dict[str, Any] = field(default_factory=dict)
    cell_timeout: float = 120.0
    timeout: float = 600.0
    skip_tags: tuple[str, ...] = ()
    mark: str = ""
    """The value of MINDLAB_RUN in the kernel's environment: by it the kernel's descendants are known."""

    @property
    def patience(self) -> float:
        """Seconds after which a worker that does not even notice its own deadline is given up."""
        return self.timeout + START_SECONDS


@dataclass(frozen=True)
class Outcome:
    """How a chapter ended. `ending` is one of ENDINGS; `error` says why, unless it passed."""

    chapter: str
    ending: str
    seconds: float
    error: str | None = None
    checks: tuple[dict[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        """True if the chapter ran to its end and nothing was wrong."""
        return self.ending == "passed"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, to travel as JSON."""
        return asdict(self)
