"""The chapters as a reader meets them: solved they pass every check, and the skeleton is kept.

Their open editions, and other parameters, are in test_chapters_open.py: two files can run at a time.
"""

from __future__ import annotations

import ast
import csv
import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from chapter_runs import CHAPTERS, ROOT, SOURCES, asked_for, execute, lessons, verdicts

from mindlab.book.editions import Edition, code_of
from mindlab.book.grading.asked import chapters as chapters_of
from mindlab.book.solutions import has_region
from mindlab.book.source import Chapter, read_chapter
from mindlab.teach import registry
from mindlab.teach.hints import source_of

pytestmark = pytest.mark.timeout(1200)  # all chapters run in the first test that needs them
MOST_ROWS = {"01": 50, "03": 50}
"""Chapters that check in loops: more rows than calls in the source."""
FORMULAS = {
    "01": (r"2\frac{p-1}{p}D", r"\frac{p-1}{p}D", r"2(p-1)", r"\lceil\log_2p\rceil"),
    "02": (r"2\cdot2\frac{p-1}{p}bshe", r"\frac{p-1}{p}D"),
    "03": (r"2\cdot2\frac{p-1}{p}bshe", r"2\cdot3\frac{p-1}{p}bshe", r"10+\frac{24}{p}"),
    "04": (r"\frac{p-1}{p}2bsKde", r"p-1", r"\frac{s(s+1)}{2p}"),
    "05": (r"\frac{p-1}{p}(2H+2K)db\frac{s}{p}e", r"(2H+2p)", r"\frac{p-1}{p}2bsKde"),
    "06": (r"he\sum_{d\ner}(n_{rd}+n_{dr})", r"\frac{p-1}{p}kThe", r"p\left(1-"),
    "07": ("Tne", r"\frac{t_u+t_c}{\max(t_u,t_c)+t_{\mathrm{exchange}}}"),
    "08": (r"\frac{p-1}{p}(bshe+64m)", r"\frac{p-1}{m+p-1}", r"\sum_it_i+(m-1)\max_it_i"),
    "09": (r"\frac{U-1}{U}(2H+2K)db\frac{s}{UR}e", r"\frac{R-1}{R}2bs\frac{K}{U}de", "Tne"),
    "10": (
        r"\frac{p-1}{p}bH(2de+4)",
        r"2Lb\frac{s}{p}Kde",
        r"2Lb\frac{p-1}{p}\frac{s}{p}Kde",
        r"\frac{4s_qs_kH}",
    ),
    "11": (
        r"\frac{1}{p}\sum_r\Big(\prod_i\hatn_{r,i}-\prod_in_{r,i}\Big)bCe",
        r"\frac{\prod_i\hatn_i}{\prod_in_i}-1",
        r"n(p-1)(1+3bG)e",
    ),
    "12": (
        r"\frac{8L}{c}\frac{t-1}{t}\frac{bshe}{RU}",
        r"\frac{R-1}{R}\left(\frac{4L}{c}\frac{bshe}{tU}+bsoe\right)",
        r"(c-1)\frac{bsoe}{RU}",
    ),
}
"""Formulas that the chapter is about, without spaces: each must stand in a check that ran."""
OWN_REPAIRS = {"01-a", "01-b"}
"""Cases that the chapter repairs in other words than `ml.solution` does."""
SKELETON = (
    "0 What you will be able to decide",
    "1 The one-card version",
    "2 Guess",
    "3 Run it for real",
    "4 Formula against bytes",
    "5 Tempting but wrong",
    "6 Exercises",
    "7 Case files",
    "8 What it costs",
    "9 Recall",
    "10 When to use which",
)


@cache
def chapter(name: str) -> Chapter:
    return read_chapter(SOURCES / f"{name}.md")


@pytest.fixture(scope="module")
def solved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every chapter, executed once with its answers."""
    return execute(tmp_path_factory.mktemp("solved"), "solutions", *asked_for(request))


def checking_calls(name: str) -> int:
    """How many calls in the chapter's source leave a row, at the least: not those meant to fail."""
    trees = [ast.parse(code_of(cell, Edition("en", "solutions"))) for cell in chapter(name).code_cells
             if not cell.text.lstrip().startswith("%")]  # fmt: skip
    meant = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.With)
             and "expect_error" in ast.dump(node.items[0])]  # fmt: skip
    inside = {id(node) for block in meant for node in ast.walk(block)}
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [
        node.func.attr for node in calls if isinstance(node.func, ast.Attribute) and id(node) not in inside
    ]
    return sum(name in ("check", "check_close") for name in names)


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_solved_chapter_passes_every_check(solved: dict[str, Any], name: str) -> None:
    """Would catch a cell that fails, a check that fails, and one that judged nothing where it should."""
    row = solved[name]
    assert row["status"] == "passed", row["error"]
    unjudged = [check["claim"] for check in verdicts(row["notebook"]) if check["passed"] is None]
    assert all(re.search(r"two ranks|p = 2|one rank", claim) for claim in unjudged), unjudged
    assert len(row["checks"]) >= checking_calls(name) > len(lessons(name))
    assert len(row["checks"]) > MOST_ROWS.get(name[:2], 0)


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_solved_chapter_names_the_cause_of_every_case(solved: dict[str, Any], name: str) -> None:
    """Would catch a letter that is wrong since the choices were put in another order."""
    assert not re.findall(r"^[✗…] No\.", shown(solved[name]["notebook"]), re.MULTILINE)
    causes = re.findall(r"^✓ Yes\.", shown(solved[name]["notebook"]), re.MULTILINE)
    assert len(causes) == sum(case.name.startswith(name[:2]) for case in registry.cases())


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_answered_guess_of_the_solved_chapter_is_right(solved: dict[str, Any], name: str) -> None:
    """Would catch a formula that a guess is held against and that is not what the run measures."""
    said = shown(solved[name]["notebook"])
    assert not re.search(r"times the right number", said)
    code = "\n".join(cell.text for cell in chapter(name).code_cells)
    assert code.count("ml.guess(") == code.count(".reveal(") >= 1
    timed = code.count("timed=True")
    assert len(re.findall(r"^Right\.", said, re.MULTILINE)) == code.count(".reveal(") - timed
    assert said.count("times what was timed") <= timed


