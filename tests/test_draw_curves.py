"""Modelled times of several algorithms: which is named quickest, and that a model looks like one."""

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from mindlab import draw
from mindlab.draw import style


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.texts]


CONTEST = {"flat": [(2**k, 1e-4) for k in range(8, 17)], "steep": [(2**k, 1e-8 * 2**k) for k in range(8, 17)]}


def test_the_quickest_is_named_where_it_is_quickest() -> None:
    """Would catch the slowest named, and a border in another place than between two sizes."""
    ax = draw.curves(CONTEST)
    assert "quickest: steep" in texts(ax) and any("flat" in text for text in texts(ax))
    strip = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert 2**13 < strip[1].get_x() < 2**14  # 1e-8 s a byte reach 1e-4 s at 10,000 bytes
    assert "quickest from 256 B to 8 KiB: steep" in ax.alt and "to 64 KiB: flat" in ax.alt


def test_modelled_curves_are_hollow_dashed_and_without_the_colour_of_a_rank() -> None:
    """Would catch a model drawn like a measurement, and an algorithm that looks like a rank."""
    for line in draw.curves(CONTEST).lines:
        assert line.get_linestyle() != "-" and to_hex(line.get_markerfacecolor()) == style.PAPER
        assert to_hex(line.get_color()) not in style.RANK_COLOURS


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({}, "1 to 5"),
        ({"a": []}, "no points"),
        ({"a": [(8, 1.0)], "b": [(16, 1.0)]}, "'b' has other sizes than 'a'"),
    ],
)
def test_curves_that_cannot_be_compared_are_refused(
    rows: dict[str, list[tuple[int, float]]], said: str
) -> None:
    """Would catch a quickest among times of different sizes."""
    with pytest.raises(ValueError, match=said):
        draw.curves(rows)


def test_the_bytes_may_be_others_than_a_messages() -> None:
    """Would catch results labelled as messages, and lines squeezed into the lower half of the picture."""
    near = {name: [(2**k, t * (1 + k)) for k in range(6)] for name, t in (("a", 2e-5), ("b", 3e-5))}
    ax = draw.curves(near, across="bytes of the results")
    assert ax.get_xlabel() == "bytes of the results" and draw.curves(near).get_xlabel() == "message size"
    bottom, top = ax.get_ylim()
    assert top / bottom < (3e-5 * 6 / 2e-5) ** 2  # both axes are logarithmic
