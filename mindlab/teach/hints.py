"""`ml.hint("01.2")` and `ml.solution("01.2")`: help in small steps, and the whole at the end."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from mindlab.teach import panel, registry
from mindlab.teach.journal import journal
from mindlab.teach.words import say, translated
from mindlab.trace.places import plain_code

_LONGEST = 96
"""Characters of a line of code in a notebook."""


class Hint:
    """One hint. As the last line of a cell it shows itself, with `rounds` as a picture."""

    def __init__(self, title: str, words: str, more: str, rounds: Sequence[Any] = ()) -> None:
        self.title, self.words, self.more, self.rounds = title, words, more, rounds

    def __repr__(self) -> str:
        return f"{self.title}\n{self.words.strip()}\n{self.more}"

    def _repr_html_(self) -> str:
        parts = [_mixed(self.words), self._picture(), panel.small(self.more)]
        return panel.box(self.title, parts, kind="hint")

    def _picture(self) -> str:
        if not self.rounds:
            return ""
        from mindlab import draw
        from mindlab.draw.picture import figure_of, svg

        paper = "display:inline-block;background:#fff;border-radius:3px;padding:.3em;max-width:100%"
        return f'<div style="{paper}">{svg(figure_of(draw.moves(self.rounds)))}</div>'


class Solution:
    """A solution: its code, and why it is so. In a notebook it is folded, one more click away."""

    def __init__(self, title: str, code: str, words: str) -> None:
        self.title, self.code, self.words = title, code, words

    def __repr__(self) -> str:
        return f"{self.title}\n\n{self.code}\n\n{self.words.strip()}"

    def _repr_html_(self) -> str:
        inside = panel.code(self.code) + panel.text(self.words)
        return panel.box(self.title, [panel.folded(say("show_solution"), inside)], kind="solution")


def hint(name: str, step: int | None = None) -> Hint:
    """The next hint to an exercise or case: the idea, the picture, the skeleton. After the last, the last.

    `step` (1 to 3) shows that one again. Raises UnknownName and ValueError.

    >>> ml.hint("01.1", step=1).title
    'Hint 1 of 3 to 01.1: the idea'
    """
    task, kind = registry.find_task(name), _kind(name)
    steps = len(task.hints)
    if step is not None and step not in range(1, steps + 1):
        raise ValueError(f"step={step!r}: choose 1 to {steps}")
    seen = int(journal().entry(kind, name).get("hints", 0))
    number = min(seen + 1, steps) if step is None else step
    if number > seen:
        journal().set(kind, name, hints=number)
    words = say("hint_kinds").split("|")[number - 1]
    title = say("hint", step=number, steps=steps, name=name, kind=words)
    more = say("no_more_hints" if number == steps else "more_hints", name=name)
    return Hint(title, translated(task.hints[number - 1]), more, task.picture if number == 2 else ())


def solution(name: str) -> Solution:
    """A solution to an exercise or case, with its explanation; that it was asked for is kept in the progress.

    Raises UnknownName.

    >>> ml.solution("01.1").code.splitlines()[0]
    'def my_reduce_scatter(x):'
    """
    task = registry.find_task(name)
    journal().set(_kind(name), name, solution=True)
    title = say("solution", name=name, title=translated(task.title))
    return Solution(title, source_of(task.solution), translated(task.explanation))


def source_of(fn: Callable[..., Any]) -> str:
    """The function as a learner would write it in a cell: without annotations."""
    text = plain_code(textwrap.dedent(inspect.getsource(fn))).rstrip()
    return re.sub(r"(def \w+\()((?:\n[^()\n]*)+)\n *\):", _on_one_line, _bare(text))


def _bare(text: str) -> str:
    """The code, its functions without annotations."""
    lines = text.splitlines(keepends=True)
    begins = [0, *itertools.accumulate(len(line.encode()) for line in lines)]
    code, cuts = text.encode(), []
    for node in ast.walk(ast.parse(text)):
        of = getattr(node, "returns" if isinstance(node, ast.FunctionDef) else "annotation", None)
        if of is None or getattr(node, "value", of) is None:
            continue  # a bare declaration, `x: int`, has nothing else
        start, end = begins[of.lineno - 1] + of.col_offset, begins[of.end_lineno - 1] + of.end_col_offset
        arrow = b"->" if isinstance(node, ast.FunctionDef) else b":"
        default = re.match(rb" = ", code[end:]) if isinstance(node, ast.arg) else None
        instead = b"=" if default else b""
        cuts.append((len(code[: code.rindex(arrow, 0, start)].rstrip()), end + 3 * len(instead), instead))
    for start, end, instead in sorted(cuts, reverse=True):
        code = code[:start] + instead + code[end:]
    return code.decode()


def _on_one_line(head: re.Match[str]) -> str:
    """The head of a function on one line, if it is short enough for that."""
    line = head[1] + " ".join(head[2].split()).rstrip(",") + "):"
    return line if len(line) <= _LONGEST else head[0]


def _kind(name: str) -> str:
    return "cases" if "-" in name else "exercises"


def _mixed(words: str) -> str:
    """Paragraphs; a block whose lines are all indented is code."""
    blocks = [block for block in words.strip("\n").split("\n\n") if block.strip()]
    return "".join(
        panel.code(textwrap.dedent(block)) if block.startswith("    ") else panel.text(block)
        for block in blocks
    )
