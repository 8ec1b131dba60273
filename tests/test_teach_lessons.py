"""Every lesson of every chapter: right answers pass, wrong ones are refused with their own sentence."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mindlab as ml
from mindlab.teach import registry
from mindlab.teach.grade import grade
from mindlab.teach.lesson import Exercise, Wrong
from mindlab.teach.spending import budget

TASKS = [*registry.exercises(), *(case.repair for case in registry.cases())]
RIGHT = [(task, fn) for task in TASKS for fn in (task.solution, *task.right)]
WRONG = [(task, wrong) for task in TASKS for wrong in task.wrong]


def name_of(value: object) -> str:
    if isinstance(value, Exercise):
        return value.name
    if isinstance(value, Wrong):
        return name_of(value.answer)
    if isinstance(value, functools.partial):  # without addresses: the same name in every process
        return "-".join(f"{key}={name_of(given)}" for key, given in value.keywords.items())
    return str(getattr(value, "__name__", value))


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDLAB_PROGRESS", "off")


@pytest.fixture(scope="module", autouse=True)
def ranks() -> Iterator[None]:
    yield
    ml.shutdown()


@pytest.mark.parametrize(("task", "fn"), RIGHT, ids=name_of)
def test_right_answers_pass(task: Exercise, fn: object) -> None:
    """Would catch a check that knows one solution only."""
    found = grade(task, fn)
    assert found.passed, found.reason
    assert all(row.within for row in found.spent)


@pytest.mark.parametrize(("task", "wrong"), WRONG, ids=name_of)
def test_wrong_answers_are_refused_with_their_sentence(task: Exercise, wrong: Wrong) -> None:
    """Would catch a check that is blind to a mistake, or that says the same to all of them."""
    found = grade(task, wrong.answer, timeout=10)
    assert found.passed is False
    assert re.search(wrong.says, found.sentence, re.DOTALL), found.sentence


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_each_check_has_enough_answers(task: Exercise) -> None:
    """Would catch a lesson whose check nobody has tried to cheat."""
    assert len(task.wrong) >= 5 and len(task.right) >= 2 and len(task.hints) == 3
    said = [wrong.says for wrong in task.wrong]
    assert len(set(said)) >= 4, "the sentences depend on the mistake"
    if task.pure:
        return
    assert {3, 4} <= {trial.ranks for trial in task.trials}
    sizes = [(size, trial.ranks) for trial in task.trials for size in (trial.numel, *trial.sizes.values())]
    assert any(size % ranks for size, ranks in sizes), "all sizes are divisible"


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_no_refusal_gives_the_answer_away(task: Exercise) -> None:
    """Would catch a sentence or a first hint that quotes the solution."""
    code = {line.strip() for line in inspect.getsource(task.solution).splitlines() if "%" in line}
    shown = task.statement + task.hints[0] + task.hints[1]
    assert not [line for line in code if line in shown]


@pytest.mark.parametrize("case", registry.cases(), ids=lambda case: case.name)
def test_a_broken_program_is_refused_as_its_own_repair(case: object) -> None:
    """Would catch a case whose check the broken program passes."""
    assert any(wrong.answer is case.program for wrong in case.repair.wrong)  # type: ignore[attr-defined]
    right = [bool(choice.holds) for choice in case.causes]  # type: ignore[attr-defined]
    assert right.count(True) == 1 and len(right) >= 3


@pytest.mark.parametrize("seed", [1, 987_654])
def test_other_data_give_the_same_judgement(seed: int) -> None:
    """Would catch a check that depends on the numbers drawn."""
    task = registry.find_exercise("01.1")
    assert grade(task, task.solution, seed=seed).passed
    again = [grade(task, task.wrong[1].answer, seed=seed).sentence for _ in range(2)]
    assert again[0] == again[1] == grade(task, task.wrong[1].answer).sentence


def test_the_budget_is_that_of_the_run_not_of_the_formula() -> None:
    """Would catch a budget that shows the optimum as what was spent."""
    from mindlab.teach.attempt import Attempt, attempt

    task = registry.find_exercise("01.3")
    rows = {}
    for fn in (task.solution, task.right[1]):
        found = attempt(task, fn, task.trials[0], seed=0, backend=None, timeout=20)
        assert isinstance(found, Attempt)
        rows[fn] = {row.what: row.yours for row in budget(found)}
    lean, roomy = rows[task.solution], rows[task.right[1]]
    assert lean["sent"] == roomy["sent"] == 100_800
    assert lean["memory"] == 2 * 16_800 and roomy["memory"] > 4 * 16_800


def test_the_examples_for_writers_run() -> None:
    """Would catch a guide whose exercise cannot be checked, or whose quiz is refused."""
    text = (Path(__file__).parents[1] / "docs" / "lessons.md").read_text(encoding="utf-8")
    *exercises, quiz = re.findall(r"^```python\n(import.*?|from.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(exercises) == 2
    for code in exercises:
        names: dict[str, Any] = {"__name__": "example"}
        exec(code, names)
        task = names["EXERCISE"]
        assert grade(task, task.solution).passed
        for wrong in task.wrong:
            assert re.search(wrong.says, grade(task, wrong.answer).sentence), wrong.says
    exec(quiz, {})
