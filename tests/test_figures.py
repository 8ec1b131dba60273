"""The committed figures are what their scripts draw."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
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


LANGUAGES = {"en": ".svg", "zh": ".zh.svg"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_its_figures_with_their_alt_texts(name: str) -> None:
    """Would catch a figure never drawn in one language, or drawn before its alt text changed."""
    alt = load(name).ALT
    assert set(alt) == set(LANGUAGES)
    for language, suffix in LANGUAGES.items():
        root = ElementTree.parse(FOLDER / f"{name}{suffix}").getroot()
        assert root.get("role") == "img" and root.get("aria-label") == alt[language]


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
    for language, suffix in LANGUAGES.items():
        figure = module.draw(language)
        drawn = ElementTree.fromstring(svg(figure, module.ALT[language]))
        kept = ElementTree.parse(FOLDER / f"{name}{suffix}").getroot()
        said = [[n.text for n in tree.iter() if n.text and n.text.strip()] for tree in (drawn, kept)]
        assert said[0] == said[1]
        assert not outside(figure)


def outside(figure: Figure) -> list[str]:
    """The texts that leave the card (beyond a pixel, which letters may hang over)."""
    canvas = FigureCanvasAgg(figure)
    card = figure.bbox.padded(1)
    texts = [text for ax in figure.axes for text in ax.texts if text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]
    return [said for said, box in boxes if not (card.x0 <= box.x0 and box.x1 <= card.x1)]


def test_a_text_that_leaves_the_card_is_seen() -> None:
    """Would catch a check of the margins that cannot fail."""
    figure = Figure(figsize=(1, 1))
    figure.add_axes((0, 0, 1, 1)).text(0.5, 0.5, "far too long for an inch")
    assert outside(figure) == ["far too long for an inch"]


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
