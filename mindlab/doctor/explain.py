"""`mindlab doctor explain`: which known failure a log or a pasted error shows, what it means, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("failures.yaml")
_SHOWN = 300
"""Characters of a line that are quoted at most."""


@dataclass(frozen=True)
class Failure:
    """A known failure: how its messages read, what they mean, and what to do, first things first."""

    name: str
    match: tuple[re.Pattern[str], ...]
    means: str
    do: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Explanation:
    """A known failure, and the first of the lines in which it shows."""

    failure: Failure
    line: int
    text: str
    times: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.failure.name,
            "line": self.line,
            "text": self.text,
            "times": self.times,
            "means": self.failure.means,
            "do": list(self.failure.do),
            "source": self.failure.source,
        }


@cache
def failures() -> tuple[Failure, ...]:
    """All known failures, in the order in which they are tried."""
    import yaml  # type: ignore[import-untyped,unused-ignore]

    return tuple(
        Failure(
            entry["name"],
            tuple(re.compile(each) for each in entry["match"]),
            " ".join(entry["means"].split()),
            tuple(entry["do"]),
            entry["source"],
        )
        for entry in yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    )


def explain(lines: Iterable[str]) -> list[Explanation]:
    """The known failures that show in these lines, in the order in which they first do.

    >>> [found.failure.name for found in explain(["RuntimeError: Cannot use ReduceOp.BAND with HCCL"])]
    ['dtype or operation that HCCL has not']
    """
    found: dict[str, Explanation] = {}
    for number, line in enumerate(lines, 1):
        failure = _failure_of(line)
        if failure is None:
            continue
        before = found.get(failure.name)
        found[failure.name] = (
            Explanation(failure, number, _quoted(line, failure), 1)
            if before is None
            else Explanation(failure, before.line, before.text, before.times + 1)
        )
    return list(found.values())


def as_text(found: list[Explanation], lines: int) -> str:
    """The explanations for a terminal; the first in the log comes first, for others often follow from it."""
    if not found:
        return (
            f"No failure that is known here shows in {lines:,} lines. The first error of the first rank that "
            "failed is the one to search for; `mindlab doctor` examines this host."
        )
    parts = []
    for each in found:
        more = f" (and {each.times - 1} more)" if each.times > 1 else ""
        steps = [f"  {number}. {step}" for number, step in enumerate(each.failure.do, 1)]
        parts.append(
            "\n".join(
                [
                    f"{each.failure.name}, line {each.line}{more}",
                    f"  > {each.text}",
                    f"  {each.failure.means}",
                    *steps,
                    f"  Source: {each.failure.source}.",
                ]
            )
        )
    if len(found) > 1:
        parts.append("Begin with the first: the others may follow from it.")
    return "\n\n".join(parts)


def _failure_of(line: str) -> Failure | None:
    return next((each for each in failures() if any(one.search(line) for one in each.match)), None)


def _quoted(line: str, failure: Failure) -> str:
    """The line, or of a long one the part around the message."""
    text = line.strip()
    if len(text) <= _SHOWN:
        return text
    at = next(found.start() for one in failure.match if (found := one.search(text)))
    start = max(0, min(at - _SHOWN // 4, len(text) - _SHOWN))
    return ("… " if start else "") + text[start : start + _SHOWN] + " …"
