"""`ml.quiz("01")`: questions whose answers are computed, with a why for every choice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindlab.predict import units
from mindlab.predict.quantity import Quantity
from mindlab.teach import panel, quiz_page, registry
from mindlab.teach.cases import Causes
from mindlab.teach.journal import journal
from mindlab.teach.lesson import Choice, Question, Quiz
from mindlab.teach.reading import unanswered
from mindlab.teach.verdict import FAILED, PASSED
from mindlab.teach.words import say, translated

LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Option:
    """A choice, computed: its text, whether it is right, why, and where to read again."""

    letter: str
    text: str
    right: bool
    why: str
    read: str


@dataclass(frozen=True)
class Asked:
    """A question with its options. At least one option is right, at least one is wrong."""

    number: int
    text: str
    options: tuple[Option, ...]


class QuizSheet:
    """A quiz as a learner meets it: to click in a notebook or a page, or to read."""

    def __init__(self, quiz: Quiz) -> None:
        self.name, self.title = quiz.name, translated(quiz.title)
        self.questions = [_asked(number, one) for number, one in enumerate(quiz.questions, 1)]

    @property
    def key(self) -> str:
        """The hash of the content: the same quiz has the same key everywhere."""
        content = [[one.text, *([o.text, o.right, o.why] for o in one.options)] for one in self.questions]
        return hashlib.sha256(json.dumps([self.title, content]).encode()).hexdigest()[:12]

    def answer(self, number: int, choice: str | Any = ...) -> Causes:
        """Whether `choice` ("a", "b", …) answers question `number` (from 1), and why; kept in the progress.

        `...` shows the question. Raises ValueError for a question or a letter that does not exist.
        """
        if number not in range(1, len(self.questions) + 1):
            raise ValueError(f"question {number!r}: choose 1 to {len(self.questions)}")
        asked = self.questions[number - 1]
        if unanswered(choice) or choice is None:
            return Causes((asked.text, *(f"{one.letter}) {one.text}" for one in asked.options)))
        letters = [one.letter for one in asked.options]
        if choice not in letters:
            raise ValueError(f"choice {choice!r}: choose one of {', '.join(letters)}")
        option = asked.options[letters.index(choice)]
        self._note(number, option.right)
        word = say("right_choice" if option.right else "wrong_choice")
        read = [say("read_again", place=option.read)] if option.read and not option.right else []
        return Causes((option.text, option.why, *read), panel.GOOD if option.right else panel.BAD, word)

    def _note(self, number: int, right: bool) -> None:
        """Passed once every question was answered rightly at some time."""
        if not self.name:
            return
        kept = journal()
        done = set(kept.entry("quizzes", self.name).get("right", []))
        done |= {number} if right else set()
        kept.set("quizzes", self.name, right=sorted(done))
        kept.tried("quizzes", self.name, PASSED if len(done) == len(self.questions) else FAILED)

    def html(self) -> str:
        """The quiz: self-contained, the same text for the same questions."""
        return quiz_page.page(self.key, self.title, self.questions)

    def __repr__(self) -> str:
        lines = [self.title]
        for asked in self.questions:
            lines += ["", f"{asked.number}. {asked.text}"]
            lines += [f"   {one.letter}) {one.text}" for one in asked.options]
        lines += ["", say("answers") + ":"]
        for asked in self.questions:
            lines += [f"{asked.number}. {quiz_page.verdict(one)}" for one in asked.options]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": repr(self)}


def quiz(source: str | Sequence[Question]) -> QuizSheet:
    """The quiz called `source`, such as "01", or one of your own `Question`s (`mindlab.teach.lesson`).

    As the last line of a cell it shows itself. `.answer(2, "b")` answers without a mouse. Raises UnknownName,
    and ValueError for a question without a right choice or without a wrong one.

    >>> bool(ml.quiz("01").answer(1, "a"))
    True
    """
    if isinstance(source, str):
        return QuizSheet(registry.find_quiz(source))
    return QuizSheet(Quiz("", say("quiz"), tuple(source)))


def _asked(number: int, question: Question) -> Asked:
    goal = None if question.answer is None else question.answer()
    options = tuple(
        _option(letter, choice, question, goal)
        for letter, choice in zip(LETTERS, question.choices, strict=False)
    )
    right = sum(one.right for one in options)
    if len({one.text for one in options}) < len(options):
        raise ValueError(f"question {number} ({question.text!r}) offers the same choice twice")
    if not 0 < right < len(options):
        raise ValueError(
            f"question {number} ({question.text!r}) has {right} right choices of {len(options)}: "
            "at least one must be right and one wrong"
        )
    return Asked(number, translated(question.text), options)


def _option(letter: str, choice: Choice, question: Question, goal: Any) -> Option:
    value = choice.text() if callable(choice.text) else choice.text
    right = choice.holds() if callable(choice.holds) else choice.holds
    if right is None:
        right = _same(value, goal)
    why = choice.why() if callable(choice.why) else choice.why
    read = choice.read or question.read
    return Option(letter, _shown(value, question.unit), bool(right), translated(why), translated(read))


def _same(value: Any, goal: Any) -> bool:
    if isinstance(value, Quantity) and isinstance(goal, Quantity) and value.unit != goal.unit:
        return False
    if isinstance(value, (Quantity, int, float)) and isinstance(goal, (Quantity, int, float)):
        return abs(float(value) - float(goal)) <= 1e-9 * abs(float(goal))
    return bool(value == goal)


def _shown(value: Any, unit: str) -> str:
    if isinstance(value, Quantity):
        return units.pretty(value.value, value.unit)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return units.pretty(value, unit)
    return translated(str(value))
