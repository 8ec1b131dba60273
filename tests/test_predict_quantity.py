"""A Quantity and the units a person reads."""

from __future__ import annotations

import doctest
import importlib

import pytest

import mindlab
from mindlab.predict import units, volume
from mindlab.predict.quantity import Quantity

D = volume.ring_all_reduce(1536, 3)


def test_whole_values_stay_whole() -> None:
    """Would catch a float where an exact count is: 2**60 + 1 is lost in a float."""
    big = 3 * (2**60 + 1)
    assert volume.ring_reduce_scatter(big, 3).value == 2 * (2**60 + 1)
    assert isinstance(volume.ring_reduce_scatter(big, 3).value, int)
    assert volume.ring_reduce_scatter(10, 3).value == pytest.approx(20 / 3)


def test_arithmetic_keeps_unit_formula_source() -> None:
    """Would catch a doubled volume that forgot its unit, or bytes and seconds added."""
    twice = 2 * D
    assert (twice.value, twice.unit, twice.source) == (4096, "B", D.source)
    assert twice.formula == rf"2 \cdot \left({D.formula}\right)"
    assert (D + D).value == twice.value and (D - D).value == 0 and (10_000 - D).value == 7952
    assert (D / 2).value == 1024 and isinstance((D / 2).value, int)
    assert (D / D).unit == "" and (D / Quantity(2, "s")).unit == "B/s"
    with pytest.raises(ValueError, match="'B' and 's'"):
        D + Quantity(1, "s")


def test_by_rank() -> None:
    """Would catch arithmetic that changes the mean and leaves the ranks' own values behind."""
    tree = 3 * volume.tree_broadcast(1024, 4)
    assert tree.per_rank == (6144, 3072, 0, 0) and tree.value == 2304
    assert (tree + 1).per_rank == (6145, 3073, 1, 1)
    assert D.by_rank(3) == (2048,) * 3
    with pytest.raises(ValueError, match="ranks=3, not for 4"):
        D.by_rank(4)


def test_comparisons() -> None:
    """Would catch a quantity that equals the same number of another unit."""
    assert D == 2048 and Quantity(2048, "s") != D and D > 2047 and D <= 2048 and float(D) == 2048.0
    assert {D: 1}[volume.ring_all_reduce(1536, 3)] == 1


def test_what_a_person_sees() -> None:
    """Would catch MB for MiB, a lost base unit, or a formula that a page cannot typeset."""
    assert repr(volume.ring_all_reduce(2**20, 4)) == "ring_all_reduce: 1.5 MiB (1,572,864 B)"
    assert "by rank 2,048, 1,024, 0, 0 B" in repr(volume.tree_broadcast(1024, 4))
    latex = D._repr_latex_()
    assert latex.startswith("$") and latex.endswith("$") and D.formula in latex and r"2\,KiB" in latex
    html = D._repr_html_()
    assert D.formula in html and "2 KiB (2,048 B)" in html and "Patarasuk &amp; Yuan" in html


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (units.size(0), "0 B"),
        (units.size(1023), "1023 B"),
        (units.size(1536), "1.5 KiB"),
        (units.rate(28e9), "28 GB/s"),
        (units.duration(0.0000293), "29.3 µs"),
        (units.duration(-0.5), "-500 ms"),
        (units.with_base(96, "B"), "96 B"),
        (units.pretty(2.5e12, "FLOP"), "2.5 TFLOP"),
        (units.number(float("inf")), "inf"),
    ],
)
def test_pretty_units(shown: str, wanted: str) -> None:
    """Would catch decimal prefixes on sizes or binary ones on rates."""
    assert shown == wanted


@pytest.mark.parametrize(
    "module",
    ["predict.units", "predict.quantity", "predict.chunks", "predict.trees", "predict.volume", "predict.gloo",
     "predict.collectives", "predict.strategies", "predict.heads", "predict.layouts", "predict.shapes",
     "predict.weights", "predict.activations", "predict.held", "predict.memory", "predict.flops",
     "predict.seconds", "teach.checks", "teach.parity", "teach.expected"],
)  # fmt: skip
def test_examples_in_docstrings(module: str) -> None:
    """Would catch an example that no longer gives what it says."""
    result = doctest.testmod(importlib.import_module(f"mindlab.{module}"), extraglobs={"ml": mindlab})
    assert result.attempted and not result.failed
