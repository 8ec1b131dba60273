"""Halos and recomputed shares on paper: by hand, by counting pixels, and what rows and blocks cost."""

from __future__ import annotations

import doctest
from itertools import product
from typing import Any

import pytest

import mindlab as ml
from mindlab.predict import tiles, tilings
from mindlab.predict.tilings import Tiling, sides_of, tiling

SIZES = [((64, 96), (4, 1)), ((22, 17), (3, 1)), ((22, 17), (2, 3)), ((7, 9, 8), (3, 1, 2)), ((5, 4), (5, 1))]


def test_rows_and_blocks_by_hand() -> None:
    """Would catch corners left out or counted twice, and halos beyond the picture's border."""
    pixel = 4 * 2  # channels, bytes
    rows = ml.volume.halo_exchange((64, 96), (4, 1), 6, channels=4, itemsize=2)
    assert rows.value * 4 == 2 * 3 * 6 * 96 * pixel
    assert rows.per_rank == tuple(n * 6 * 96 * pixel for n in (1, 2, 2, 1))
    blocks = ml.volume.halo_exchange((64, 96), (2, 2), 6, channels=4, itemsize=2)
    assert blocks.value * 4 == (2 * 6 * 96 + 2 * 6 * 64 + 4 * 6 * 6) * pixel
    assert blocks.per_rank is None and blocks.value < rows.value
    assert ml.volume.halo_exchange((64, 96), (1, 1), 6, channels=4, itemsize=2) == 0


@pytest.mark.parametrize(("size", "grid"), SIZES, ids=str)
@pytest.mark.parametrize("halo", [0, 1, 3, 90])
def test_sums_agree(size: Any, grid: Any, halo: int) -> None:
    """Would catch bytes that are sent to nobody, also where a halo is larger than tiles or the picture."""
    shape = {"channels": 3, "itemsize": 2, "batch": 2}
    sent = ml.volume.halo_exchange(size, grid, halo, **shape)
    received = ml.volume.halo_exchange_received(size, grid, halo, **shape)
    cut = tiling(size, grid)
    assert sent.value == received.value and sum(sent.by_rank(cut.ranks)) == sent.value * cut.ranks
    if halo == 90:  # everything, everywhere
        whole = 12 * tilings.pixels(tuple(map(range, size)))
        own = [12 * tilings.pixels(cut.tile(rank)) for rank in range(cut.ranks)]
        assert list(received.by_rank(cut.ranks)) == [whole - each for each in own]
        assert list(sent.by_rank(cut.ranks)) == [each * (cut.ranks - 1) for each in own]


@pytest.mark.parametrize(("size", "grid"), SIZES, ids=str)
def test_tiles_cover_the_picture_once(size: Any, grid: Any) -> None:
    """Would catch a gap, an overlap, or ranks that are numbered column by column."""
    cut = tiling(size, grid)
    seen = sorted(place for rank in range(cut.ranks) for place in product(*cut.tile(rank)))
    assert len(seen) == len(set(seen)) == tilings.pixels(tuple(map(range, size)))
    if grid[-1] > 1:
        assert cut.tile(1)[-1].start > 0 and cut.tile(1)[0].start == 0


def test_time_looks_back_only() -> None:
    """Would catch frames sent to ranks that have earlier ones."""
    moves = tiling((8, 4, 4), (4, 1, 1)).moves(((3, 0), (0, 0), (0, 0)))
    assert all(move.source < move.target for move in moves)
    assert [move.source for move in moves if move.target == 3] == [1, 2]  # tiles of 2 frames


def test_recomputed() -> None:
    """Would catch a share of the halo's bytes in place of the work: (6 + 16 + 6) / 16 - 1 in the middle."""
    share = ml.flops.recomputed((64, 96), (4, 1), 6)
    assert share.per_rank == (6 / 16, 12 / 16, 12 / 16, 6 / 16) and share.value == pytest.approx(9 / 16)
    assert ml.flops.recomputed((64, 96), (2, 2), 6).value < share.value
    assert ml.flops.recomputed((64, 96), (4, 1), 0) == 0


def test_statistics_do_not_depend_on_the_picture() -> None:
    """Would catch statistics that grow with the pixels, or one rank that talks to itself."""
    assert ml.volume.norm_statistics(7, 8, 1).value == 0
    assert ml.volume.norm_statistics(7, 8, 4, batch=2).value == 7 * 3 * (1 + 3 * 16) * 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tiling((3, 9), (4, 1)), "3 pixels cannot be cut into 4 tiles"),
        (lambda: tiling((3, 9), (3,)), "one number a dim in both"),
        (lambda: tiling((3, 9), (0, 1)), "grid=0"),
        (lambda: Tiling(((3, 0), (2,))), "one pixel at least"),
        (lambda: sides_of(((1, 1),), 2), "give a pair for each"),
        (lambda: sides_of(-1, 2), "halo=-1"),
        (lambda: ml.volume.halo_exchange((4, 4), (2, 1), 1, channels=0, itemsize=4), "channels=0"),
        (lambda: ml.volume.norm_statistics(1, 0, 2), "groups=0"),
    ],
)
def test_refusals(call: Any, words: str) -> None:
    """Would catch a picture that cannot be cut and gives a number all the same."""
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("module", [tiles, tilings], ids=lambda module: module.__name__)
def test_examples(module: Any) -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(module)
    assert found.failed == 0 and found.attempted
