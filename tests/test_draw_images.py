"""Rows of small pictures: their order, their scale, what is said of them, what is refused."""

import numpy as np
import pytest
from draw_marks import no_warning, texts  # noqa: F401 - the fixture works by being here

from mindlab import draw
from mindlab.draw.board import Board
from mindlab.draw.thumbnails import photograph

ONE = np.array([[[-1.0, 1.0], [0.0, 3.0]]])


def test_a_row_a_name_in_one_scale() -> None:
    """Would catch rows or pixels in another order, and each picture stretched to a scale of its own."""
    ax = draw.images({"a": np.concatenate([ONE, -ONE]), "b": ONE / 10}, columns=["x", "y"], title="Two rows")
    shown = [image.get_array().tolist() for image in ax.images]
    assert shown == [ONE[0].tolist(), (-ONE[0]).tolist(), (ONE[0] / 10).tolist()]
    assert {image.get_clim() for image in ax.images} == {(-1.0, 1.0)}
    places = [image.get_extent() for image in ax.images]
    assert places[0][0] < places[1][0] and places[0][2] == places[1][2] < places[2][2]
    assert places[0][0] == places[2][0] and places[0][2] > places[0][3]  # the first pixel row is on top
    assert {"Two rows", "x", "y", "a", "b"} <= set(texts(ax))


def test_what_a_picture_says_in_words() -> None:
    """Would catch an alt text that calls different rows alike, or alike ones different."""
    alt = draw.images({"right": ONE, "same": ONE + 1e-6, "other": -ONE, "two": np.repeat(ONE, 2, 0)}).alt
    assert "Row same: 1 pictures, looks like the first row, by 1e-06 at most" in alt
    assert "Row other: 1 pictures, differs from the first row, by 6 at most" in alt
    assert alt.endswith("Row two: 2 pictures. drawn from the values given, nothing measured.")


def test_what_is_not_finite_is_crossed_out() -> None:
    """Would catch NaN drawn as paper."""
    ax = draw.images({"a": np.array([[[np.nan, 0.0, np.inf]]]), "b": np.array([[[np.nan, 0.0, 1.0]]])})
    assert [len(crosses.get_offsets()) for crosses in ax.collections] == [2, 1]
    assert "Row b: 1 pictures, 1 of their values are not finite" in ax.alt


def test_tensors_with_a_channel() -> None:
    """Would catch what the models make not being drawn: (count, 1, height, width), also bfloat16."""
    torch = pytest.importorskip("torch")
    ax = draw.images({"a": torch.ones(2, 1, 8, 8, dtype=torch.bfloat16)}, between=(0, 2))
    assert len(ax.images) == 2 and ax.images[0].get_array().shape == (8, 8)


def test_refusals() -> None:
    """Would catch pictures drawn at a wrong size, or below a column of another."""
    with pytest.raises(ValueError, match=r"differ in size \(a 2 x 2, b 1 x 2\)"):
        draw.images({"a": ONE, "b": ONE[:, :1]})
    with pytest.raises(ValueError, match="3 columns for 1 pictures"):
        draw.images({"a": ONE}, columns="xyz")
    with pytest.raises(ValueError, match=r"a has shape \(2, 2\)"):
        draw.images({"a": ONE[0]})
    with pytest.raises(ValueError, match="no row"):
        draw.images({})
    with pytest.raises(ValueError, match="paper first"):
        draw.images({"a": ONE}, between=(1, 0))


def test_far_apart_is_said_in_the_pictures_own_scale() -> None:
    """Would catch all paper against all ink called alike, where values lie close together."""
    rows = {"a": np.zeros((1, 2, 2)), "b": np.full((1, 2, 2), 0.04)}
    assert "differs from the first row, by 0.04" in draw.images(rows, between=(0.0, 0.04)).alt
    assert "looks like the first row" in draw.images(rows).alt


def test_values_that_are_not_finite_are_the_rows_own() -> None:
    """Would catch NaN of the first row charged to the others, and a single row's not told."""
    bad = np.array([[[np.nan, 0.0]]])
    assert "Row a: 1 pictures, 1 of their values are not finite" in draw.images({"a": bad}).alt
    assert "Row b: 1 pictures, beside a first row" in draw.images({"a": bad, "b": np.zeros((1, 1, 2))}).alt


def test_a_tag_stands_above_a_photograph_in_its_own_colours() -> None:
    """Would catch colours or rows in another order, values beyond white, a number behind its picture."""
    board = Board(None, 2.0, 1.0, "en")
    red_over_white = np.array([[[1.0], [3.0]], [[-1.0], [1.0]], [[-9.0], [1.0]]])
    photograph(board, red_over_white, 0.5, 0.25, (1.0, 0.5))
    (image,) = board.ax.images
    assert image.get_array().tolist() == [[[1.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]]]
    assert list(image.get_extent()) == [0.5, 1.5, 0.75, 0.25]  # the first row of pixels is on top
    assert board.tag(3, 1.0, 0.5).get_zorder() > image.get_zorder()
    assert "3" in texts(board.ax)
