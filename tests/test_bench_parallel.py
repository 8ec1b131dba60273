"""The bench of parallel layers, on small sizes: both sides compute the same, and rows are made right."""

from __future__ import annotations

import pytest

import mindlab as ml
from mindlab.bench import cli
from mindlab.bench.parallel import CONTESTS, Spent, _row


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", CONTESTS)
def test_a_contest_runs(name: str, ranks: int) -> None:
    """Would catch a peer that changed its face, a result that differs (the contest raises), a lost round."""
    run = ml.launch(CONTESTS[name], 3, 64, ranks=ranks, timeout=120)
    for pairs, peer in run.values:
        assert len(pairs) == 3 and all(min(*ours, *theirs) > 0 for ours, theirs in pairs) and peer
    assert "barrier" not in {event.op for event in run.events}, "nothing is recorded while the clock runs"


def test_the_slowest_rank_counts() -> None:
    """Would catch rank 0's seconds taken for all, and a ratio of other than the medians."""
    seconds = [[(1.0, 1.0), (2.0, 1.0), (9.0, 9.0)], [(4.0, 1.0), (1.0, 2.0), (1.0, 1.0)]]
    by_rank = [[(Spent(ours, ours), Spent(theirs, 8.0)) for ours, theirs in pairs] for pairs in seconds]
    row = _row(by_rank, "a peer")
    assert list(row.values()) == [4.0, 2.0, 2.0, 0.5, "a peer"]
    wanted = "ours, s 4; peer's, s 2; ours / peer's 2; processor time, ours / peer's 0.5; peer a peer"
    assert cli._text({"x, 2 ranks": row}) == f"x, 2 ranks: {wanted}"
