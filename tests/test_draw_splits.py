"""Pictures of split tensors: every part in its rank's colour and in proportion; misfits are refused."""

import draw_runs as made
import numpy as np
import pytest
from draw_marks import fills, no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.patches import FancyBboxPatch, Rectangle

from mindlab import draw
from mindlab.draw import style

# matmul -----------------------------------------------------------------------------------------------------


def filled(ax, rank: int) -> list[Rectangle]:
    """The rectangles in the colour of a rank."""
    return [p for p in ax.patches if isinstance(p, Rectangle) and p.get_facecolor()[:3] == colour_of(rank)]


def colour_of(rank: int) -> tuple[float, ...]:
    return tuple(int(style.colour(rank)[i : i + 2], 16) / 255 for i in (1, 3, 5))


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_columns_colour_w_and_y_but_not_x(ranks: int) -> None:
    """Would catch X drawn as if it were cut, and a rank whose part is missing."""
    ax = draw.matmul(*made.cut_product(ranks, rows=False))
    shown = [fills(ax).count(style.colour(rank)) for rank in range(ranks)]
    # W and Y on top; W, Y and the Y at the end for each rank; and Y whole. One rank: only the top.
    assert shown == ([2] if ranks == 1 else [2 + 2 + 1 + 1] * ranks)
    assert "Σ" not in texts(ax)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_rows_colour_x_and_w_and_sum_the_results(ranks: int) -> None:
    """Would catch results side by side where they are partial sums, and a sum without one of its terms."""
    ax = draw.matmul(*made.cut_product(ranks))
    assert texts(ax).count("Σ") == 2 and texts(ax).count("+") == ranks - 1
    # X, W and the band on top; X, W, Y below; Y and the band at the end.
    assert [fills(ax).count(style.colour(r)) for r in range(ranks)] == [3 + 3 + 2] * ranks


def test_uneven_parts_are_drawn_in_proportion() -> None:
    """Would catch parts of equal width whatever their sizes."""
    x, w = np.zeros((4, 6)), [np.zeros((6, 6)), np.zeros((6, 2))]
    ax = draw.matmul(x, w, [x @ one for one in w], each=False)
    first, second = (filled(ax, rank)[0].get_width() for rank in (0, 1))
    assert first == pytest.approx(3 * second)


def test_shapes_stand_on_the_sheets() -> None:
    """Would catch shapes of the whole written on the parts."""
    seen = texts(draw.matmul(*made.cut_product(2, rows=False)))
    assert {"2 × 3 × 5", "5 × 5", "5 × 3", "5 × 2", "2 × 3 × 3", "2 × 3 × 2"} <= set(seen)


def test_shapes_alone_are_enough() -> None:
    """Would catch a picture on paper that needs tensors."""
    assert "X (b, s, h)" in texts(draw.matmul((1, 4, 6), (6, 8), (1, 4, 8)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (((4, 6), (8, 6), (4, 8)), r"give weight\.T"),
        (((4, 6), (6, 8), (4, 6)), r"is \(4, 8\), but y is \(4, 6\)"),
        (((4, 6), [(6, 4)], [(4, 4), (4, 4)]), "1 x, 1 w and 2 y by rank"),
        (([(4, 3), (4, 3)], (6, 8), (4, 8)), "give w by rank too"),
        (([(4, 3), (4, 3)], [(3, 4), (3, 5)], [(4, 4), (4, 5)]), "every rank's y has the full shape"),
        (((4,), (4, 4), (4,)), "two dims or more"),
    ],
)
def test_products_that_do_not_fit_are_refused(given: tuple, said: str) -> None:
    """Would catch a picture of a product that cannot be."""
    with pytest.raises(ValueError, match=said):
        draw.matmul(*given)


# layout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_every_area_has_its_holder_and_its_sign(ranks: int) -> None:
    """Would catch areas in the colour of the receiver before the exchange, or a sign that is missing."""
    ax = draw.layout(*made.exchanged(ranks))
    assert [fills(ax).count(style.colour(rank)) for rank in range(ranks)] == [2 * ranks] * ranks
    signs = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    assert len(signs) == 2 * ranks * (ranks - 1)
    assert all(texts(ax).count(str(rank)) >= 2 * ranks for rank in range(ranks))


@pytest.mark.parametrize(("ranks", "said"), [(2, True), (16, False)])
def test_signs_are_spoken_of_only_where_they_are_drawn(ranks: int, said: bool) -> None:
    """Would catch "the sign: to which rank it goes" over areas too narrow for any sign."""
    ids = np.stack(np.meshgrid(np.arange(4 * ranks), np.arange(2), indexing="ij"), -1)
    ax = draw.layout(np.split(ids, ranks), [ids[rank::ranks] for rank in range(ranks)])
    assert any(isinstance(p, FancyBboxPatch) for p in ax.patches) == said
    assert any("the sign: to which rank" in text for text in texts(ax)) == said


def test_holders_are_told_in_words() -> None:
    """Would catch positions and heads that are swapped, and a wrong holder after the exchange."""
    alt = draw.layout(*made.exchanged(2, 5, 4)).alt
    assert "before: rank 0 holds positions 0 to 2 of heads 0 to 3; rank 1 holds positions 3 to 4" in alt
    assert "after: rank 0 holds positions 0 to 4 of heads 0 to 1; rank 1 holds positions 0 to 4 of" in alt


def test_a_zigzag_shard_is_drawn_in_two_pieces() -> None:
    """Would catch an area spanned over what lies between two chunks."""
    ids = np.stack(np.meshgrid(np.arange(8), np.arange(2), indexing="ij"), -1)
    chunks = np.split(ids, 4)
    before = [np.concatenate([chunks[0], chunks[3]]), np.concatenate([chunks[1], chunks[2]])]
    ax = draw.layout(before, np.split(ids, 2, axis=1))
    assert "rank 0 holds positions 0 to 1, 6 to 7 of heads 0 to 1" in ax.alt


def test_a_replicated_head_is_cut_into_bands() -> None:
    """Would catch a key-value head that two ranks hold, drawn as one rank's."""
    before, _ = made.exchanged(2, 4, 1)
    ax = draw.layout(before, [np.concatenate(before, axis=1)] * 2)
    assert "after: rank 0 holds positions 0 to 3 of heads 0; rank 1 holds positions 0 to 3 of" in ax.alt
    assert [fills(ax).count(style.colour(rank)) for rank in (0, 1)] == [1 + 2, 1 + 2]


def test_ids_that_are_none_are_refused() -> None:
    """Would catch real activations drawn as ids, and other cells after than before."""
    before, after = made.exchanged(2)
    with pytest.raises(ValueError, match="two whole numbers from 0 on"):
        draw.layout([before[0] + 0.5, before[1]], after)
    with pytest.raises(ValueError, match="give the same cells"):
        draw.layout(before, [after[0], after[0]])
    with pytest.raises(ValueError, match="give the same ranks"):
        draw.layout(before, [*after, after[0]])
