"""What two case files have in common: the newest token, and a cache of all before it."""

from __future__ import annotations

import torch

from mindlab.teach import inputs
from mindlab.teach.lesson import Trial
from mindlab.teach.lessons.chapter_10 import given

Tensor = torch.Tensor


def token(seed: int) -> list[Tensor]:
    """Key and value of the newest token, (2, 1, 1, 8) each, the same on every rank."""
    shape = given.BATCH, 1, given.KV_HEADS, given.DIM
    return [inputs.normal(seed, "k new", *shape), inputs.normal(seed, "v new", *shape) - 1]


def arguments(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int]:
    """q, k_new, v_new, k_shard, v_shard, length."""
    k_new, v_new = token(seed)
    k, v = given.shards(seed, rank, trial)
    return given.queries(seed, trial), k_new, v_new, k, v, trial["length"]
