"""Every picture: the marks on it are those of its data, and it draws without a warning."""

import re
from dataclasses import replace

import draw_runs as made
import numpy as np
import pytest
from draw_marks import arrows, fills, no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle

from mindlab import draw
from mindlab.draw import lanes, loglog, picture, rounds, style

# shards -----------------------------------------------------------------------------------------------------


def test_a_piece_keeps_the_colour_of_the_rank_that_it_came_from() -> None:
    """Would catch an all-gather drawn in the colours of the holders."""
    ax = draw.shards([["a"], ["b"], ["c"]], [["a", "b", "c"]] * 3)
    seen = fills(ax)
    assert [seen.count(style.colour(r)) for r in range(3)] == [4, 4, 4]


def test_a_sum_has_a_band_with_the_colours_of_its_terms() -> None:
    """Would catch a reduction drawn as if the data were one rank's."""
    ax = draw.shards([["a0", "a1"], ["b0", "b1"]], [["a0+b0", None], [None, "a1+b1"]])
    assert [fills(ax).count(style.colour(r)) for r in range(2)] == [2 + 2, 2 + 2]
    assert {"Σ0", "Σ1"} <= set(texts(ax))


def test_long_numbers_are_not_left_out_at_eight_ranks() -> None:
    """Would catch cells that stay empty because the blocks were put beside each other."""
    before = [[str((chunk + 1) * 10**rank) for chunk in range(8)] for rank in range(8)]
    after = [[draw.Piece("1" * 8, tuple(range(8)))] * 8] * 8
    seen = texts(draw.shards(before, after))
    assert "80000000" in seen and seen.count("1" * 8) == 64


def test_values_of_a_run_are_shown_with_its_provenance() -> None:
    """Would catch numbers without a source, and a sum of numbers coloured as one rank's."""
    run = made.run_of([], 2, values=[np.array([3.0, 5.0])] * 2)
    ax = draw.shards([np.array([1.0, 2.0]), np.array([2.0, 3.0])], run)
    assert texts(ax).count("5") == 2 and run.provenance in " ".join(texts(ax))


def test_an_equal_number_on_two_ranks_is_not_traced_to_one_of_them() -> None:
    """Would catch a guess: 2 is held by both ranks before."""
    ax = draw.shards([[1, 2], [2, 3]], [[2], [2]])
    seen = fills(ax)
    assert seen.count(style.colour(0)) == 2 and seen.count(style.colour(1)) == 2


# moves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_an_arrow_a_message(ranks: int) -> None:
    """Would catch lost, doubled or miscoloured arrows."""
    run = made.ring_run(ranks)
    ax = draw.moves(run, limit=99)
    assert len(arrows(ax)) == 2 * (ranks - 1) * ranks
    colours = [to_hex(a.get_facecolor()) for a in arrows(ax)]
    assert all(colours.count(style.colour(r)) == 2 * (ranks - 1) for r in range(ranks))


def test_an_arrow_begins_at_its_sender() -> None:
    """Would catch arrows drawn from receiver to sender."""
    ax = draw.moves([[(0, 1), (2, 0)]])
    chips = {t.get_text(): t.get_position() for t in ax.texts if t.get_text() in "012"}
    for arrow in arrows(ax):
        (x0, y0), _ = arrow._posA_posB
        near = min(chips, key=lambda name: np.hypot(chips[name][0] - x0, chips[name][1] - y0))
        assert to_hex(arrow.get_facecolor()) == style.colour(int(near))


def test_rounds_past_the_limit_are_announced() -> None:
    """Would catch a picture that silently shows the first rounds only."""
    ax = draw.moves(made.ring_run(8), limit=5)
    assert "and 9 more rounds" in texts(ax)


def test_rounds_that_share_a_step_are_counted() -> None:
    """Would catch six rings that look alike and do not say which round they are."""
    one = rounds.Round((draw.Move(0, 1, 8),), (), "half")
    assert {"half 1 / 2", "half 2 / 2", "round 3"} <= set(
        texts(draw.moves([one, one, replace(one, label="")]))
    )


