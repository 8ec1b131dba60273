"""Pictures of a machine on paper and of a run replayed on it: modelled, and seen to be so."""

from __future__ import annotations

import draw_runs
import pytest
import replay_runs as made
from draw_marks import no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, Rectangle

import mindlab as ml
from mindlab import draw
from mindlab.draw import style
from mindlab.planning import moves, timeline, topologies


def machine(cards, **more):
    return topologies.uniform(cards, **{"alpha": 1e-5, "bandwidth": 1e9, "rate": 1e9, **more})


def replayed(ranks=2):
    """Rank 0 computes and sends, rank 1 waits for it, computes, and all sum up."""
    programs = made.scripts(ranks)
    programs[0].compute(50_000, "attention")
    programs[0].call("send", 4000, 1)
    programs[1].call("recv", 4000, 0)
    programs[1].compute(20_000, "attention")
    for script in programs:
        script.call("all_reduce", 40_000)
    return ml.replay(made.run_of(*programs), machine(ranks))


def bars(ax):
    return [p for p in ax.patches if isinstance(p, Rectangle) and p.get_zorder() == 2]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("ranks", [2, 16])
def test_a_replay_is_drawn_small_and_large(ranks, language):
    """Would catch a missing glyph, a lost row, a picture without provenance, alt text or modelled time."""
    ax = draw.timeline(replayed(ranks), title="ring", language=language)
    said = " ".join(texts(ax))
    assert len(ax.get_yticks()) == ranks and "modelled on uniform" in said
    assert ("nothing timed" in said) == (language == "en") and ("模型推算" in said) == (language == "zh")
    assert ("modelled" if language == "en" else "模型推算") in ax.get_xlabel()
    assert "rank 1: computing 20 µs, waiting" in ax.alt
    assert ax._repr_mimebundle_()[0]["image/svg+xml"].startswith("<svg")


def test_every_bar_of_a_replay_is_dashed_and_stands_where_its_span_is():
    """Would catch a modelled bar that looks timed, and one at another time or rank."""
    on = replayed()
    ax = draw.timeline(on)
    found = bars(ax)
    assert len(found) == len(on.rows) and all(bar.get_linestyle() != "-" for bar in found)
    spans = sorted((row.start * 1e6, row.end * 1e6, row.rank) for row in on.rows)
    drawn = sorted((bar.get_x(), bar.get_x() + bar.get_width(), round(bar.get_y() + 0.2)) for bar in found)
    for one, other in zip(spans, drawn, strict=True):
        assert other == pytest.approx(one)
    full = {style.colour(rank) for rank in range(2)}
    assert not full & {to_hex(bar.get_facecolor()) for bar in found}  # a timed bar has the whole colour


def test_waiting_is_crossed_out_and_a_message_has_the_colour_of_its_sender():
    """Would catch waiting that looks like work, and a receive in the colour of who receives."""
    on = replayed()
    by_kind = {}
    rows = sorted(on.rows, key=lambda row: row.start - row.end)
    for row, bar in zip(rows, bars(draw.timeline(on)), strict=True):
        by_kind.setdefault((row.kind, row.rank), bar)
    assert "x" in by_kind["wait", 1].get_hatch() and not by_kind["compute", 0].get_hatch()
    for key in (("send", 0), ("recv", 1)):
        assert to_hex(by_kind[key].get_edgecolor()) == style.colour(0)
        assert to_hex(by_kind[key].get_facecolor()) == style.PAPER
    names = {text.get_text() for text in draw.timeline(on).get_legend().get_texts()}
    assert names == {"computing", "waiting", "sending", "receiving", "collective"}