def shown(path: Path) -> str:
    """What an executed notebook shows as text."""
    cells = nbformat.read(path, as_version=4).cells
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return "\n".join(one.get("text/plain", "") for one in data)


def test_every_lesson_stands_in_its_chapter() -> None:
    """Would catch an exercise, a case or a quiz that no chapter shows, or that has no check there."""
    for name in CHAPTERS:
        code = "\n".join(cell.text for cell in chapter(name).code_cells)
        for one in (one for one in registry.exercises() if one.name.startswith(name[:2])):
            assert f'ml.exercise("{one.name}")\n' in code + "\n", one.name
            assert f'ml.exercise("{one.name}").check(' in code, one.name
        for kind, made in (("case", registry.cases()), ("quiz", registry.quizzes())):
            for one in (one for one in made if one.name.startswith(name[:2])):
                assert f'ml.{kind}("{one.name}")' in code, one.name
        assert code.count("case.check(") == code.count("ml.case("), name


@pytest.mark.parametrize("name", CHAPTERS)
def test_solutions_are_the_registrys(name: str) -> None:
    """Would catch a solution of the chapter that `ml.solution` has in another version."""
    (asked,) = (one for one in chapters_of(ROOT) if one.name == name)
    assert {one.exercise for one in asked.asked} == set(lessons(name))
    functions = [node for cell in chapter(name).code_cells if has_region(cell.text)
                 for node in ast.parse(code_of(cell, Edition("en", "solutions"))).body
                 if isinstance(node, ast.FunctionDef)]  # fmt: skip
    for one in asked.asked:
        if one.exercise in OWN_REPAIRS:
            continue
        (here,) = (node for node in functions if node.name == one.function)
        there = ast.parse(source_of(registry.find_task(one.exercise).solution)).body[0]
        assert isinstance(there, ast.FunctionDef)
        assert ast.dump(here.args) == ast.dump(there.args), one.exercise
        assert [*map(ast.dump, here.body[1:])] == [*map(ast.dump, there.body[1:])], one.exercise


def test_every_chapter_keeps_the_skeleton() -> None:
    """Would catch a chapter without its guess, its wrong turns or its case file (00 teaches no method)."""
    for name in CHAPTERS[1:]:
        prose = "\n".join(cell.text for cell in chapter(name).cells if cell.kind == "prose")
        found = re.findall(r"^## (\d.*)$", prose, re.MULTILINE)
        assert tuple(found) == SKELETON, name


def test_every_cell_is_short_and_explained() -> None:
    """Would catch a cell of more than 20 lines, and code in a row without a sentence between."""
    for name in CHAPTERS:
        cells = chapter(name).cells
        for cell in (cell for cell in cells if cell.kind == "code"):
            lines = [line for line in cell.text.splitlines() if line.strip() and "SOLUTION" not in line]
            assert len(lines) <= 20, f"{name}, line {cell.line}: {len(lines)} lines"
            assert max(map(len, lines)) <= 92, f"{name}, line {cell.line}: a line is too long"
        kinds = "".join("c" if cell.kind == "code" else "p" for cell in cells)
        assert "cccc" not in kinds, f"{name}: four code cells in a row"


def test_shown_code_is_the_packages_code() -> None:
    """Would catch a cell that shows another algorithm than the package runs."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "mindlab").rglob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree))
    known = {ast.dump(node) for node in nodes if isinstance(node, ast.FunctionDef)}
    for name in CHAPTERS:
        for cell in (cell for cell in chapter(name).code_cells if "shown" in cell.tags):
            assert all(ast.dump(node) in known for node in ast.parse(cell.text).body), cell.line


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name[:2] in FORMULAS])
def test_every_formula_stood_in_a_check_that_ran(solved: dict[str, Any], name: str) -> None:
    """Would catch a formula in the prose that nobody held against a run."""
    ran = [check["formula"] for check in verdicts(solved[name]["notebook"]) if check["formula"]]
    plain = re.sub(r"\\[,;]|\s", "", " ".join(ran))
    for formula in FORMULAS[name[:2]]:
        assert formula in plain, formula


def test_every_chapter_that_teaches_a_method_names_its_formulas() -> None:
    """Would catch a chapter that is left out of the test above."""
    assert {name[:2] for name in CHAPTERS[1:]} == set(FORMULAS)


def test_every_term_has_both_languages_and_a_source() -> None:
    """Would catch a term without its source, or listed twice."""
    with (SOURCES / "terms.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows and all(row["en"] and row["zh"] and row["source"] for row in rows)
    assert len({row["en"] for row in rows}) == len(rows)
