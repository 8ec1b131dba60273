"""This host as a topology: what a calibration timed, and how fast a rank computes, written down as a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.planning.facts import Card, Fact, Level
from mindlab.planning.topologies import Topology

if TYPE_CHECKING:
    from mindlab.planning.calibration import Calibration

_ROWS, _INNER = 256, 1024
_COPIED = 16 * 2**20


def as_topology(
    timed: Calibration, *, rates: tuple[float, float] | None = None, name: str = "host"
) -> Topology:
    """The Topology of a calibration: one switch, alpha of the shortest message, bandwidth by size.

    With alpha and the table a message takes what was timed at each size. `rates` are (FLOP/s, bytes/s) of a
    rank, as `computing` times them; unknown without.
    """
    where, day = f"timed here: {timed.op}, {timed.machine}", timed.machine.rsplit(" ", maxsplit=1)[-1]
    points = sorted(timed.points)
    alpha = points[0][1]
    table = tuple((float(size), size / max(spent - alpha, spent / 100)) for size, spent in points[1:])
    level = Level(
        "loopback", "host", "switch", timed.ranks,
        Fact(max(rate for _, rate in table), "B/s", where, day), Fact(alpha, "s", where, day), table,
    )  # fmt: skip
    unknown = Fact(None, "B", "not timed", day)
    flop, memory = rates or (None, None)
    card = Card(
        "rank of this host",
        Fact(None, "FLOP/s", "not timed", day),
        Fact(flop, "FLOP/s", where if flop else "not timed", day),
        unknown,
        Fact(memory, "B/s", where if memory else "not timed", day),
    )
    titles = (f"this host, {timed.ranks} ranks", f"本机,{timed.ranks} 个 rank")
    return Topology(name, titles, timed.ranks, card, (level,))


def computing(ranks: int, *, repeats: int = 9, backend: str | None = None) -> tuple[float, float]:
    """(FLOP/s of a float32 matrix product, bytes/s of a copy) of a rank, while all ranks do the same."""
    from mindlab.ranks.launcher import launch, timing

    with timing():
        values = launch(_rates, repeats, ranks=ranks, backend=backend, timeout=120).values
    return median(flop for flop, _ in values), median(memory for _, memory in values)


def write(machine: Topology, path: Path) -> Path:
    """The path, after the topology was written there as `ml.topology` reads it."""
    level = machine.levels[0]
    fields: dict[str, Any] = {
        "name": machine.name,
        "title": {"en": machine.titles[0], "zh": machine.titles[1]},
        "cards": machine.cards,
        "card": {
            "name": machine.card.name,
            **{key: _fact(getattr(machine.card, key)) for key in ("peak", "rate", "memory", "memory_rate")},
        },
        "levels": [
            {
                "name": level.name, "domain": level.domain, "shape": level.shape, "size": level.size,
                "bandwidth": _fact(level.bandwidth), "alpha": _fact(level.alpha),
                "by_size": [list(row) for row in level.by_size],
            }
        ],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def _fact(fact: Fact) -> dict[str, Any]:
    value = "unknown" if fact.value is None else fact.value
    return {"value": value, "unit": fact.unit, "source": fact.source, "date": fact.date}


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
