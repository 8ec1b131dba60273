"""The bench of parallel layers, on small sizes: both sides compute the same, and rows are made right."""

from __future__ import annotations

import pytest

import mindlab as ml
from mindlab.bench import cli, parallel


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", parallel.CONTESTS)
def test_a_contest_runs(name: str, ranks: int) -> None:
    """Would catch a peer that changed its face, a result that differs (the contest raises), a lost round."""
    run = ml.launch(parallel.CONTESTS[name], 3, 64, ranks=ranks, timeout=120)
    for pairs, peer in run.values:
        assert len(pairs) == 3 and all(ours > 0 and theirs > 0 for ours, theirs in pairs) and peer
    assert "barrier" not in {event.op for event in run.events}, "nothing is recorded while the clock runs"


def test_the_slowest_rank_counts() -> None:
    """Would catch rank 0's seconds taken for all, and a ratio of other than the medians."""
    ranks = [[(1.0, 1.0), (2.0, 1.0), (9.0, 9.0)], [(4.0, 1.0), (1.0, 2.0), (1.0, 1.0)]]
    row = parallel._row(ranks, "a peer")
    assert row == {"ours, s": 4.0, "peer's, s": 2.0, "ours / peer's": 2.0, "peer": "a peer"}
    assert (
        cli._text({"x, 2 ranks": row}) == "x, 2 ranks: ours, s 4; peer's, s 2; ours / peer's 2; peer a peer"
    )
