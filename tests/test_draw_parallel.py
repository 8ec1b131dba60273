"""Pictures of pairs, rings, masks, stages, held bytes and errors: the marks are those of the data."""

import draw_runs as made
import numpy as np
import pytest
from draw_marks import arrows, fills, no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon

from mindlab import draw
from mindlab.draw import causal, circulation, handover, heat, rounds, style

# pair -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_the_middle_stays_with_its_rank(ranks: int) -> None:
    """Would catch a middle that is gathered, or X drawn as cut: A, Z, B, Y and a band are a rank's."""
    ax = draw.pair(*made.paired(ranks), between="SiLU")
    assert [fills(ax).count(style.colour(rank)) for rank in range(ranks)] == [5] * ranks
    assert texts(ax).count("SiLU") == ranks and texts(ax).count("Σ") == 1


def test_a_pair_that_does_not_fit_is_refused() -> None:
    """Would catch a weight that lies the other way, and a middle of another rank."""
    x, a, z, b, y = made.paired(3)
    with pytest.raises(ValueError, match=r"rank 0: .* linear\.weight\.T"):
        draw.pair(x, [one.T for one in a], z, b, y)
    with pytest.raises(ValueError, match="3 of A, 2 of the middle"):
        draw.pair(x, a, z[:2], b, y)


# ring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_after_the_last_step_every_rank_has_met_every_block(ranks: int) -> None:
    """Would catch blocks that go the wrong way, or a block of keys followed apart from its values."""
    holders, others = circulation._of_run(made.pass_run(ranks), 8, "en")
    assert len(holders) == ranks and not others
    for rank in range(ranks):
        assert [row[rank] for row in holders] == [(rank - step) % ranks for step in range(ranks)]


def test_a_cell_has_the_colour_of_the_owner_and_an_arrow_of_its_block() -> None:
    """Would catch the colours of the holders."""
    ax = draw.ring(made.pass_run(4))
    assert [fills(ax).count(style.colour(rank)) for rank in range(4)] == [4] * 4
    colours = [to_hex(arrow.get_facecolor()) for arrow in arrows(ax)]
    assert [colours.count(style.colour(rank)) for rank in range(4)] == [3] * 4
    assert "rank 1: KV1, KV0, KV3, KV2" in ax.alt


def test_a_block_has_one_colour_above_and_below() -> None:
    """Would catch arrows on the circle in their sender's colour: after the first step that is another one."""
    ax = draw.ring(made.pass_run(4), circles=True)
    circle = next(one for one in ax.figure.axes if "step 1 to 2" in texts(one))
    colours = [to_hex(arrow.get_facecolor()) for arrow in arrows(circle)]
    steps = circulation.passed_on([[(r - k) % 4 for r in range(4)] for k in range(4)])
    assert colours == [style.colour(int(move.name[2:])) for one in steps for move in one.moves]


def test_lengths_told_first_are_no_blocks() -> None:
    """Would catch three more steps in which nothing but the lengths went round."""
    ax = draw.ring(made.pass_run(4, lengths=True))
    assert "step 3" in texts(ax) and "step 4" not in texts(ax)
    assert "not drawn: messages of 8 B or less" in texts(ax)


def test_owners_given_by_rank_are_drawn_as_they_are() -> None:
    """Would catch rows read as steps: rank 0 meets 2 second, and rank 2 gave it."""
    steps = circulation.passed_on(circulation._of_rows([[0, 2, 1], [1, 0, 2], [2, 1, 0]]))
    assert [(m.source, m.target, m.name) for m in steps[0].moves] == [
        (0, 1, "KV0"),
        (1, 2, "KV1"),
        (2, 0, "KV2"),
    ]
    assert circulation._after(rounds.Round((draw.Move(0, 1),)), [0, 1, 2]) == [None, 0, 2]


