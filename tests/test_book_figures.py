"""`mindlab figures`: each script draws its own SVG, and the check knows which are stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindlab.book.figures import refresh
from mindlab.errors import MindlabError, UnknownName

SCRIPT = """
from matplotlib.figure import Figure
ALT = {"en": "A line from 0 to VALUE."}
MEASURED = FLAG
def draw(language="en"):
    figure = Figure(figsize=(2, 1))
    ax = figure.subplots()
    ax.plot([0, VALUE])
    ax.set_title(f"it took {VALUE} s")
    return figure
"""


def write(folder: Path, value: int = 1, *, measured: bool = False, words: str = "it took") -> None:
    text = SCRIPT.replace("VALUE", str(value)).replace("FLAG", str(measured)).replace("it took", words)
    (folder / "line.py").write_text(text)


def test_a_figure_is_drawn_once_with_its_alt_text(tmp_path: Path) -> None:
    """Catches figures that differ from run to run, and pictures without words."""
    write(tmp_path)
    assert refresh(tmp_path) == ([tmp_path / "line.svg"], [])
    assert "A line from 0 to 1." in (tmp_path / "line.svg").read_text()
    assert refresh(tmp_path) == ([], []) and refresh(tmp_path, check=True) == ([], [])


def test_the_check_names_stale_missing_and_orphaned_figures(tmp_path: Path) -> None:
    """Catches a committed figure that its script no longer draws; the check itself writes nothing."""
    write(tmp_path)
    assert "line.svg: missing" in refresh(tmp_path, check=True)[1][0]
    refresh(tmp_path)
    write(tmp_path, 2)
    before = (tmp_path / "line.svg").read_text()
    assert "line.svg: stale" in refresh(tmp_path, check=True)[1][0]
    assert (tmp_path / "line.svg").read_text() == before
    (tmp_path / "gone.svg").write_text("<svg/>")
    assert any("gone.svg: no script" in line for line in refresh(tmp_path, check=True)[1])


def test_measured_figures_are_compared_by_their_words(tmp_path: Path) -> None:
    """Catches a check that fails for every new timing, and one that misses another title."""
    write(tmp_path, 1, measured=True)
    refresh(tmp_path)
    write(tmp_path, 5, measured=True)
    assert refresh(tmp_path, check=True) == ([], [])
    write(tmp_path, 5, measured=True, words="it lasted")
    assert "stale" in refresh(tmp_path, check=True)[1][0]


def test_wrong_scripts_and_names_are_refused(tmp_path: Path) -> None:
    """Catches a figure without an alt text, and a misspelt name that draws nothing."""
    write(tmp_path)
    with pytest.raises(UnknownName, match="unknown figure 'lime'; known: line"):
        refresh(tmp_path, ["lime"])
    (tmp_path / "line.py").write_text("def draw(language='en'): pass")
    with pytest.raises(MindlabError, match=r"line\.py: ALT is the alt text by language"):
        refresh(tmp_path)
    (tmp_path / "line.py").write_text("ALT = {'en': 'x'}")
    with pytest.raises(MindlabError, match="define draw"):
        refresh(tmp_path)
