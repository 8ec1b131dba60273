"""The checks of chapter 01's exercises: wrong answers are rejected with their sentence, right ones pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import chapter_01_attempts as attempts
import pytest

import mindlab as ml
from mindlab.book.editions import Edition, code_of
from mindlab.book.source import read_chapter

SOURCE = Path(__file__).resolve().parents[1] / "notebooks" / "src" / "01_collectives.md"
NEEDED = (
    "import ",
    "def data",
    "def messages",
    "def most_arriving",
    "def rounds_of",
    "def pass_on",
    "def learners_ring",
    "def ring_until_2020",
    "def published_ring",
    "def gather_then_add",
)
"""How the cells begin that define what the exercises use."""


@cache
def cells() -> dict[str, str]:
    """The chapter's code cells by name; those without a name by their first words."""
    found = read_chapter(SOURCE).code_cells
    return {cell.name or cell.text[:60]: code_of(cell, Edition("en", "solutions")) for cell in found}


@pytest.fixture(scope="module")
def chapter() -> Iterator[dict[str, Any]]:
    """The names that the exercises use, made by the chapter's own cells; nothing is launched."""
    names: dict[str, Any] = {"ranks": 4, "numel": 1680, "__name__": "chapter_01"}
    for code in cells().values():
        defines = [part for part in NEEDED if re.search(rf"^{part}", code, re.MULTILINE)]
        if defines:
            exec(re.split(r"^\w+ = ml\.launch|^ml\.|^with ", code, flags=re.MULTILINE)[0], names)
    yield names
    ml.shutdown()


def answer(chapter: dict[str, Any], text: str, *checks: str) -> None:
    """Put in an answer and run its check cells."""
    names = dict(chapter)
    exec(text, names)
    for name in checks:
        exec(cells()[name], names)


def rejected(chapter: dict[str, Any], text: str, said: str, *checks: str) -> None:
    with pytest.raises(ml.CheckFailed) as failed:
        answer(chapter, text, *checks)
    assert re.search(said, str(failed.value), re.DOTALL), str(failed.value)


CHECKS = {
    "scatter": ("check-reduce-scatter", "check-reduce-scatter-pattern"),
    "broadcast": ("check-broadcast",),
    "repaired": ("check-repaired-ring",),
    "forward": ("check-case-3",),
}


@pytest.mark.parametrize("name", attempts.RIGHT)
def test_right_answers_in_other_words_pass(chapter: dict[str, Any], name: str) -> None:
    """Would catch a check that knows one solution only."""
    answer(chapter, attempts.RIGHT[name], *CHECKS[name.split(":")[0]])


@pytest.mark.parametrize("name", attempts.WRONG_SCATTER)
def test_wrong_reduce_scatters_are_rejected(chapter: dict[str, Any], name: str) -> None:
    """Would catch a check that looks at values only, at bytes only, or at divisible lengths only."""
    said, text = attempts.WRONG_SCATTER[name]
    rejected(chapter, text, said, *CHECKS["scatter"])


@pytest.mark.parametrize("name", attempts.WRONG_BROADCAST)
def test_wrong_broadcasts_are_rejected(chapter: dict[str, Any], name: str) -> None:
    """Would catch a check that accepts a star or a chain."""
    said, text = attempts.WRONG_BROADCAST[name]
    rejected(chapter, text, said, *CHECKS["broadcast"])


@pytest.mark.parametrize("name", attempts.WRONG_REPAIR)
def test_wrong_repairs_are_rejected(chapter: dict[str, Any], name: str) -> None:
    """Would catch a check of case 2 that the published ring itself passes."""
    said, text = attempts.WRONG_REPAIR[name]
    rejected(chapter, text, said, *CHECKS["repaired"])


@pytest.mark.parametrize("name", attempts.WRONG_FORWARD)
def test_wrong_forwards_are_rejected(chapter: dict[str, Any], name: str) -> None:
    """Would catch a check of case 3 that looks at bytes only."""
    said, text = attempts.WRONG_FORWARD[name]
    rejected(chapter, text, said, *CHECKS["forward"])


def test_wrong_byte_counts_are_rejected(chapter: dict[str, Any]) -> None:
    """Would catch a check of case 2 that takes any formula."""
    names = {**chapter}
    names["published"] = ml.launch(names["published_ring"], names["even"], ranks=4)
    for said, expression in attempts.WRONG_BYTES.values():
        rejected(names, f"bytes_of_published_ring = {expression}", said, "check-case-2")
    answer(names, "bytes_of_published_ring = D * ranks - D", "check-case-2")