def test_a_rank_that_receives_from_two_is_refused() -> None:
    """Would catch a picture that drops one of two blocks."""
    send = {"peer": 2, "sends": ((2, 64),)}
    run = made.run_of([made.event(r, 0, "send", 3, 64, 0.0, **send) for r in (0, 1)], 3)
    with pytest.raises(ValueError, match="rank 2 receives from 0 and from 1 at once"):
        draw.ring(run)
    with pytest.raises(ValueError, match="equally many a rank"):
        draw.ring([[0, 1], [1]])


def test_two_messages_of_a_pair_are_one_arrow() -> None:
    """Would catch arrows on top of each other, and a caption that counts 8 senders of 4."""
    run = made.pass_run(4)
    ax = draw.moves(run)
    assert len(arrows(ax)) == 3 * 4 and "8 × 4 KiB" in texts(ax)
    said = draw.play(run).frames[0].caption
    assert "every rank sends 8 KiB in 2 messages to the next rank" in said
    assert "（分 2 条消息）" in draw.play(run, language="zh").frames[0].caption


# mask -------------------------------------------------------------------------------------------------------

ZIGZAG = [[r * 2, r * 2 + 1, 14 - 2 * r, 15 - 2 * r] for r in range(4)]


def test_the_work_is_the_area_of_what_is_drawn() -> None:
    """Would catch a count that is not that of the picture: the staircase's area is its number of pairs."""
    for shards in (np.array_split(np.arange(16), 4), ZIGZAG, [range(r, 16, 4) for r in range(4)]):
        work = causal._work("", shards, True)
        ax = draw.mask(shards)
        area = dict.fromkeys(range(4), 0.0)
        for shape in (p for p in ax.patches if isinstance(p, Polygon)):
            x, y = shape.get_xy().T
            rank = [style.colour(r) for r in range(4)].index(to_hex(shape.get_facecolor()))
            area[rank] += abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])) / 2
        one = (causal._SIDE / 16) ** 2
        assert [area[r] / one for r in range(4)] == pytest.approx(list(work.pairs))
        assert all(str(n) in texts(ax) for n in work.pairs)


def test_balance_is_1_75_in_blocks_and_1_in_zigzag() -> None:
    """Would catch max over min, or the work of keys. Blocks at p = 4: (7S/4 + 1)/(S + 1)."""
    blocks = causal._work("", np.array_split(np.arange(4096), 4), True)
    assert blocks.balance == pytest.approx(1.75 - 0.75 / 4097) and causal._work("", ZIGZAG, True).balance == 1
    assert causal._work("", [[0, 1], [2, 3]], False).pairs == (8, 8)


def test_chunks_are_drawn_apart_and_do_not_change_the_work() -> None:
    """Would catch the last rank's two neighbouring chunks drawn as one, and lines in one direction only."""
    ax = draw.mask({"zigzag": ZIGZAG}, chunks={"zigzag": 8})
    assert len([p for p in ax.patches if isinstance(p, Polygon)]) == 8 and len(ax.lines) == 14
    uneven = causal._work("", [[0, 1, 5], [2, 3, 4]], True, 4)
    assert uneven.cuts == (2, 4, 5) and uneven.runs() == [(0, 0, 2), (1, 2, 4), (1, 4, 5), (0, 5, 6)]
    assert uneven.pairs == causal._work("", [[0, 1, 5], [2, 3, 4]], True).pairs
    for chunks in (0, 17):
        with pytest.raises(ValueError, match="give 1 to 16"):
            draw.mask(ZIGZAG, chunks=chunks)


def test_positions_that_overlap_or_miss_one_are_refused() -> None:
    """Would catch a query that two ranks compute."""
    for shards in ([[0, 1], [1, 2]], [[0, 1], [3, 4]], [[], []]):
        with pytest.raises(ValueError, match="each once"):
            draw.mask({"mine": shards})


# stages -----------------------------------------------------------------------------------------------------


