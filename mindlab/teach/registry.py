"""Finds exercises, cases and quizzes by name: each chapter's are in `mindlab/teach/lessons/chapter_NN`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

from mindlab.errors import UnknownName
from mindlab.teach import lessons
from mindlab.teach.lesson import Case, Exercise, Quiz


@functools.cache
def chapters() -> tuple[str, ...]:
    """The numbers of the chapters that have lessons: "00", "01" …"""
    names = (module.name for module in pkgutil.iter_modules(lessons.__path__))
    return tuple(sorted(name.removeprefix("chapter_") for name in names if name.startswith("chapter_")))


def exercises(chapter: str | None = None) -> tuple[Exercise, ...]:
    """The exercises of one chapter, or of all."""
    return tuple(_all("EXERCISES", chapter))


def cases(chapter: str | None = None) -> tuple[Case, ...]:
    """The case files of one chapter, or of all."""
    return tuple(_all("CASES", chapter))


def quizzes() -> tuple[Quiz, ...]:
    """The quizzes of all chapters."""
    return tuple(_all("QUIZZES", None))


def find_exercise(name: str) -> Exercise:
    """The exercise called `name`; raises UnknownName."""
    found: Exercise = _find("exercise", name, exercises())
    return found


def find_case(name: str) -> Case:
    """The case called `name`; raises UnknownName."""
    found: Case = _find("case", name, cases())
    return found


def find_quiz(name: str) -> Quiz:
    """The quiz called `name`; raises UnknownName."""
    found: Quiz = _find("quiz", name, quizzes())
    return found


def find_task(name: str) -> Exercise:
    """The exercise called `name`, or the repair of the case called so; raises UnknownName."""
    tasks = {one.name: one for one in exercises()} | {one.name: one.repair for one in cases()}
    if name not in tasks:
        raise UnknownName("exercise or case", name, sorted(tasks))
    return tasks[name]


def _all(what: str, chapter: str | None) -> Iterable[Any]:
    for number in chapters() if chapter is None else (chapter,):
        module = importlib.import_module(f"{lessons.__name__}.chapter_{number}")
        yield from getattr(module, what, ())


def _find(what: str, name: str, known: Iterable[Any]) -> Any:
    by_name = {one.name: one for one in known}
    if name not in by_name:
        raise UnknownName(what, name, sorted(by_name))
    return by_name[name]
