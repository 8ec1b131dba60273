"""Recorded calls put into rounds."""

from dataclasses import replace

import draw_runs as made
import pytest

from mindlab.draw.rounds import Move, Round, as_rounds, fold, in_rounds, matched


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_ring_has_2p_minus_2_rounds_of_p_moves(ranks: int, labelled: bool) -> None:
    """Would catch rounds that merge or split, with and without step labels."""
    rounds = in_rounds(made.ring_run(ranks, labelled=labelled).events)
    assert len(rounds) == 2 * (ranks - 1)
    for one in rounds:
        assert {(m.source, m.target) for m in one.moves} == {(r, (r + 1) % ranks) for r in range(ranks)}


def test_one_label_over_several_rounds_is_still_split() -> None:
    """Would catch three rounds drawn as one because the person labelled the phase, not the step."""
    run = made.ring_run(4)
    events = [replace(e, label=e.label.split()[0]) for e in run.events]
    rounds = in_rounds(events)
    assert [one.label for one in rounds] == ["reduce-scatter"] * 3 + ["all-gather"] * 3
    assert all(len(one.moves) == 4 for one in rounds)


def test_a_tree_without_labels_gets_its_rounds_from_what_was_over_before() -> None:
    """Would catch 2 to 3 drawn beside 0 to 2, on which it depends."""
    first, second = in_rounds(made.tree_run().events)
    assert [(m.source, m.target) for m in first.moves] == [(0, 2)]
    assert [(m.source, m.target) for m in second.moves] == [(0, 1), (2, 3)]


def test_an_all_to_all_is_one_round_of_all_pairs() -> None:
    """Would catch a collective counted once a rank."""
    (one,) = in_rounds(made.all_to_all_run(4).events)
    assert len(one.moves) == 12 and one.nbytes == sum(4096 * (r + 1) * 3 for r in range(4))


def test_a_reduction_is_joint_and_has_no_moves() -> None:
    """Would catch arrows invented for an all_reduce, whose arguments do not say who sends what."""
    rounds = in_rounds(made.reduction_run(4, calls=3).events)
    assert len(rounds) == 3
    assert all(not one.moves and one.joint[0].ranks == (0, 1, 2, 3) for one in rounds)


def test_groups_that_work_side_by_side_share_a_round() -> None:
    """Would catch a 2 x 2 mesh drawn as if one row waited for the other."""
    (one,) = in_rounds(made.mesh_run().events)
    assert [j.ranks for j in one.joint] == [(0, 1), (2, 3)]


def test_a_send_is_matched_with_its_own_receive() -> None:
    """Would catch messages of one pair paired in the wrong order, or across tags."""
    events = [
        made.event(0, 0, "send", 2, 1, 0.0, peer=1, tag=7),
        made.event(0, 1, "send", 2, 2, 0.1, peer=1, tag=0),
        made.event(0, 2, "send", 2, 3, 0.2, peer=1, tag=7),
        made.event(1, 0, "recv", 2, 2, 0.0, peer=0, tag=0),
        made.event(1, 1, "recv", 2, 1, 0.1, peer=0, tag=7),
    ]
    pairs = [(s.nbytes, r.nbytes if r else None) for s, r in matched(events)]
    assert pairs == [(1, 1), (2, 2), (3, None)]


def test_folding_keeps_every_byte() -> None:
    """Would catch rounds lost when a long run is cut to forty frames."""
    rounds = in_rounds(made.ring_run(16).events)
    folded = fold(rounds, 7)
    assert len(folded) == 7
    assert sum(one.nbytes for one in folded) == sum(one.nbytes for one in rounds)


def test_rounds_made_by_hand() -> None:
    """Would catch a tuple read in the wrong order."""
    rounds = as_rounds([[(0, 1, 64, "c0")], Round((Move(1, 0),), label="back")])
    assert rounds[0].moves == (Move(0, 1, 64, "c0"),) and rounds[1].label == "back"


def test_nothing_recorded_is_no_round() -> None:
    """Would catch a crash on an experiment that sends nothing."""
    assert in_rounds([]) == []