def test_sequence_lies_and_heads_stand() -> None:
    """Would catch a cut along the sequence drawn like one along the heads, and parts out of proportion."""
    shown = [("norm", "sequence", [6, 2]), "all-gather", ("attention", "heads", [3, 1])]
    ax = draw.stages(shown)
    boxes = [p for p in ax.patches if to_hex(p.get_facecolor()) == style.colour(0)]
    assert [(b.get_width(), b.get_height()) for b in boxes] == [
        (handover._WIDE, pytest.approx(0.75 * handover._TALL)),
        (pytest.approx(0.75 * handover._WIDE), handover._TALL),
    ]
    assert "all-gather" in texts(ax) and "after all-gather, attention: cut along heads: rank 0 3" in ax.alt


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("a", "heads", [1, 1]), ("b", "heads", [1])], "'b' has 1 sizes, 'a' has 2"),
        (["all-gather", ("a", "heads", [1])], "'all-gather' stands at an end"),
        ([("a", "heads", [1]), "all-gather"], "'all-gather' stands at an end"),
        ([], "no stages"),
        ([("a", "heads", [2, -1])], "sizes \\[2, -1\\]: give 0 or more"),
        ([("a", "", [8, 4])], "one size for all ranks"),
        ([("a", "sum", [8, 4])], "one size for all ranks"),
    ],
)
def test_stages_that_do_not_follow_are_refused(given: list, said: str) -> None:
    """Would catch a call that leads nowhere, and a rank that comes or goes."""
    with pytest.raises(ValueError, match=said):
        draw.stages(given)


# held -------------------------------------------------------------------------------------------------------


def test_bars_are_as_long_as_their_bytes() -> None:
    """Would catch a scale of its own for each case: half the bytes, half the bar."""
    ax = draw.held({"one": [{"weights": 4096}], "two": [{"weights": 2048}] * 2})
    lengths = [p.get_width() for p in ax.patches if to_hex(p.get_facecolor()) == style.colour(0)]
    whole, half = (n for n in lengths if n > 0.3)
    assert whole == pytest.approx(2 * half) and {"4 KiB", "2 KiB"} <= set(texts(ax))


def test_kinds_are_lettered_tints() -> None:
    """Would catch kinds that only a colour tells apart, and a fifth one that looks like the fourth."""
    ax = draw.held({"one": [{"weights": 4096, "activations": 4096}]}, language="zh")
    assert texts(ax).count("a") == 2 and texts(ax).count("b") == 2 and {"权重", "激活"} <= set(texts(ax))
    with pytest.raises(ValueError, match="5 kinds"):
        draw.held({"one": [dict.fromkeys("vwxyz", 1)]})
    for nothing in (-1, 0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no bytes to draw"):
            draw.held({"one": [{"weights": nothing}]})


# error ------------------------------------------------------------------------------------------------------


def test_the_error_and_the_values_share_one_scale() -> None:
    """Would catch a tiny error drawn as black as a large one, a sign, and a wrong place in the words."""
    want = np.array([[1.0, -4.0], [2.0, 3.0]])
    got = want + np.array([[0, 0], [-0.5, 0]])
    ax = draw.error(got, want)
    shown = [image for image in ax.images if image.get_array().shape == (2, 2)]
    assert [image.get_clim() for image in shown] == [(0, 4.0)] * 2
    assert shown[0].get_array().tolist() == [[0, 0], [0.5, 0]] and shown[1].get_array().max() == 4
    assert "largest error is 0.5, at position 1, feature 0" in ax.alt and "largest: 0.5" in texts(ax)


def test_nan_is_crossed_out_and_counted() -> None:
    """Would catch NaN drawn as white: no error."""
    ax = draw.error(np.array([[np.nan, 1.0, np.inf]]), np.ones((1, 3)))
    assert "largest: 0 · not finite: 2" in texts(ax) and len(ax.collections[0].get_offsets()) == 2


def test_tensors_of_a_batch_of_one_are_planes() -> None:
    """Would catch bf16 tensors that numpy cannot read, and shapes that differ."""
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 2, 3, dtype=torch.bfloat16)
    assert heat._plane(x, "x").shape == (2, 3)
    with pytest.raises(ValueError, match="join the shards first"):
        draw.error(x[:, :1], x)
    with pytest.raises(ValueError, match="give two dims"):
        draw.error(x[0, 0], x[0, 0])
