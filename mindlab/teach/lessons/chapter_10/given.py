"""What the exercises of chapter 10 hand to the ranks: a query, shards of a cache, the whole attention."""

from __future__ import annotations

import torch

from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Trial

BATCH, HEADS, KV_HEADS, DIM = 2, 5, 1, 8
DIMS = ("batch", "query", "heads", "head_dim")
Tensor = torch.Tensor


def queries(seed: int, trial: Trial) -> Tensor:
    """q (2, queries, 5, 8), the same on every rank; zeros in an even trial, large in a loud one."""
    q = inputs.normal(seed, "q", BATCH, trial.sizes.get("queries", 1), HEADS, DIM)
    return q * (0.0 if trial.sizes.get("even") else 60.0 if trial.sizes.get("loud") else 1.5)


def cached(seed: int, trial: Trial) -> list[Tensor]:
    """Keys and values of all tokens so far, (2, length, 1, 8) each; values are not centred on 0."""
    shape = BATCH, trial["length"], KV_HEADS, DIM
    return [inputs.normal(seed, "k", *shape), inputs.normal(seed, "v", *shape) + 1]


def shards(seed: int, rank: int, trial: Trial) -> list[Tensor]:
    """This rank's keys and values: positions rank, rank + p, …"""
    return [x[:, rank :: trial.ranks].clone() for x in cached(seed, trial)]


def exact(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """The attention of every query over all keys, by its definition, in float64."""
    wide = [x.double().repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v)]
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), wide[0])
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), wide[1]).float()


def scattered(trial: Trial) -> Quantity:
    """Bytes that each rank sends if each row is merged on one rank."""
    rows = BATCH * trial.sizes.get("queries", 1)
    return volume.decode_attention(rows, HEADS, DIM, trial.ranks, itemsize=4)


def gathered(trial: Trial) -> Quantity:
    """Bytes that each rank sends if every rank gets all parts."""
    rows = BATCH * trial.sizes.get("queries", 1)
    return volume.decode_attention_gathered(rows, HEADS, DIM, trial.ranks, itemsize=4)


def result(trial: Trial) -> int:
    """Bytes of the output."""
    return BATCH * trial.sizes.get("queries", 1) * HEADS * DIM * 4
