"""A plan in words: the table, and for each row where its time goes and what it costs in memory."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindlab.predict import units

if TYPE_CHECKING:
    from mindlab.planning.planner import Choice, Plan

HEADS = ("layout", "a card holds", "free", "a card sends", "latency", "tail", "throughput", "why")
SHOWN = 8
"""Rows of each kind that a table prints; the lists of the Plan have all."""


def why(choice: Choice) -> str:
    """Where a choice's time goes, by stage; or why no seconds are given.

    The shares are those of one request: exchanges that hide behind attention take none.
    """
    if choice.outside:
        return "outside the model: " + "; ".join(choice.outside)
    return _where(choice)


def _where(choice: Choice) -> str:
    said = []
    for name, stage in choice.stages.items():
        shares = [f"{part.what} {_percent(stage.share(part.what))}" for part in stage.parts if part.seconds]
        hidden = [part.what for part in stage.parts if part.nbytes and not part.seconds]
        more = f", {' and '.join(hidden)} hidden behind attention" if hidden else ""
        said.append(f"{name}: {', '.join(shares[:3])}{more}")
    return "; ".join(said)


def nothing(plan: Plan) -> str:
    """The sentence for a plan without rows: what stood in the way, the commonest first."""
    if plan.outside:
        return (
            f"no layout of {plan.model.name} on {plan.topology.name} is inside the model: "
            f"{len(plan.outside)} fit, but measurements contradict it there. See .outside; the first: "
            f"{plan.outside[0].name}, {plan.outside[0].outside[0]}"
        )
    least = plan.excluded[0] if plan.excluded else ("", "no layout was found")
    closest = next((pair for pair in plan.excluded if pair[1].startswith("needs")), least)
    return (
        f"no layout of {plan.model.name} fits on {plan.topology.name}. {closest[0]}: {closest[1]}. "
        "Take more cards, a smaller itemsize, or fewer requests"
    )


def lines(plan: Plan) -> list[tuple[str, ...]]:
    """The rows of the table, as text, in the columns HEADS. Rows outside the model name their footnotes."""
    marks = footnotes(plan)
    rows = [_line(choice, plan.work.unit, _where(choice)) for choice in plan.rows[:SHOWN]]
    for choice in plan.outside[:SHOWN]:
        letters = ", ".join(marks[reason] for reason in choice.outside)
        rows.append(_line(choice, plan.work.unit, f"outside the model ({letters})"))
    return rows


def footnotes(plan: Plan) -> dict[str, str]:
    """The reasons of the rows outside the model that are shown, each with its letter."""
    every = dict.fromkeys(reason for choice in plan.outside[:SHOWN] for reason in choice.outside)
    return {reason: chr(ord("a") + number) for number, reason in enumerate(every)}


def text(plan: Plan) -> str:
    """The whole table for a terminal."""
    rows = [HEADS, *lines(plan)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADS) - 1)]
    table = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    return "\n".join([head(plan), *table, *notes(plan)])


def table(plan: Plan) -> str:
    """The same as HTML."""
    left = 'style="text-align:left;vertical-align:top"'
    heads = "".join(f"<th {left}>{name}</th>" for name in HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td {left}>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in lines(plan)
    )
    under = "".join(f"<p>{html.escape(note)}</p>" for note in notes(plan))
    return f"<p>{html.escape(head(plan))}</p><table><tr>{heads}</tr>{rows}</table>{under}"


def head(plan: Plan) -> str:
    """What was asked."""
    return f"{plan.model.name} on {plan.topology.title}, {_work(plan)}; ranked by {plan.goal}"


def notes(plan: Plan) -> list[str]:
    """What the table leaves out, and where its numbers are from."""
    said = [_counted(plan.rows, "covered by the model"), _counted(plan.outside, "outside the model")]
    if plan.excluded:
        name, reason = plan.excluded[0]
        said.append(f"{len(plan.excluded)} cannot be; .excluded says why of each, such as {name}: {reason}.")
    said += [f"({letter}) {reason}" for reason, letter in footnotes(plan).items()]
    return [note for note in said if note] + [plan.provenance]


def _line(choice: Choice, unit: str, reason: str) -> tuple[str, ...]:
    def seconds(value: float | None) -> str:
        return "–" if value is None else units.duration(value)

    speed = (
        "–" if choice.throughput is None else f"{units.number(float(f'{choice.throughput:.3g}'))} {unit}/s"
    )
    free = "unknown" if choice.margin is None else units.decimal(choice.margin, "B")
    return (
        choice.name,
        units.decimal(choice.held, "B"),
        free,
        units.decimal(choice.nbytes, "B"),
        seconds(choice.latency),
        seconds(choice.tail),
        speed,
        reason,
    )


def _counted(choices: Sequence[Choice], what: str) -> str:
    """How many there are, where the table does not show all."""
    return f"{len(choices)} layouts are {what}; {SHOWN} are shown." if len(choices) > SHOWN else ""


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")


def _work(plan: Plan) -> str:
    import dataclasses

    given = dataclasses.asdict(plan.work).items()
    return ", ".join(f"{name} {value}" for name, value in given if value not in (None, 0.0))
