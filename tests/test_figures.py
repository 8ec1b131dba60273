"""The committed figures are what their scripts draw."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from mindlab.draw.picture import svg

FOLDER = Path(__file__).parents[1] / "figures"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
DEFINED = [name for name in SCRIPTS if not name.endswith("_measured")]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"figure_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_its_figure_with_its_alt_text(name: str) -> None:
    """Would catch a figure that was never drawn, or drawn before its alt text changed."""
    root = ElementTree.parse(FOLDER / f"{name}.svg").getroot()
    assert root.get("role") == "img" and root.get("aria-label") == load(name).ALT["en"]


@pytest.mark.parametrize("name", DEFINED)
def test_drawing_twice_gives_the_same_bytes(name: str) -> None:
    """Would catch random ids or dates: every build would change every figure."""
    module = load(name)
    figure = module.draw()
    assert isinstance(figure, Figure)
    assert svg(figure, module.ALT["en"]) == svg(module.draw(), module.ALT["en"])


@pytest.mark.parametrize("name", DEFINED)
def test_the_committed_figure_shows_what_the_script_draws(name: str) -> None:
    """Would catch a script changed without its figure (texts only: paths vary by version of matplotlib)."""
    module = load(name)
    drawn = ElementTree.fromstring(svg(module.draw(), module.ALT["en"]))
    kept = ElementTree.parse(FOLDER / f"{name}.svg").getroot()
    texts = [[node.text for node in tree.iter() if node.text and node.text.strip()] for tree in (drawn, kept)]
    assert texts[0] == texts[1]


def test_the_ring_ends_with_every_chunk_summed_everywhere() -> None:
    """Would catch a picture of a ring that is wrong: a chunk that misses a rank at the end."""
    ring = load("ring_all_reduce")
    for ranks in (2, 3, 4, 5):
        states = list(ring.steps(ranks))
        assert len(states) == 2 * (ranks - 1)
        halfway = states[ranks - 2][1]
        assert [sum(len(c) == ranks for c in row) for row in halfway] == [1] * ranks
        assert all(len(chunk) == ranks for row in states[-1][1] for chunk in row)


def test_no_figure_is_without_its_script() -> None:
    """Would catch a figure that nobody can draw again."""
    assert {path.name.split(".")[0] for path in FOLDER.glob("*.svg")} == set(SCRIPTS)
