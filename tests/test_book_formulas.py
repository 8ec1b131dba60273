"""The column of formulas in the table of a check, as a browser sets it on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import needs_chromium, window

from mindlab.book import exporter
from mindlab.book.mathml import mathml, set_output
from mindlab.teach.verdict import Verdict

BOOK = Path(exporter.__file__).parent
IN_THE_COLUMN = [
    r"\frac{p-1}{p}\,D",
    r"\frac{p-1}{p}\,2\,b\,s\,K\,d\,e",
    r"\frac{p-1}{p}\,D + \frac{p-1}{p}\,D",
    r"\frac{\max_r n_r}{\frac{1}{p}\sum_r n_r}",
    r"\left\lceil \frac{e}{2}\,\frac{K}{H}\,\frac{F}{B} \right\rceil",
]
BELOW = [
    r"2 \cdot 3\,\frac{p-1}{p}\,b\,s\,h\,e",
    r"\frac{p-1}{p}\,(2H+2K)\,d\,b\,\frac{s}{p}\,e",
    "2(p-1)bshe + 2(p-1)bsKde + D",
    r"34\,\frac{s\,b\,h}{p} - b\,\frac{s}{p}\,h + 128",
]
WIDTHS = """() => [...document.querySelectorAll("table.mindlab-check")].map((table) => {
  const cell = table.rows[1].cells[1], math = cell.querySelector("math").getBoundingClientRect();
  return [math.right, table.rows[1].cells[2].getBoundingClientRect().left, math.width]; })"""


def row(formula: str) -> Verdict:
    return Verdict("sent", "passed", 81_920, 81_920, unit="B", formula=formula)


@pytest.mark.parametrize("formula", BELOW)
def test_a_wide_formula_stands_below(formula: str) -> None:
    """Would catch letters of LaTeX counted for signs on the page, as many as they may be."""
    shown = row(formula)._repr_html_()
    assert "below</td>" in shown and f"${formula}$</span></div>" in shown


@needs_chromium
@pytest.mark.parametrize("width", [600, 800, 1280])
def test_a_formula_in_the_column_leaves_the_next_one_free(width: int, tmp_path: Path) -> None:
    """Would catch a column narrower than what verdict.py sets into it: a formula is not broken."""
    assert not any("below</td>" in row(formula)._repr_html_() for formula in IN_THE_COLUMN)
    style = "".join((BOOK / name).read_text(encoding="utf-8") for name in ("style.css", "cells.css"))
    rows = "".join(set_output(row(formula)._repr_html_(), mathml) for formula in IN_THE_COLUMN)
    page = tmp_path / "page.html"
    page.write_text(f"<meta charset='utf-8'><style>{style}</style><main>{rows}</main>", encoding="utf-8")
    with window(tmp_path / "profile") as browser:
        browser.page.set_viewport_size({"width": width, "height": 900})
        browser.page.goto(page.as_uri())
        found = browser.page.evaluate(WIDTHS)
    assert len(found) == len(IN_THE_COLUMN) and min(each[2] for each in found) > 20
    assert all(right + 5 <= left for right, left, _ in found), found
