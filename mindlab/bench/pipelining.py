"""`mindlab bench pipeline`: the idle share of equal stages that really compute, beside the formula."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import nn

import mindlab as ml
from mindlab.parallel.pipeline import Slot, run_pipeline
from mindlab.predict.schedules import pipeline_idle
from mindlab.trace.slots import idle_share

MICROBATCHES = range(1, 9)


def pipeline(ranks: int, repeats: int, width: int = 1024) -> dict[str, Any]:
    """By number of micro-batches: the median idle share of `repeats` runs, the formula's, and their ratio.

    A stage is 8 square products of `width` on a micro-batch of `width` rows; give as many ranks as the host
    has idle cores at the most, for stages that share a core are not equal.
    """
    timed: dict[int, list[float]] = {m: [] for m in MICROBATCHES}
    for _ in range(repeats):
        for m, shares in timed.items():
            run = ml.launch(_equal_stages, m, width, ranks=ranks, timeout=600)
            shares.append(idle_share([slot for slots in run.values for slot in slots]))
    return {f"m = {m}, {ranks} ranks": _row(timed[m], float(pipeline_idle([1] * ranks, m))) for m in timed}


def _row(timed: list[float], formula: float) -> dict[str, Any]:
    middle = statistics.median(timed)
    return {
        "idle, timed": middle, "least": min(timed), "most": max(timed), "formula": formula,
        "timed / formula": middle / formula,
    }  # fmt: skip


def _equal_stages(microbatches: int, width: int) -> list[Slot]:
    """In a rank: its slots of the second of two equal runs."""
    stage = nn.Sequential(*[nn.Linear(width, width) for _ in range(8)])
    stages = [stage] * torch.distributed.get_world_size()
    x = torch.ones(width, width)
    run_pipeline(stages, [x] * 2)
    return run_pipeline(stages, [x] * microbatches)[1]