def test_a_thicker_arrow_is_more_bytes() -> None:
    """Would catch thickness that does not follow the bytes."""
    small, large = arrows(draw.moves([[(0, 1, 10), (1, 2, 1000)]]))
    assert small.get_arrowstyle().tail_width < large.get_arrowstyle().tail_width


def test_a_reduction_is_drawn_without_arrows() -> None:
    """Would catch invented arrows."""
    ax = draw.moves(made.reduction_run(4))
    assert not arrows(ax) and sum(isinstance(p, Polygon) for p in ax.patches) == 1
    assert "all_reduce" in texts(ax)


# traffic ----------------------------------------------------------------------------------------------------


def test_both_matrices_and_their_sums_are_written_out() -> None:
    """Would catch a transposed matrix or a wrong sum: rank r gets 3 (r + 1) x 4 KiB."""
    ax = draw.traffic(made.all_to_all_run(4))
    seen = texts(ax)
    assert [seen.count(n) for n in ("12", "24", "36", "48")] == [1 + 3, 1 + 1, 1 + 1, 1]
    spots = {t.get_text(): t.get_position() for t in ax.texts}
    assert spots["48"][1] > spots["28"][1] and spots["28"][0] > spots["48"][0]


def test_without_wire_counters_the_reason_stands_in_their_place() -> None:
    """Would catch an empty matrix that reads as "nothing was sent"."""
    ax = draw.traffic(made.all_to_all_run(4))
    assert "no counters on this host" in " ".join(texts(ax))


def test_reductions_alone_leave_the_counted_side_to_its_note() -> None:
    """Would catch a counted matrix of zeros beside a full wire."""
    ax = draw.traffic(made.reduction_run(4))
    said = " ".join(texts(ax))
    assert "all_reduce x4" in said and "wire only" in said
    assert texts(ax).count("1.5") == 4 + 4 + 4


def test_framing_is_told_apart() -> None:
    """Would catch framing mixed into the payload."""
    ax = draw.traffic(made.ring_run(4))
    assert any("framing, not shown: 576 B" in t for t in texts(ax))


def test_total_bytes_are_not_called_payload() -> None:
    """Would catch total bytes sold as payload where the number of messages cannot be told."""
    run = made.ring_run(4)
    run.wire = replace(run.wire, framing=None, payload=None, note="messages of pair 0, 1 unknown")
    seen = texts(draw.traffic(run))
    assert "payload and framing together" in seen and "payload" not in seen
    assert any("pair 0, 1 unknown" in t for t in seen)


# timeline ---------------------------------------------------------------------------------------------------


def test_a_bar_a_call_and_an_arrow_a_message() -> None:
    """Would catch calls or messages that are not drawn."""
    ax = draw.timeline(made.ring_run(4))
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_zorder() == 2]
    assert len(bars) == 48
    assert sum(a.arrow_patch is not None for a in ax.texts if hasattr(a, "arrow_patch")) == 24
    assert (
        ax.get_xlabel().startswith("time in ms")
        and [t.get_text() for t in ax.get_yticklabels()][3] == "rank 3"
    )


def test_a_received_bar_has_the_senders_colour() -> None:
    """Would catch a receive in the receiver's colour."""
    ax = draw.timeline(made.tree_run())
    seen = [to_hex(p.get_facecolor()) for p in ax.patches if isinstance(p, Rectangle) and p.get_zorder() == 2]
    assert [seen.count(style.colour(r)) for r in range(4)] == [4, 0, 2, 0]


def test_overlapping_calls_are_stacked() -> None:
    """Would catch an asynchronous call hidden behind another one."""
    events = [made.event(0, i, "all_reduce", 1, 8, 0.001 * i, end=0.01) for i in range(3)]
    bars = list(lanes.stack(events).values())
    assert sorted(bar.lane for bar in bars) == [0, 1, 2] and all(bar.lanes == 3 for bar in bars)
    assert len({round(bar.top, 6) for bar in bars}) == 3


