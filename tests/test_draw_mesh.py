"""The picture of a mesh: the groups that talk are those of the axes."""

from __future__ import annotations

import pytest
from draw_marks import no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.patches import FancyArrowPatch

from mindlab import draw
from mindlab.predict import volume


def heads(ax: object) -> int:
    """How many lines between ranks are drawn, of either kind."""
    return sum(isinstance(patch, FancyArrowPatch) for patch in ax.patches)  # type: ignore[attr-defined]


def test_an_arrow_for_each_neighbour_and_a_line_for_each_pair() -> None:
    """Would catch axes in each other's place, and a ring that is not closed."""
    ax = draw.mesh({"ring": 2, "ulysses": 4})
    assert heads(ax) == 4 * 2 + 2 * 6  # four rings of two; two groups of four, six pairs each
    assert "groups of ring: 0-4, 1-5, 2-6, 3-7" in ax.alt
    assert "groups of ulysses: 0-1-2-3, 4-5-6-7" in ax.alt
    assert texts(ax)[0] == "across: ulysses = 4, each with each"
    assert heads(draw.mesh({"ulysses": 2, "ring": 4})) == 2 * 4 + 4


def test_a_third_axis_stands_side_by_side() -> None:
    """Would catch two panels that are not joined, or joined at other places."""
    ax = draw.mesh({"cfg": 2, "ring": 2, "ulysses": 2})
    assert heads(ax) == 8 + 4 + 4
    assert "groups of cfg: 0-4, 1-5, 2-6, 3-7" in ax.alt


def test_bytes_and_shards_are_those_given() -> None:
    """Would catch bytes at the wrong axis, one number where ranks differ, and a chip behind its box."""
    sent = {
        "ring": [1024, 2048],
        "ulysses": volume.hybrid_attention(1, 512, 8, 8, 64, ring=2, ulysses=2, itemsize=4, axis="ulysses"),
    }
    ax = draw.mesh({"ring": 2, "ulysses": 2}, sent=sent, held=["a", "b", "c", "d"])
    said = texts(ax)
    assert "down: ring = 2, each to the next, 1 KiB – 2 KiB a rank" in said
    assert "across: ulysses = 2, each with each, 512 KiB a rank" in said
    assert {"a", "b", "c", "d", "0", "1", "2", "3"} <= set(said)
    assert "rank 2 holds c" in ax.alt


def test_an_axis_of_one_talks_to_nobody() -> None:
    """Would catch an arrow from a rank to itself."""
    ax = draw.mesh({"ring": 1, "ulysses": 2})
    assert heads(ax) == 1
    assert "down: ring = 1, nobody talks" in texts(ax)


@pytest.mark.parametrize(
    ("axes", "given", "says"),
    [
        ({"a": 1, "b": 1, "c": 2, "d": 2}, {}, "a mesh of 4 axes: give one to three"),
        ({"ring": 2, "ulysses": 2}, {"held": ["x"]}, "held has 1 texts, the mesh has 4 ranks"),
        ({"ring": 2}, {"sent": {"cfg": 1}}, "sent names 'cfg', the mesh has the axes ring"),
        ({"ring": 0}, {}, "ring"),
    ],
)
def test_what_does_not_fit_is_refused(axes: dict[str, int], given: dict[str, object], says: str) -> None:
    """Would catch a picture that leaves out an axis or a text in silence."""
    with pytest.raises(ValueError, match=says):
        draw.mesh(axes, **given)
