"""Prose on its way to a page: links, formulas, and the last look at what came out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindlab.book import inspection
from mindlab.book.links import rewrite
from mindlab.book.mathml import mathml


def test_rewriting_links_touches_links_alone() -> None:
    """Catches targets changed inside code, and pictures inside links that are missed."""
    text = '[![alt](a.png)](b.md) ![x](c.svg "t") [y][1] `z`\n```\n[k](kept.md)\n```\n<a href="d.md">d</a>'
    assert rewrite(text, str.upper) == text.replace("a.png", "A.PNG").replace("b.md", "B.MD").replace(
        "c.svg", "C.SVG"
    ).replace("d.md", "D.MD")


def test_mathml_names_what_it_cannot_set() -> None:
    """Catches a formula that vanishes."""
    assert "<mfrac>" in mathml(r"\frac{a}{b}")
    assert "<mtext>KiB</mtext>" in mathml(r"\mathrm{KiB}") and "<mtr>" in mathml(
        r"\begin{aligned}a&=b\end{aligned}"
    )
    for broken in (r"\frac{a}", r"\nosuchcommand x", r"\left( x", r"a & b"):
        with pytest.raises(ValueError, match="cannot set the formula"):
            mathml(broken)


def test_inspection_finds_nothing_in_nothing(tmp_path: Path) -> None:
    """Catches an inspection that fails on an empty folder."""
    assert inspection.findings(tmp_path) == []
