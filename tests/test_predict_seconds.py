"""The alpha-beta-gamma times: published examples, limits, orders of the algorithms."""

from __future__ import annotations

from typing import Any

import pytest
from test_predict_volume import MESH, NAIVE, SEVEN

from mindlab.predict import seconds

LINK = {"alpha": 10e-6, "beta": 1 / 28e9}


@pytest.mark.parametrize(
    ("nbytes", "mesh", "ring"),
    [(2**20, 29e-6, 206e-6), (64 * 2**20, 619e-6, 4334e-6)],
)
def test_hccl_mesh_and_ring(nbytes: int, mesh: float, ring: float) -> None:
    """Would catch a mesh form that forgets that all links work at once.

    HCCL's own formulas (hicann/hccl 09300b7, Mesh.md, Ring.md) at 8 cards, 28 GB/s a link, 10 us a message:
    2a + 2n/p b and 2(p-1)a + 2(p-1)/p n b.
    """
    on_mesh, on_ring = seconds.mesh_all_reduce(nbytes, 8, **LINK), seconds.ring_all_reduce(nbytes, 8, **LINK)
    assert on_mesh.value == pytest.approx(mesh, abs=1e-6)
    assert on_ring.value == pytest.approx(ring, abs=1e-6)
    assert (on_ring / on_mesh).value == pytest.approx(7)


def test_halving_doubling_at_three_ranks() -> None:
    """Would catch p written for q: three ranks put 3 n on the critical path, not 3.33 n.

    HCCL RHD.md: (2(q-1)/q + 2) n b with q = 2.
    """
    assert seconds.halving_doubling_all_reduce(1, 3, alpha=0, beta=1).value == 3
    assert seconds.halving_doubling_all_reduce(1, 3, alpha=1, beta=0).value == 4
    assert seconds.halving_doubling_all_reduce(1, 3, alpha=0, beta=0, gamma=1).value == 1.5


@pytest.mark.parametrize("name", [*SEVEN, *NAIVE, *MESH])
def test_limits(name: str) -> None:
    """Would catch a time for one rank or for nothing, and a missing unit, formula or source."""
    form: Any = getattr(seconds, name)
    assert form(4096, 1, **LINK, gamma=1e-9).value == 0
    assert form(0, 8, **LINK).value == 0
    some = form(4096, 8, **LINK, gamma=1e-9)
    assert some.value > 0 and (some.unit, some.name, some.ranks) == ("s", name, 8)
    assert some.formula and some.source
    only_alpha = form(4096, 8, alpha=1.0, beta=0.0).value
    assert only_alpha == getattr(seconds.rounds, name)(4096, 8).value


def test_which_algorithm_wins_depends_on_the_size() -> None:
    """Would catch alpha and beta swapped: few rounds win for short messages, few bytes for long ones."""
    short, long = 64, 64 * 2**20
    bruck, direct = seconds.bruck_all_to_all, seconds.direct_all_to_all
    assert bruck(short, 8, **LINK) < direct(short, 8, **LINK)
    assert bruck(long, 8, **LINK) > direct(long, 8, **LINK)


@pytest.mark.parametrize("rates", [{"alpha": -1, "beta": 0}, {"alpha": 0, "beta": float("nan")}])
def test_wrong_rates_are_refused(rates: dict[str, float]) -> None:
    """Would catch a negative or missing rate that gives a time all the same."""
    with pytest.raises(ValueError, match="from 0 on"):
        seconds.ring_all_reduce(4096, 4, **rates)
