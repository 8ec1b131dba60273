"""What an exercise hands to each rank: tensors drawn at random, the same ones for the same seed.

Whole numbers, where a result is a sum of them: in float32 it is exact in any order, and a difference is a
mistake, not rounding. None of them is 0: a part that is missing shows. Floats, where a result is computed.
"""

from __future__ import annotations

import zlib

import torch

from mindlab.predict.chunks import split
from mindlab.teach.lesson import Trial

_MOST = 100


def whole(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor]:
    """A tensor of `trial.numel` elements of this rank's own."""
    return (numbers(seed, rank, trial.numel),)


def shard(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor]:
    """This rank's part of a tensor of `trial.numel` elements; the first ranks may have one more."""
    return (numbers(seed, rank, lengths(trial)[rank]),)


def shard_and_lengths(seed: int, rank: int, trial: Trial) -> tuple[torch.Tensor, list[int]]:
    """This rank's part as `shard` makes it, and the lengths of all parts."""
    return numbers(seed, rank, lengths(trial)[rank]), lengths(trial)


def lengths(trial: Trial) -> list[int]:
    """How many of `trial.numel` elements each rank has."""
    return list(split(trial.numel, trial.ranks))


def numbers(seed: int, rank: int, numel: int) -> torch.Tensor:
    """`numel` whole numbers from 1 to 99 as float32, on the CPU."""
    generator = torch.Generator().manual_seed(1000 * (seed + 1) + rank)
    return torch.randint(1, _MOST, (numel,), generator=generator).float()


def normal(
    seed: int, name: str, *shape: int, rank: int | None = None, dtype: str = "float32", scale: float = 1.0
) -> torch.Tensor:
    """Standard normal numbers times `scale`, on the CPU: the same on all ranks, with `rank=` this rank's own.

    Another `name` gives other numbers. They are drawn in float32 and then rounded to `dtype`.

    >>> x = normal(0, "x", 2, 3, dtype="bfloat16")
    >>> x.shape, x.equal(normal(0, "x", 2, 3, dtype="bfloat16")), x.equal(normal(0, "y", 2, 3))
    (torch.Size([2, 3]), True, False)
    """
    words = f"{seed} {name} {'all' if rank is None else rank}"
    generator = torch.Generator().manual_seed(zlib.crc32(words.encode()))
    drawn = torch.randn(shape, generator=generator) * scale
    return drawn.to(getattr(torch, dtype))


def part(tensor: torch.Tensor, rank: int, ranks: int, dim: int = 0) -> torch.Tensor:
    """This rank's part of a tensor, cut as `torch.tensor_split` does, as a tensor of its own.

    >>> part(torch.arange(5), 0, 2), part(torch.arange(5), 1, 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return tensor.tensor_split(ranks, dim=dim)[rank].clone(memory_format=torch.contiguous_format)
