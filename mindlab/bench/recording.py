"""`mindlab bench recording` and `ring`: what recording costs, and our ring against the backend's."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab import collectives
from mindlab.trace import recorder


def recording(ranks: int, repeats: int) -> dict[str, Any]:
    """The cost of recording: ratio on a 1 MiB all_reduce, and seconds a call on the smallest message."""
    with_, without = zip(*_pairs(ranks, 1 << 18, repeats), strict=True)
    small_with, small_without = zip(*_pairs(1, 1, 10 * repeats), strict=True)
    return {
        "1 MiB all_reduce, recorded / not": statistics.median(with_) / statistics.median(without),
        "seconds a call": statistics.median(small_with) - statistics.median(small_without),
    }


def _pairs(ranks: int, numel: int, repeats: int) -> list[tuple[float, float]]:
    return list(ml.launch(_alternate, numel, repeats, ranks=ranks, timeout=600).values[0])


def _alternate(numel: int, repeats: int) -> list[tuple[float, float]]:
    """In a rank: seconds of one all_reduce recorded and not, in turn."""
    x = torch.ones(numel)
    pairs = []
    ways = (contextlib.nullcontext, recorder.paused)
    for number in range(repeats):
        spent = [0.0, 0.0]
        for way in (number % 2, 1 - number % 2):  # each goes first as often as the other
            dist.barrier()
            with ways[way]():
                began = time.perf_counter()
                dist.all_reduce(x)
                spent[way] = time.perf_counter() - began
        x.fill_(1)
        pairs.append((spent[0], spent[1]))
    return pairs


def ring(ranks: int, repeats: int, nbytes: int = 16 << 20) -> dict[str, Any]:
    """Our ring_all_reduce against dist.all_reduce, in turn, in the same processes."""
    with ml.timing():
        pairs = ml.launch(_rings, nbytes // 4, repeats, ranks=ranks, timeout=600).values[0]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {"bytes": nbytes, "ours, s": ours, "backend's, s": theirs, "ours / backend's": ours / theirs}


def _rings(numel: int, repeats: int) -> list[tuple[float, float]]:
    x = torch.ones(numel)
    pairs = []
    ways = (collectives.ring_all_reduce, dist.all_reduce)
    for number in range(repeats + 1):
        spent = [0.0, 0.0]
        for way in (number % 2, 1 - number % 2):
            dist.barrier()
            began = time.perf_counter()
            ways[way](x)
            spent[way] = time.perf_counter() - began
        x.fill_(1)
        pairs.append((spent[0], spent[1]))
    return pairs[1:]
