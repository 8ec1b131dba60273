"""`mindlab bench replay`: programs timed here, and replayed on this host as it was just calibrated."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab import collectives
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.planning import hosts
from mindlab.planning.calibration import Calibration, calibrate, ring_shift
from mindlab.planning.topologies import Topology
from mindlab.predict import units

SIZES = tuple(4**power for power in range(5, 12))  # 1 KiB to 4 MiB
_HEAD_DIM, _LONGEST = 32, 256 * 1024
"""Of the attentions: numbers a head, and the most bytes of queries a rank; beyond them work is minutes."""
_OF_GLOO = {"all_to_all": "at once"}
"""gloo posts all sends and receives of an all_to_all, and then waits (its alltoall.cc)."""
_EACH = 3
"""How often a program is timed in one launch."""
APART = 1.25
"""Two times are ranked where one is this many times the other: nearer ones change places by chance."""


def replaying(ranks: int, repeats: int, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """By algorithm and size: median seconds, the replay's, and their ratio; and how many pairs are in order.

    Every program is timed without the recorder, and recorded once. The host is calibrated by messages to
    the right neighbour on all ranks at once. Calibration and programs take turns, `repeats` times, and the
    medians count: what else the machine does falls on both. Adding, copying and Python are not in the model;
    of the attentions the stated work is, at the rate of a matrix product.
    """
    cases = [(name, size) for name in PROGRAMS for size in sizes if fits(name, size, ranks)]
    timed: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    fits_of_host: list[Calibration] = []
    rates: list[tuple[float, float]] = []
    for _ in range(repeats):
        fits_of_host.append(calibrate(ranks, op=ring_shift, repeats=5))
        rates.append(hosts.computing(ranks))
        with ml.timing():
            for case in cases:
                by_rank = ml.launch(_timed, *case, ranks=ranks).values
                timed[case] += [max(one) for one in zip(*by_rank, strict=True)]
    host = middle(fits_of_host, rates)
    rows = []
    for name, size in cases:
        run = ml.launch(_once, name, size, ranks=ranks)
        spent = statistics.median(timed[name, size])
        modelled = float(ml.replay(run, host, algorithms=_OF_GLOO).seconds)
        rows.append({"program": name, "bytes": size, "timed": spent, "replay": modelled})
    said = {"rate of a rank": f"{units.decimal(host.card.rate.value or 0.0, 'FLOP/s')}, matrix product"}
    return {
        "what": "replay of recorded runs on this host, calibrated",
        **_summary(rows),
        **said,
        "table": rows,
    }


def middle(fits_of_host: list[Calibration], rates: list[tuple[float, float]]) -> Topology:
    """The Topology of the medians of several calibrations of the same sizes, and of a rank's rates."""
    points = tuple(
        (same[0][0], statistics.median(spent for _, spent in same))
        for same in zip(*(one.points for one in fits_of_host), strict=True)
    )
    flop, memory = (statistics.median(column) for column in zip(*rates, strict=True))
    return hosts.as_topology(replace(fits_of_host[-1], points=points), rates=(flop, memory))


def fits(name: str, size: int, ranks: int) -> bool:
    """Whether a program takes that many bytes a rank: attentions whole tokens of `ranks` heads, not too many.

    >>> fits("ring attention", 1024, 4), fits("ring attention", 128, 4), fits("tree broadcast", 128, 4)
    (True, False, True)
    """
    return name not in _ATTENTIONS or 4 * _HEAD_DIM * ranks <= size <= _LONGEST


def text(result: dict[str, Any]) -> str:
    """The report for a terminal."""
    lines = [f"{'program':<34}{'bytes':>10}{'timed':>12}{'replay':>12}{'replay / timed':>16}"]
    for row in result["table"]:
        times = f"{1e6 * row['timed']:>9.0f} µs{1e6 * row['replay']:>9.0f} µs"
        lines.append(f"{row['program']:<34}{row['bytes']:>10,}{times}{row['replay'] / row['timed']:>16.2f}")
    heads = ("order", "attention", "sizes", "error", "rate of a rank", "host")
    return "\n".join([*lines, *(f"{head}: {result[head]}" for head in heads if head in result)])


def _summary(rows: list[dict[str, Any]]) -> dict[str, str]:
    by_size = [
        pair for pair in combinations(rows, 2)
        if pair[0]["bytes"] == pair[1]["bytes"] and len({row["program"] in _ATTENTIONS for row in pair}) == 1
    ]  # fmt: skip
    attention = [pair for pair in by_size if pair[0]["program"] in _ATTENTIONS]
    by_program = [pair for pair in combinations(rows, 2) if pair[0]["program"] == pair[1]["program"]]
    ratios = sorted(row["replay"] / row["timed"] for row in rows)
    middle = statistics.median(ratios)
    return {
        "order": f"algorithms at one size: {_ordered([pair for pair in by_size if pair not in attention])}",
        "attention": f"ring against Ulysses at one size: {_ordered(attention)}",
        "sizes": f"sizes of one algorithm: {_ordered(by_program)}",
        "error": f"replay / timed: {middle:.2f} in the middle, {ratios[0]:.2f} to {ratios[-1]:.2f}",
    }


def _ordered(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    apart = [
        pair for pair in pairs
        if max(one["timed"] for one in pair) > APART * min(one["timed"] for one in pair)
    ]  # fmt: skip
    right = sum((a["timed"] < b["timed"]) == (a["replay"] < b["replay"]) for a, b in apart)
    return f"{right} of {len(apart)} pairs that differ by more than {APART:g} times as timed"


def _timed(name: str, size: int) -> list[float]:
    x = torch.ones(size // 4)
    PROGRAMS[name](x)
    times = []
    for _ in range(_EACH):
        dist.barrier()
        start = time.perf_counter()
        PROGRAMS[name](x)
        times.append(time.perf_counter() - start)
    return times


def _once(name: str, size: int) -> None:
    PROGRAMS[name](torch.ones(size // 4))


def _to_all(x: torch.Tensor) -> Any:
    return collectives.direct_all_to_all(x)


def _ring(x: torch.Tensor) -> Any:
    shard, sizes = _tokens(x)
    return ring_attention(shard, shard, shard, sizes=sizes)


def _ulysses(x: torch.Tensor) -> Any:
    shard, sizes = _tokens(x)
    return ulysses_attention(shard, shard, shard, sizes=sizes)


def _tokens(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """Queries (1, tokens, heads, head_dim), as many heads as ranks; the tokens of all ranks."""
    ranks = dist.get_world_size()
    tokens = x.numel() // (ranks * _HEAD_DIM)
    return x[: tokens * ranks * _HEAD_DIM].view(1, tokens, ranks, _HEAD_DIM), [tokens] * ranks


_ATTENTIONS = ("ring attention", "Ulysses attention")
PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "ring all-reduce": collectives.ring_all_reduce,
    "halving-doubling all-reduce": collectives.halving_doubling_all_reduce,
    "tree broadcast": collectives.tree_broadcast,
    "all-to-all, direct": _to_all,
    "all-to-all, Bruck": collectives.bruck_all_to_all,
    "ring attention": _ring,
    "Ulysses attention": _ulysses,
}
