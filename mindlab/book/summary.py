"""The end of a run on the terminal: what failed and why, one line each, then the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mindlab.book.report import tally
from mindlab.book.task import Outcome


def summary(outcomes: Sequence[Outcome], report: Path) -> str:
    """The last lines of `mindlab run`. Passed chapters are counted, the others named."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    width = max((len(outcome.chapter) for outcome in failed), default=0)
    lines = [f"  {one.ending:<11} {one.chapter:<{width}}  {_first_line(one)}" for one in failed]
    counted = ", ".join(f"{n} {word}" for word, n in tally(_checks(outcomes)).items() if n) or "none"
    seconds = sum(outcome.seconds for outcome in outcomes)
    verdict = f"{len(outcomes) - len(failed)} of {len(outcomes)} chapters passed"
    verdict += f", {len(failed)} did not" if failed else ""
    lines.append(f"{verdict}; checks: {counted}; {seconds:.0f} s of computing")
    return "\n".join(["", *lines, f"report: {report}"])


def _checks(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    return [row for outcome in outcomes for row in outcome.checks]


def _first_line(outcome: Outcome) -> str:
    text = (outcome.error or "").partition("\n")[0]
    return text if len(text) <= 150 else text[:149] + "…"
