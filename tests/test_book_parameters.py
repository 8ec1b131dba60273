"""Parameters: what a chapter declares, and what a person may give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindlab.book.parameters import ParameterError, declared, fit, parse_assignment, value_of
from mindlab.errors import UnknownName

CELL = """ranks = 4  # how many ranks
rate = 0.5
quick = True
name = "a"  # what it is called
sizes = [1, 2]
mixed = [1, "a"]
nothing = None
maybe: str | None = "x"
"""
BY_NAME = {parameter.name: parameter for parameter in declared(CELL)}


def test_declarations_are_read_with_type_and_help() -> None:
    """Catches a lost comment, and True taken for an int."""
    assert (BY_NAME["ranks"].value, BY_NAME["ranks"].help) == (4, "how many ranks")
    kinds = [parameter.kind for parameter in BY_NAME.values()]
    assert kinds == ["int", "float", "bool", "str", "list", "list", "None", "str"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ranks", "8", 8),
        ("ranks", "-1_000", -1000),
        ("rate", "1e-6", 1e-6),
        ("rate", "3", 3.0),
        ("quick", "false", False),
        ("quick", "True", True),
        ("name", "007", "007"),
        ("name", "false", "false"),
        ("name", "None", "None"),
        ("name", "'a b'", "a b"),
        ("name", "", ""),
        ("sizes", "[3, 4]", [3, 4]),
        ("sizes", "[]", []),
        ("mixed", "[2, b, 1.5, true]", [2, "b", 1.5, True]),
        ("nothing", "None", None),
        ("nothing", "7", 7),
        ("nothing", "[1]", [1]),
        ("maybe", "null", None),
        ("maybe", "no", "no"),
    ],
)
def test_values_take_the_declared_type(name: str, text: str, value: Any) -> None:
    """Catches YAML's guesses: octal 007, no = False, and the truthy text 'false'."""
    got = value_of(BY_NAME[name], text)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ranks", "4.0"),
        ("ranks", "four"),
        ("ranks", "true"),
        ("ranks", "None"),
        ("ranks", ""),
        ("rate", "nan"),
        ("rate", "fast"),
        ("quick", "1"),
        ("quick", "yes"),
        ("sizes", "3"),
        ("sizes", "(1, 2)"),
        ("sizes", "[a]"),
        ("sizes", "[[1]]"),
        ("sizes", "[1"),
        ("sizes", "{a: 1}"),
    ],
)
def test_values_of_another_type_are_refused(name: str, text: str) -> None:
    """Catches a run with something else than what was asked for."""
    with pytest.raises(ParameterError, match=f"-p {name}=.*{name} is of type .* for example -p {name}="):
        value_of(BY_NAME[name], text, "01_x")


@given(st.lists(st.integers()))
def test_any_list_of_integers_survives(values: list[int]) -> None:
    """Catches a list syntax that some numbers do not pass."""
    assert value_of(BY_NAME["sizes"], str(values)) == values


@given(st.text(alphabet=st.characters(blacklist_characters="'\"\x00"), max_size=20))
def test_any_text_without_quotes_survives(text: str) -> None:
    """Catches text that is read as something else."""
    assert value_of(BY_NAME["name"], text) == text


def test_a_chapter_gets_the_parameters_that_it_knows() -> None:
    """Catches a parameter refused because one of several chapters lacks it."""
    chapters = {"01": declared("ranks = 4"), "02": declared("ranks = 2\nsize = 1")}
    assert fit({"ranks": "3", "size": "5"}, chapters) == {"01": {"ranks": 3}, "02": {"ranks": 3, "size": 5}}
    with pytest.raises(UnknownName, match="unknown parameter 'rank'; known: ranks, size"):
        fit({"rank": "3"}, chapters)


def test_assignments() -> None:
    """Catches values that hold an equals sign, and names that are none."""
    assert parse_assignment("a=b=c") == ("a", "b=c")
    for wrong in ("a", "=1", "1a=2"):
        with pytest.raises(ParameterError, match="-p name=value"):
            parse_assignment(wrong)
