"""The planner against what others measured."""

from dataclasses import replace

import pytest

from mindlab.bench import planner
from mindlab.bench.predicting import predicted
from mindlab.bench.published_tables import layout, tables, without_series

ROWS = predicted(tables())


def test_most_covered_rows_are_near() -> None:
    """A changed formula, rate or volume that takes the model away from the published times."""
    covered = [row for row in ROWS if row.kind == "covered"]
    near = [row for row in covered if abs(row.error or 0.0) <= 0.15]
    assert len(covered) >= 100 and len(near) >= 0.8 * len(covered)


def test_pairs_are_in_order() -> None:
    """A model that is near on each row and still calls the slower of two layouts the quicker."""
    right, count = planner.ranking(ROWS)
    assert count >= 150 and right >= 0.9 * count


def test_no_row_gives_its_own_constant_and_is_counted() -> None:
    """A constant fitted to the row that it predicts."""
    for row in ROWS:
        assert (row.kind == "fitted") == (row.name in row.series.fit.values())
        if row.kind == "fitted":
            assert row.error == pytest.approx(0, abs=1e-6)
    constants = {row.series.name: len(row.series.fit) for row in ROWS}
    counted = {
        name: sum(row.series.name == name and row.kind != "fitted" for row in ROWS) for name in constants
    }
    assert all(counted[name] >= 1 for name in constants)
    assert max(constants.values()) == 2


def test_a_wrong_number_is_seen() -> None:
    """A comparison in which every published number agrees: twice the time of one row is 50 % off."""
    first = next(row for row in ROWS if row.kind == "covered")
    doubled = replace(first.series, rows={**first.series.rows, first.name: 2 * first.published})
    found = {row.name: row for row in predicted([doubled])}
    assert found[first.name].error == pytest.approx((first.error or 0) / 2 - 0.5, abs=0.01)


@pytest.mark.parametrize(
    ("table", "row", "error"),
    [
        ("A38", "ulysses 8", -0.002),  # worked by hand from the same facts: -0.9 % with 56 GB/s links
        ("A04", "ulysses 4", 0.005),
        ("D04", "tensor 2", 0.026),
        ("A06", "ulysses 4", -0.000),
    ],
)
def test_rows_that_were_worked_by_hand(table: str, row: str, error: float) -> None:
    """A model that is off by more than a rounding from the arithmetic done by hand for these rows."""
    found = next(one for one in ROWS if one.series.table == table and one.name == row)
    assert found.error == pytest.approx(error, abs=0.02)


def test_what_the_evidence_forbids_is_outside() -> None:
    """A number for a ring of 8 on a full mesh, for tensor parallel of a DiT, for 512 tokens a card."""
    outside = {(row.series.table, str(row.name)): row.why for row in ROWS if row.kind == "outside"}
    assert "full mesh" in outside["A38", "ring 8"]
    assert "tensor parallel of a DiT" in outside["A22", "tensor 8"]
    assert "24 heads" in outside["A03", "ulysses 5"]
    assert any("tokens a card" in why for (table, _), why in outside.items() if table == "A09")


def test_every_published_table_is_named() -> None:
    """A table that nobody held against the model, and nobody said so."""
    seen = {row.series.table for row in ROWS} | {one["table"] for one in without_series()}
    letters = {"A": 38, "B": 14, "C": 22, "D": 17}
    assert all(table[0] in letters and int(table[1:]) <= letters[table[0]] for table in seen)
    assert len(seen) == 53
    assert all(one["why"] for one in without_series())


def test_facts_without_a_constant() -> None:
    """A shape's parameters or a paper's formula that the package no longer reproduces."""
    facts = planner.exact()
    assert len(facts) >= 24
    for fact in facts:
        within = 0.06 if "Step-Video" in fact["what"] else 0.005
        assert abs(fact["error"]) <= within, fact["what"]


def test_the_report_has_every_row() -> None:
    """A report that prints a summary and leaves rows out."""
    result = planner.planner()
    said = planner.text(result)
    assert said.count("taken from here") == sum(row.kind == "fitted" for row in ROWS)
    assert said.count("outside: ") == sum(row.kind == "outside" for row in ROWS)
    assert all(one["table"] in said for one in without_series())
    assert "within 15%" in result["covered"]


def test_a_row_that_is_no_layout_is_refused() -> None:
    """A typing mistake in a table read as one card."""
    assert layout("cfg 2 x ring 2 x ulysses 2").ranks == 8
    with pytest.raises(ValueError, match="is no layout"):
        layout("ulyses 4")
    with pytest.raises(ValueError, match="which does not come before it"):
        predicted([replace(tables()[1], carry="nobody")])