def test_a_long_run_is_thinned_and_says_so() -> None:
    """Would catch a black picture, and a thinned one that hides that it is."""
    events = [
        made.event(r, i, "all_reduce", 2, 8, i * 1e-3, end=i * 1e-3 + 1e-5 * (i + 1))
        for r in (0, 1)
        for i in range(900)
    ]
    ax = draw.timeline(made.run_of(events, 2), limit=100)
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_zorder() == 2]
    assert len(bars) == 100
    assert any("the 100 longest of 1800 calls" in t for t in texts(ax))
    assert min(p.get_width() for p in bars) > 1e-2 * 840


def test_modelled_times_are_never_drawn_like_timed_ones() -> None:
    """Would catch a replayed run that looks measured."""
    run = made.reduction_run(2)
    run.seconds.provenance = "modelled"
    ax = draw.timeline(run)
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_zorder() == 2]
    assert {p.get_linestyle() for p in bars} == {"--"} and {to_hex(p.get_facecolor()) for p in bars} == {
        style.PAPER
    }
    assert any(t.startswith("modelled, not timed") for t in texts(ax))


def test_a_call_nobody_waited_for_is_drawn_open() -> None:
    """Would catch a crash on `end` None."""
    run = made.run_of([made.event(0, 0, "isend", 2, 8, 0.0, end=None, peer=1, sends=((1, 8),))], 2)
    ax = draw.timeline(run)
    assert "end unknown (nobody waited)" in [t.get_text() for t in ax.get_legend().get_texts()]


# curve ------------------------------------------------------------------------------------------------------

POINTS = [(2**k, 1e-4 + 2**k * 1e-9, 2e-4 + 2**k * 1e-9, 0.5e-4 + 2**k * 1e-9) for k in range(6, 25, 2)]


def test_the_knee_stands_at_alpha_over_beta() -> None:
    """Would catch the knee at beta / alpha, or missing."""
    ax = draw.curve(POINTS, (1e-4, 1e-9))
    upright = [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1]
    assert upright == [pytest.approx(1e5)]
    assert "α/β = 97.66 KiB" in texts(ax) and ax.get_xscale() == ax.get_yscale() == "log"


def test_medians_and_spread_come_from_the_points() -> None:
    """Would catch a mean called median, or one number taken for all."""
    (first, *_) = loglog.as_points([(8, 1.0, 2.0, 9.0)])
    assert first == (8.0, 2.0, 1.0, 9.0)
    assert loglog.as_points([(8, [1.0, 2.0]), (8, 9.0)]) == [(8.0, 2.0, 1.0, 9.0)]


def test_a_calibration_brings_its_own_fit_and_provenance() -> None:
    """Would catch a calibration drawn without its line."""

    class Calibration:
        points = POINTS
        alpha, beta, provenance = 1e-4, 1e-9, "2 ranks · gloo"

    ax = draw.curve(Calibration())
    assert "timed · 2 ranks · gloo" in texts(ax) and "α/β = 97.66 KiB" in texts(ax)


def test_no_points_is_an_error_that_says_what_to_give() -> None:
    """Would catch an empty picture."""
    with pytest.raises(ValueError, match="rows of"):
        draw.curve([])


def test_the_digits_of_a_label_stay_and_those_of_a_coordinate_go() -> None:
    """A picture that says 0.00 where 0.00057 was meant, because numbers were shortened in words too."""
    figure, ax = plt.subplots()
    ax.text(0.123456, 0.5, "off by 0.00057")
    made = picture.svg(figure, "alt: 1.23456")
    assert "off by 0.00057" in made and "1.23456" in made
    assert not re.search(r'(?:x|d|transform)="[^"]*\d\.\d{3,}', made)
