"""Reading a chapter's source, and the rules it must keep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mindlab.book import rules
from mindlab.book.source import Chapter, SourceError, parse_chapter

FRONT = "---\ntitle: T\n---\n# T\n"
PARAMETERS = "\n```{code-cell}\n:tags: [parameters]\nranks = 4  # how many\n```\n"


def chapter(body: str, front: str = FRONT) -> Chapter:
    return parse_chapter(front + body, Path("01_t.md"))


def found(body: str, front: str = FRONT, parameters: str = PARAMETERS) -> str:
    return "\n".join(rules.findings(chapter(parameters + body, front)))


def code(*lines: str, tags: str = "") -> str:
    head = f":tags: [{tags}]\n" if tags else ""
    return "\n```{code-cell}\n" + head + "\n".join(lines) + "\n```\n"


def test_cells_are_split_where_the_writer_says() -> None:
    """Catches prose glued to prose, a lost cell, a fence inside prose taken for a code cell."""
    code_cell = "```{code-cell}\n:name: first\nx = 2\n```\n"
    body = f"one\n\n+++\n\ntwo\n```python\n+++\nx = 1\n```\n\n{code_cell}three\n"
    cells = chapter(body).cells
    assert [cell.kind for cell in cells] == ["prose", "prose", "code", "prose"]
    assert cells[1].text == "two\n```python\n+++\nx = 1\n```"
    assert (cells[2].text, cells[2].name, cells[3].text) == ("x = 2", "first", "three")


def test_lines_are_those_of_the_file() -> None:
    """Catches messages that send the writer to another line."""
    body = "\n\nsecond\n\n+++\n\nthird\n\n```{code-cell}\nx = 1\n```\n"
    text = (FRONT + body).splitlines()
    for cell in chapter(body).cells[1:]:
        assert text[cell.line - 1].startswith(("third", "```{code-cell}"))


def test_a_longer_fence_holds_a_shorter_one() -> None:
    """Catches a code cell cut at the three backticks inside its docstring."""
    cells = chapter('````{code-cell}\n"""\n```\n"""\n````\n').cells
    assert cells[-1].text == '"""\n```\n"""'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# no front matter\n", "line 1: begin with front matter"),
        ("---\ntitle: T\n", "no closing ---"),
        ("---\ntitle: T\nauthor: me\n---\n", "unknown front matter author"),
        ("---\nlanguages: [en]\n---\n", "needs a title"),
        ("---\ntitle: T\nlanguages: [zh]\n---\n", r"languages is \[en\] or"),
        (FRONT + "```{code-cell}\nx = 1\n", "line 5: the block that opens with ``` never closes"),
        (FRONT + "```{code-cell}\n:color: red\nx\n```\n", "line 5: unknown option :color:"),
        (FRONT + "```{note}\nx\n```\n", "line 5: unknown block '{note}'"),
        (FRONT + '+++ {"lang": "zh"}\nx\n', 'line 5: "of" stands in a translated cell'),
        (FRONT + '+++ {"colour": 1}\nx\n', "line 5: after .* known keys"),
        (FRONT + "+++ {lang}\nx\n", "line 5: after .* comes JSON"),
    ],
)
def test_what_breaks_the_format_is_named_with_its_line(text: str, message: str) -> None:
    """Catches a typing mistake that would silently become prose or vanish."""
    with pytest.raises(SourceError, match=message):
        parse_chapter(text, Path("01_t.md"))


def test_a_good_chapter_breaks_no_rule() -> None:
    """Catches a rule that refuses everything."""
    good = code("%%ranks 4", "x = 1  # input() in a comment", tags="shown")
    assert found("text\n" + good) == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (code("x = 1", tags="solutoin"), "unknown tag 'solutoin'"),
        (code("x = 1", tags="raises-exception"), "unknown tag 'raises-exception'"),
        (code("!false"), "a shell command fails in silence"),
        (code("%%bash", "false"), "a shell command fails in silence"),
        (code("x = input('?')"), "nobody answers"),
        (code("x = '环'"), "English only"),
        (code("x = = 1"), "is not Python"),
        (code("# BEGIN SOLUTION", "x = 1", tags="exercise"), "without # END SOLUTION"),
        (code("# BEGIN SOLUTION", "x = 1", "# END SOLUTION"), "tag exercise if, and only if"),
        (code("x = 1", tags="exercise"), "tag exercise if, and only if"),
        (PARAMETERS, "2 code cells have the tag parameters"),
    ],
)
def test_each_rule_finds_its_mistake(body: str, message: str) -> None:
    """Catches a rule that finds nothing, or does not say where."""
    assert message in found(body)
    assert re.match(r"01_t\.md, line \d+: ", found(body))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("", "0 code cells have the tag parameters"),
        (code("x = 1") + PARAMETERS, "must be the first code cell"),
        (code("n = 2 * 3", tags="parameters"), "'n' is not a literal"),
        (code("n = (1, 2)", tags="parameters"), "'n' is not an int"),
        (code("n = [", "1]", tags="parameters"), "more than one line"),
        (code("n = 1", "n = 2", tags="parameters"), "declared twice"),
        (code("import os", tags="parameters"), "not name = literal"),
    ],
)
def test_parameters_are_literals_one_a_line(parameters: str, message: str) -> None:
    """Catches a parameter that a run could not set, or whose type nobody knows."""
    assert message in found("", parameters=parameters)


def test_the_title_is_the_first_heading() -> None:
    """Catches a renamed chapter that keeps its old name in the tables."""
    assert "is not the first heading" in found("", front="---\ntitle: Other\n---\n# T\n")


def test_translations_are_held_against_their_english_cells() -> None:
    """Catches a Chinese cell whose English has changed, and one that is missing."""
    front = "---\ntitle: T\nlanguages: [en, zh]\n---\n# T\n"
    mark = chapter("").cells[0].fingerprint
    assert found(f'\n+++ {{"lang": "zh", "of": "{mark}"}}\n\n# 题\n' + PARAMETERS, front, "") == ""
    stale = found('\n+++ {"lang": "zh", "of": "00000000"}\n\n# 题\n' + PARAMETERS, front, "")
    assert "stale translation: it renders 00000000" in stale and mark in stale
    assert f"no Chinese cell renders this one (of: {mark})" in found("", front)
    assert "but the front matter says" in found(f'\n+++ {{"lang": "zh", "of": "{mark}"}}\n\n# 题\n')
