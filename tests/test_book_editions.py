"""The editions of a chapter, and building them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest

from mindlab.book import builder, catalog, solutions
from mindlab.book.editions import Edition, notebook, notebook_text
from mindlab.book.solutions import MARK
from mindlab.book.source import Chapter, parse_chapter

SOURCE = """---
title: T
languages: [en, zh]
---
# T

![a ring](../figures/ring.svg), [next](02_b.ipynb#Top), [readme](../README.md), <img src="../x.svg" alt="x">

+++ {"lang": "zh", "of": "%s"}

# 题

```{code-cell}
:tags: [parameters]
ranks = 4
language = "en"
```

```{code-cell}
:tags: [exercise]
:name: count
# BEGIN SOLUTION
secret_answer = 42
# END SOLUTION
```

```{code-cell}
:tags: [solution]
print("only for those who know", secret_answer)
```

```{code-cell}
:tags: [hide-input]
x = 1
```

```{code-cell}
x = 1
```

```{code-cell}
x = 1
```
"""


def chapter() -> Chapter:
    first = parse_chapter(SOURCE % "0", Path("01_t.md")).cells[0].fingerprint
    return parse_chapter(SOURCE % first, Path("01_t.md"))


def code(edition: Edition) -> list[str]:
    return ["".join(c["source"]) for c in notebook(chapter(), edition)["cells"] if c["cell_type"] == "code"]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", ["exercises", "solutions"])
def test_every_edition_is_a_valid_stripped_notebook(language: str, kind: str) -> None:
    """Catches invalid notebooks, outputs or a machine's metadata in them, ids that are not unique."""
    made = notebook(chapter(), Edition(language, kind))
    nbformat.validate(nbformat.from_dict(made))
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    assert made["metadata"]["language_info"] == {"name": "python"}
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in made["cells"])


def test_the_same_source_gives_the_same_bytes() -> None:
    """Catches random ids and the order of sets."""
    assert notebook_text(chapter(), Edition()) == notebook_text(chapter(), Edition())


def test_no_solution_is_left_in_the_exercise_edition() -> None:
    """Catches a solution that the learner can read, also a cell that exists for the solution alone."""
    text = notebook_text(chapter(), Edition("en", "exercises"))
    assert "42" not in text and "only for those who know" not in text and "SOLUTION" not in text
    assert "secret_answer = ...  # your code" in text
    assert "secret_answer = 42" in notebook_text(chapter(), Edition("en", "solutions"))


def test_languages_differ_in_prose_and_in_one_line_of_code() -> None:
    """Catches code that drifts between languages."""
    english, chinese = code(Edition("en")), code(Edition("zh"))
    assert [a.replace('"en"', '"zh"') for a in english] == chinese
    text = notebook_text(chapter(), Edition("zh"))
    assert "# 题" in text and "# T" not in text


def test_links_hold_from_every_folder() -> None:
    """Catches pictures that are found from notebooks/ and lost from notebooks/zh/solutions/."""
    prose = "".join(notebook(chapter(), Edition("en", "solutions"))["cells"][0]["source"])
    for link in ("(../../figures/ring.svg)", "(02_b.ipynb#Top)", "(../../README.md)", '"../../x.svg"'):
        assert link in prose


@pytest.mark.parametrize(
    ("region", "left"),
    [
        ("a, b = 1, 2\nb += 1", "a = ...  # your code\nb = ...  # your code"),
        ("total: int = 3", "total = ...  # your code"),
        ("print(1)", "...  # your code"),
        ("for i in x:\n    y = i", "...  # your code"),
        ("# STUB: a = ...\n# STUB: if a:\n# STUB:     pass\na = 3", "a = ...\nif a:\n    pass"),
        (
            'def f(x, *, k=1):\n    """D."""\n    return x',
            'def f(x, *, k=1):\n    """D."""\n    return ...' + MARK,
        ),
        ("class A:\n    x = 1", "class A:\n    ...  # your code"),
        ("g = lambda: 1\ng.x = 2", "g = ...  # your code"),
    ],
)
def test_what_a_region_leaves(region: str, left: str) -> None:
    """Catches a stub that keeps part of the answer or loses a name that later cells need."""
    cell = f"before = 1\n# BEGIN SOLUTION\n{region}\n# END SOLUTION\nafter = 2"
    assert solutions.opened(cell) == f"before = 1\n{left}\nafter = 2"
    ast.parse(solutions.opened(cell))
    assert "STUB" not in solutions.solved(cell) and "SOLUTION" not in solutions.solved(cell)


