"""The marks on a picture, for tests that count them; and the fixture that makes a warning an error."""

import warnings
from collections.abc import Iterator

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    """A missing glyph, a clipped layout or a deprecated call is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.texts]


def arrows(ax: Axes) -> list[FancyArrowPatch]:
    return [p for p in ax.patches if isinstance(p, FancyArrowPatch)]


def fills(ax: Axes) -> list[str]:
    return [to_hex(p.get_facecolor()) for p in ax.patches if isinstance(p, Rectangle)]
