"""This host as a topology: what a calibration timed, and how fast a rank computes, written down as a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.planning.facts import Card, Fact, Level
from mindlab.planning.topologies import Topology
from mindlab.predict import units

if TYPE_CHECKING:
    from mindlab.planning.calibration import Calibration

_ROWS, _INNER = 256, 1024
_COPIED = 16 * 2**20
_PRODUCT = f"a float32 matrix product, {_ROWS} x {_INNER} by {_INNER} x {_INNER}, on all ranks at once"
_COPY = f"a copy of {units.size(_COPIED)}, read and written, on all ranks at once"


def as_topology(
    timed: Calibration, *, rates: tuple[float, float] | None = None, name: str = "host"
) -> Topology:
    """The Topology of a calibration: one switch, alpha of the shortest message, bandwidth by size.

    With alpha and the table a message takes what was timed at each size. Where a longer message was timed
    quicker than a shorter one, both and those between stand for their mean: what else the machine does, not
    the link. `rates` are (FLOP/s, bytes/s) of a rank, as `computing` times them; unknown without.
    Where no message took longer than the shortest, the bandwidth is assumed: the largest's bytes a second.

    >>> from mindlab.planning.calibration import Calibration
    >>> timed = Calibration(0, 0, ((4, 2e-6), (1000, 3e-6), (4000, 5e-6)), 0, "send", 2, "gloo", "2026-01-31")
    >>> [(size, round(rate / 1e9, 3)) for size, rate in as_topology(timed).levels[0].by_size]
    [(1000.0, 1.0), (4000.0, 1.333)]
    """
    where, day = f"timed here: {timed.op}, {timed.machine}", timed.machine.rsplit(" ", maxsplit=1)[-1]
    points = rising(timed.points)
    alpha = points[0][1]
    table = tuple((float(size), size / (spent - alpha)) for size, spent in points if spent > alpha)
    bandwidth = Fact(max((rate for _, rate in table), default=0.0), "B/s", where, day)
    if not table:
        largest, spent = points[-1]
        told = f"no message took longer than the shortest: the rate of the largest, alpha included; {where}"
        bandwidth = Fact(largest / spent, "B/s", told, day, assumed=True)
    level = Level(
        "loopback", "host", "switch", timed.ranks,
        bandwidth, Fact(alpha, "s", where, day), table, *((where, day) if table else ()),
    )  # fmt: skip
    unknown = Fact(None, "B", "not timed", day)
    flop, memory = rates or (None, None)
    card = Card(
        "rank of this host",
        Fact(None, "FLOP/s", "not timed", day),
        Fact(flop, "FLOP/s", f"timed here: {_PRODUCT}" if flop else "not timed", day),
        unknown,
        Fact(memory, "B/s", f"timed here: {_COPY}" if memory else "not timed", day),
    )
    titles = (f"this host, {timed.ranks} ranks", f"本机,{timed.ranks} 个 rank")
    return Topology(name, titles, timed.ranks, card, (level,))


def rising(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The points by size, with seconds that never fall: neighbours in the wrong order take their mean.

    >>> rising([(1, 5.0), (2, 3.0), (4, 6.0)])
    [(1, 4.0), (2, 4.0), (4, 6.0)]
    """
    pools: list[list[float]] = []
    for _, spent in sorted(points):
        pools.append([spent])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [mean(pool) for pool in pools for _ in pool]
    return [(size, spent) for (size, _), spent in zip(sorted(points), level, strict=True)]


def computing(ranks: int, *, repeats: int = 9, backend: str | None = None) -> tuple[float, float]:
    """(FLOP/s of a float32 matrix product, bytes/s of a copy) of a rank, while all ranks do the same."""
    from mindlab.ranks.launcher import launch, timing

    with timing():
        values = launch(_rates, repeats, ranks=ranks, backend=backend, timeout=120).values
    return median(flop for flop, _ in values), median(memory for _, memory in values)


def write(machine: Topology, path: Path) -> Path:
    """The path, after the topology was written there as `ml.topology` reads it."""
    fields: dict[str, Any] = {
        "name": machine.name,
        "title": {"en": machine.titles[0], "zh": machine.titles[1]},
        "cards": machine.cards,
        "card": {
            "name": machine.card.name,
            **{key: _fact(getattr(machine.card, key)) for key in ("peak", "rate", "memory", "memory_rate")},
        },
        "levels": [_level(level) for level in machine.levels],
    }
    path.write_text(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def _level(level: Level) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": level.name, "domain": level.domain, "shape": level.shape, "size": level.size,
        "bandwidth": _fact(level.bandwidth), "alpha": _fact(level.alpha),
    }  # fmt: skip
    if level.by_size:
        rows = [{"bytes": size, "value": rate} for size, rate in level.by_size]
        source = {"source": level.sizes_source, "date": level.sizes_date}
        fields["by_size"] = {"unit": "B/s", **source, "rows": rows}
    return fields


def _fact(fact: Fact) -> dict[str, Any]:
    value = "unknown" if fact.value is None else fact.value
    told = {"value": value, "unit": fact.unit, "source": fact.source, "date": fact.date}
    return {**told, "assumed": True} if fact.assumed else told


def _rates(repeats: int) -> tuple[float, float]:
    """In a rank: medians of a product and of a copy, begun together."""
    import torch
    import torch.distributed as dist

    from mindlab.ranks.backends import device

    a, b = (torch.ones(*shape, device=device()) for shape in ((_ROWS, _INNER), (_INNER, _INNER)))
    source = torch.ones(_COPIED // 4, device=device())
    target = torch.empty_like(source)
    products, copies = [], []
    for _ in range(repeats + 2):
        dist.barrier()
        products.append(_spent(lambda: a @ b))
        copies.append(_spent(lambda: target.copy_(source)))
    return 2 * _ROWS * _INNER**2 / _middle(products), 2 * _COPIED / _middle(copies)


def _spent(work: Any) -> float:
    start = time.perf_counter()
    done = work()
    if done.device.type != "cpu":
        done.flatten()[:1].cpu()
    return time.perf_counter() - start


def _middle(times: Sequence[float]) -> float:
    return median(times[2:])