def test_a_region_that_is_a_functions_body_returns() -> None:
    """Catches a stub at the wrong indentation, and one that falls through to None."""
    body = "    # BEGIN SOLUTION\n    for i in x:\n        if i:\n            return i\n    # END SOLUTION\n"
    cell = f"def f(x):\n{body}"
    assert solutions.opened(cell) == "def f(x):\n    return ...  # your code"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    first = parse_chapter(SOURCE % "0", Path("01_t.md")).cells[0].fingerprint
    (tmp_path / "notebooks/src").mkdir(parents=True)
    (tmp_path / "notebooks/src/01_t.md").write_text(SOURCE % first, encoding="utf-8")
    return tmp_path


def test_build_writes_four_editions_once(root: Path) -> None:
    """Catches a build that rewrites what has not changed, or a check that is never content."""
    written, found = builder.build(root)
    assert len(written) == 4 and not found
    assert builder.build(root) == ([], []) and builder.check(root) == []


def test_check_names_stale_missing_and_orphaned_notebooks(root: Path) -> None:
    """Catches a committed notebook that is not what its source says."""
    builder.build(root)
    stale = root / "notebooks/zh/01_t.ipynb"
    stale.write_text(stale.read_text(encoding="utf-8").replace("x = 1", "x = 2"), encoding="utf-8")
    (root / "notebooks/solutions/01_t.ipynb").unlink()
    (root / "notebooks/09_gone.ipynb").write_text("{}")
    text = "\n".join(builder.check(root))
    assert "notebooks/zh/01_t.ipynb: stale" in text
    assert "notebooks/solutions/01_t.ipynb: missing" in text
    assert "notebooks/09_gone.ipynb: no source gives it" in text


def test_build_does_not_overwrite_a_learners_answers(root: Path) -> None:
    """Catches a build that destroys work; outputs alone are no work."""
    builder.build(root)
    mine, run = root / "notebooks/01_t.ipynb", root / "notebooks/solutions/01_t.ipynb"
    mine.write_text(mine.read_text(encoding="utf-8").replace("secret_answer = ...", "secret_answer = 7"))
    made = json.loads(run.read_text(encoding="utf-8"))
    made["cells"][2]["execution_count"] = 5
    run.write_text(json.dumps(made))
    written, found = builder.build(root)
    assert written == [run] and "changed by hand" in found[0] and "= 7" in mine.read_text()
    assert builder.build(root, force=True)[0] == [mine]


def test_a_run_is_told_when_a_notebook_is_not_its_source(root: Path) -> None:
    """Catches a run of last week's chapter that nobody notices."""
    builder.build(root)
    edition = Edition("en", "solutions")
    entry = catalog.entries(root, edition, ["1"])[0]
    assert (entry.name, [p.name for p in entry.parameters]) == ("01_t", ["ranks", "language"])
    assert catalog.stale(root, entry, edition) == ""
    source = root / "notebooks/src/01_t.md"
    source.write_text(source.read_text(encoding="utf-8").replace("x = 1", "x = 3"), encoding="utf-8")
    assert "its source is newer" in catalog.stale(root, entry, edition)
    entry.path.write_text(entry.path.read_text(encoding="utf-8").replace("x = 1", "x = 4"), encoding="utf-8")
    assert "changed by hand" in catalog.stale(root, entry, edition)


def test_a_broken_source_leaves_the_notebooks_alone(root: Path) -> None:
    """Catches half a build."""
    builder.build(root)
    before = (root / "notebooks/01_t.ipynb").read_text(encoding="utf-8")
    source = root / "notebooks/src/01_t.md"
    source.write_text(source.read_text(encoding="utf-8").replace("x = 1", "!ls"), encoding="utf-8")
    written, found = builder.build(root)
    assert not written and "shell command" in found[0]
    assert (root / "notebooks/01_t.ipynb").read_text(encoding="utf-8") == before
