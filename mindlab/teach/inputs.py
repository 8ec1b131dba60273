"""What an exercise hands to each rank: tensors of whole numbers, other ones on each rank, the same by seed.

Whole numbers, so that a sum in float32 is exact in any order and a difference is a mistake, not rounding.
None of them is 0: a part that is missing shows.
"""

from __future__ import annotations

import torch

_MOST = 100


def whole(seed: int, rank: int, ranks: int, numel: int) -> tuple[torch.Tensor]:
    """A tensor of `numel` elements of this rank's own."""
    return (numbers(seed, rank, numel),)


def shard(seed: int, rank: int, ranks: int, numel: int) -> tuple[torch.Tensor]:
    """This rank's part of a tensor of `numel` elements: numel / ranks of them, the first ranks one more."""
    length = numel // ranks + (rank < numel % ranks)
    return (numbers(seed, rank, length),)


def shard_and_lengths(seed: int, rank: int, ranks: int, numel: int) -> tuple[torch.Tensor, list[int]]:
    """This rank's part as `shard` makes it, and the lengths of all parts."""
    lengths = [numel // ranks + (other < numel % ranks) for other in range(ranks)]
    return numbers(seed, rank, lengths[rank]), lengths


def numbers(seed: int, rank: int, numel: int) -> torch.Tensor:
    """`numel` whole numbers from 1 to 99 as float32, on the CPU."""
    generator = torch.Generator().manual_seed(1000 * (seed + 1) + rank)
    return torch.randint(1, _MOST, (numel,), generator=generator).float()
