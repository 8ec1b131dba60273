"""`mindlab bench pipeline`: the idle share of equal stages that really compute, beside the formula."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import mindlab as ml
from mindlab.parallel.pipeline import Slot, run_pipeline
from mindlab.predict.schedules import pipeline_idle
from mindlab.trace.slots import idle_share

MICROBATCHES = range(1, 9)


def pipeline(ranks: int, repeats: int, width: int = 512, products: int = 128) -> dict[str, Any]:
    """By number of micro-batches: the median idle share of `repeats` runs, the formula's, and their ratio.

    A stage is `products` square products of `width` on a micro-batch of width / 2 rows, and each rank keeps
    to a core of its own. Give as many ranks as the host has idle cores at the most: stages that share a core
    are not equal.
    """
    timed: dict[int, list[float]] = {m: [] for m in MICROBATCHES}
    for _ in range(repeats):
        for m, shares in timed.items():
            run = ml.launch(_equal_stages, m, width, products, ranks=ranks, timeout=600)
            shares.append(idle_share([slot for slots in run.values for slot in slots]))
    return {f"m = {m}, {ranks} ranks": _row(timed[m], float(pipeline_idle([1] * ranks, m))) for m in timed}


def _row(timed: list[float], formula: float) -> dict[str, Any]:
    middle = statistics.median(timed)
    return {
        "idle, timed": middle, "least": min(timed), "most": max(timed), "formula": formula,
        "timed / formula": middle / formula,
    }  # fmt: skip


def _equal_stages(microbatches: int, width: int, products: int) -> list[Slot]:
    """In a rank: its slots of the second of two equal runs."""
    stage = nn.Sequential(*[nn.Linear(width, width)] * products)
    stages = [stage] * dist.get_world_size()
    x = torch.ones(width // 2, width)
    with _own_core(dist.get_rank()):
        run_pipeline(stages, [x] * 2)
        return run_pipeline(stages, [x] * microbatches)[1]


@contextlib.contextmanager
def _own_core(rank: int) -> Iterator[None]:
    """Keeps this process's threads on one core, where the system can (Linux).

    Else the thread that receives may be put on the other stage's core and stand there for a tick of some
    milliseconds, though its own core is free.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    try:
        _keep_to({cores[rank % len(cores)]})
        yield
    finally:
        _keep_to(before)


def _keep_to(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)
