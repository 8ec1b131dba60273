"""Photographs beside the right one: their colours, their errors, where tiles meet, what is refused."""

import numpy as np
import pytest
from draw_marks import no_warning, texts  # noqa: F401 - the fixture works by being here

from mindlab import draw

WANT = np.zeros((3, 4, 6))
OFF = WANT.copy()
OFF[1, 2, 3], OFF[0, 0, 0] = -0.5, 0.25


def test_colours_above_and_errors_below() -> None:
    """Would catch channels in another order, a picture upside down, and an error of the mean colour."""
    ax = draw.seams({"cut": OFF}, WANT, title="Two")
    right, cut, error, _ = (image.get_array() for image in ax.images)
    assert right.shape == cut.shape == (4, 6, 3) and np.allclose(right, 0.5, atol=1 / 63)
    assert cut[2, 3, 1] < cut[2, 3, 0] and cut[0, 0, 0] > cut[0, 0, 1]  # less green, more red
    assert error[2, 3] == 0.5 and error[0, 0] == 0.25 and np.count_nonzero(error) == 2
    assert ax.images[2].get_clim() == (0.0, 0.5)
    places = [image.get_extent() for image in ax.images]
    assert places[0][2] == places[1][2] < places[2][2] and places[0][1] < places[1][0] == places[2][0]
    assert all(place[2] > place[3] for place in places)  # the first row of pixels is on top
    assert {"Two", "on one card", "cut", "largest: 0.5", "mean: 0.01"} <= set(texts(ax))


def test_errors_share_one_scale() -> None:
    """Would catch each error map stretched to its own largest value, and a given `top` that is ignored."""
    ax = draw.seams({"a": OFF, "b": OFF / 10}, WANT)
    assert [ax.images[i].get_clim() for i in (2, 4)] == [(0.0, 0.5)] * 2
    ax = draw.seams({"a": OFF, "b": OFF / 10}, WANT, top=0.1)
    assert [ax.images[i].get_clim() for i in (2, 4)] == [(0.0, 0.1)] * 2 and "≥ 0.1" in texts(ax)


def test_marks_where_tiles_meet() -> None:
    """Would catch rows marked as columns, marks in the picture, and one at its end."""
    ax = draw.seams({"a": OFF}, WANT, lengths=((1, 3), (2, 2, 2)))
    left, right, low, high = ax.images[1].get_extent()
    lines = [line.get_xydata() for line in ax.lines if high - 0.1 < line.get_xydata()[0][1] < low + 0.1]
    mine = [line for line in lines if left - 0.1 < line[:, 0].mean() < right + 0.1]
    rows = [line for line in mine if line[0][1] == line[1][1]]
    columns = [line for line in mine if line[0][0] == line[1][0]]
    assert len(rows) == 2 and all(abs(line[0][1] - (high + (low - high) / 4)) < 1e-9 for line in rows)
    assert len(columns) == 4
    shares = sorted({round(float((line[0][0] - left) / (right - left)), 6) for line in columns})
    assert shares == [0.333333, 0.666667]
    assert all(not left < line[:, 0].mean() < right for line in rows)


def test_what_it_says_in_words() -> None:
    """Would catch an alt text without the place and size of the error."""
    alt = draw.seams({"cut": OFF}, WANT, lengths=((2, 2), (6,))).alt
    assert alt.startswith("Photographs of 4 x 6 pixels, made in several ways. 2 x 1 tiles. ")
    assert "cut: off by 0.5 at most (row 2, column 3), by 0.01 on average" in alt


def test_what_is_not_finite_is_crossed_out_and_counted() -> None:
    """Would catch NaN drawn as no error."""
    broken = OFF.copy()
    broken[0, 1] = np.nan
    ax = draw.seams({"cut": broken}, WANT)
    assert len(ax.collections[0].get_offsets()) == 6
    assert "not finite: 6" in texts(ax) and "6 of its values are not finite" in ax.alt
    assert "largest: 0.5" in texts(ax)


def test_tensors_with_a_batch() -> None:
    """Would catch what a decoder returns not being drawn: (1, 3, height, width), also bfloat16."""
    torch = pytest.importorskip("torch")
    ax = draw.seams({"a": torch.ones(1, 3, 4, 6, dtype=torch.bfloat16)}, torch.zeros(1, 3, 4, 6))
    assert ax.images[1].get_array().min() == 1.0


def test_refusals() -> None:
    """Would catch pictures that are compared though they differ, and marks of other tiles."""
    with pytest.raises(ValueError, match="a is 4 x 5 pixels, want 4 x 6: join the tiles first"):
        draw.seams({"a": OFF[..., :5]}, WANT)
    with pytest.raises(ValueError, match=r"a has shape \(4, 4, 6\)"):
        draw.seams({"a": np.zeros((4, 4, 6))}, WANT)
    with pytest.raises(ValueError, match="no picture"):
        draw.seams({}, WANT)
    with pytest.raises(ValueError, match=r"tiles of \(4, 5\) pixels for pictures of \(4, 6\)"):
        draw.seams({"a": OFF}, WANT, lengths=((2, 2), (5,)))
    with pytest.raises(ValueError, match="black first"):
        draw.seams({"a": OFF}, WANT, between=(1, -1))
    with pytest.raises(ValueError, match="top=0"):
        draw.seams({"a": OFF}, WANT, top=0)
