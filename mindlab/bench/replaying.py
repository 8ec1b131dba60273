"""`mindlab bench replay`: programs timed here, and replayed on this host as it was just calibrated."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab import collectives
from mindlab.planning.calibration import calibrate, ring_shift

SIZES = tuple(4**power for power in range(5, 12))  # 1 KiB to 4 MiB
APART = 1.25
"""Two times are ranked where one is this many times the other: nearer ones change places by chance."""


def replaying(ranks: int, repeats: int, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """By algorithm and size: median seconds, the replay's, and their ratio; and how many pairs are in order.

    Every program is timed without the recorder, all in turns, and recorded once. The host is calibrated
    by messages to the right neighbour on all ranks at once. Adding, copying and Python are not in the model.
    """
    host = calibrate(ranks, op=ring_shift, repeats=5 * repeats).topology()
    cases = [(name, size) for name in PROGRAMS for size in sizes]
    timed: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    with ml.timing():
        for _ in range(repeats):
            for case in cases:
                timed[case].append(max(ml.launch(_timed, *case, ranks=ranks).values))
    rows = []
    for name, size in cases:
        run = ml.launch(_once, name, size, ranks=ranks)
        spent, modelled = statistics.median(timed[name, size]), float(ml.replay(run, host).seconds)
        rows.append({"program": name, "bytes": size, "timed": spent, "replay": modelled})
    return {"what": "replay of recorded runs on this host, calibrated", **_summary(rows), "table": rows}


def text(result: dict[str, Any]) -> str:
    """The report for a terminal."""
    lines = [f"{'program':<34}{'bytes':>10}{'timed':>12}{'replay':>12}{'replay / timed':>16}"]
    for row in result["table"]:
        times = f"{1e6 * row['timed']:>9.0f} µs{1e6 * row['replay']:>9.0f} µs"
        lines.append(f"{row['program']:<34}{row['bytes']:>10,}{times}{row['replay'] / row['timed']:>16.2f}")
    heads = ("order", "sizes", "error", "host")
    return "\n".join([*lines, *(f"{head}: {result[head]}" for head in heads if head in result)])


def _summary(rows: list[dict[str, Any]]) -> dict[str, str]:
    by_size = [pair for pair in combinations(rows, 2) if pair[0]["bytes"] == pair[1]["bytes"]]
    by_program = [pair for pair in combinations(rows, 2) if pair[0]["program"] == pair[1]["program"]]
    ratios = sorted(row["replay"] / row["timed"] for row in rows)
    middle = statistics.median(ratios)
    return {
        "order": f"algorithms at one size: {_ordered(by_size)}",
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


def _timed(name: str, size: int) -> float:
    x = torch.ones(size // 4)
    PROGRAMS[name](x)
    dist.barrier()
    start = time.perf_counter()
    PROGRAMS[name](x)
    return time.perf_counter() - start


def _once(name: str, size: int) -> None:
    PROGRAMS[name](torch.ones(size // 4))


def _to_all(x: torch.Tensor) -> Any:
    return collectives.direct_all_to_all(x)


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "ring all-reduce": collectives.ring_all_reduce,
    "halving-doubling all-reduce": collectives.halving_doubling_all_reduce,
    "tree broadcast": collectives.tree_broadcast,
    "all-to-all, direct": _to_all,
    "all-to-all, Bruck": collectives.bruck_all_to_all,
}