def test_a_thinned_replay_says_so_and_one_without_rows_is_refused():
    """Would catch a picture that leaves spans out in silence."""
    on = replayed()
    ax = draw.timeline(on, limit=3)
    assert len(bars(ax)) == 3 and f"the 3 longest of {len(on.rows)} pieces" in " ".join(texts(ax))
    with pytest.raises(ValueError, match="has no rows"):
        draw.timeline(timeline.simulate(moves.ring_all_reduce([8, 8]), machine(2)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_chosen_ranks_keep_their_own_rows_and_colours(language):
    """Would catch rows of other ranks, a rank in its place's colour, or rows left out in silence."""
    on = replayed(8)
    ax = draw.timeline(on, ranks=[5, 1], language=language)
    assert [label.get_text().split()[-1] for label in ax.get_yticklabels()] == ["5", "1"]
    colours = [to_hex(label.get_bbox_patch().get_facecolor()) for label in ax.get_yticklabels()]
    assert colours == [style.colour(5), style.colour(1)]
    spans = sorted((row.start * 1e6, (5, 1).index(row.rank)) for row in on.rows if row.rank in (5, 1))
    drawn = sorted((bar.get_x(), round(bar.get_y() + 0.2)) for bar in bars(ax))
    for one, other in zip(spans, drawn, strict=True):
        assert other == pytest.approx(one)
    said = "only ranks 5, 1, of 8" if language == "en" else "仅显示 rank 5, 1"
    assert said in " ".join(texts(ax)) and "rank 5: computing" in ax.alt and "rank 0" not in ax.alt
    whole = draw.timeline(on, language="en")
    assert "only ranks" not in " ".join(texts(whole)) and "rank 0: computing" in whole.alt


@pytest.mark.parametrize("ranks", [[0, 2], [-1], [], [1, 1], [True], ["0"]])
def test_ranks_that_are_not_there_are_refused(ranks):
    """Would catch a row drawn empty, or none at all, for a rank that the run never had."""
    with pytest.raises(ValueError, match="name some of the ranks 0 to 1, each once"):
        draw.timeline(replayed(2), ranks=ranks)
    with pytest.raises(ValueError, match="leave it out for a Run"):
        draw.timeline(draw_runs.ring_run(4), ranks=[0])


def test_a_run_is_still_drawn_as_timed():
    """Would catch a recorded run that is drawn as if it were modelled."""
    ax = draw.timeline(draw_runs.ring_run(4))
    assert "modelled" not in ax.get_xlabel() and "timed" in " ".join(texts(ax))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", topologies.names())
def test_every_shipped_machine_is_drawn(name, language):
    """Would catch a machine whose words have no glyph, or whose rates are not said."""
    shipped = ml.topology(name)
    ax = draw.topology(shipped, title=shipped.titles[language == "zh"], language=language)
    said = " ".join(texts(ax))
    for level in shipped.levels:
        assert level.name in said and level.name in ax.alt
        value, unknown = level.bandwidth.value, "未知" if language == "zh" else "unknown"
        assert (unknown if value is None else f"{value / 1e9:g} GB/s") in said
    assert name in said and (("假设" if language == "zh" else "assumed") in said) == bool(shipped.assumptions)
    circles = [p for p in ax.patches if isinstance(p, Circle)]
    assert len(circles) == (16 if name.startswith("two-") else 8)
    assert (said.count("384") > 1) == (name == "cloudmatrix-384")


def test_links_of_a_mesh_and_ports_of_a_switch():
    """Would catch a pair without its line, and a switch without the way of a card to it."""
    assert len(draw.topology(machine(5)).lines) == 10
    assert len(draw.topology(machine(5, shape="switch")).lines) == 5
    assert len(draw.topology(ml.topology("two-atlas-a2")).lines) == 2 * 28 + 16


def test_only_cards_with_a_rank_have_its_colour_and_number():
    """Would catch a card's number that is read as a rank's."""
    ax = draw.topology(ml.topology("two-atlas-a2"), cards=[0, 1, 8, 9])
    fills = [to_hex(p.get_facecolor()) for p in ax.patches if isinstance(p, Circle)]
    assert [k for k, fill in enumerate(fills) if fill != style.PAPER] == [0, 1, 8, 9]
    assert [fills[card] for card in (0, 1, 8, 9)] == [style.colour(rank) for rank in range(4)]
    assert [text for text in texts(ax) if text.isdecimal()] == ["0", "1", "2", "3"]
    assert "rank 2 on card 8" in ax.alt
