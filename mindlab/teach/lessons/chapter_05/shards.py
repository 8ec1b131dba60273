"""What the exercises of chapter 05 hand to the ranks: shards of a sequence, and how long they all are."""

from __future__ import annotations

import torch

from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.sources import JACOBS
from mindlab.teach import inputs
from mindlab.teach.lesson import Trial

BATCH, HEAD_DIM = 2, 8
Tensors = tuple[torch.Tensor, ...]


def sizes(trial: Trial) -> list[int]:
    """The lengths of all ranks' shards: equal ones, and the rest on the last rank."""
    each, rest = divmod(trial["sequence"], trial.ranks)
    return [each] * (trial.ranks - 1) + [each + rest]


def block(trial: Trial, heads: int) -> int:
    """Bytes of all positions of so many heads."""
    return BATCH * trial["sequence"] * heads * HEAD_DIM * 4


def whole(seed: int, name: str, trial: Trial, heads: int) -> torch.Tensor:
    """A whole sequence (B, S, heads, head_dim), the same on every rank."""
    return inputs.normal(seed, name, BATCH, trial["sequence"], heads, HEAD_DIM)


def there(trial: Trial, heads: int, letter: str = "H") -> Quantity:
    """Bytes that each rank sends from its positions of so many heads: all but those that stay its own.

    `letter` is the number of heads in the formula.
    """
    row = BATCH * heads * HEAD_DIM * 4
    by_rank = [length * row * (trial.ranks - 1) // trial.ranks for length in sizes(trial)]
    return counted(
        "sequence_to_heads", by_rank, rf"\frac{{p-1}}{{p}}\,b\,\frac{{s}}{{p}}\,{letter}\,d\,e", JACOBS
    )


def back(trial: Trial, heads: int) -> Quantity:
    """Bytes that each rank sends from its share of so many heads: the positions of the others."""
    row = BATCH * heads * HEAD_DIM * 4
    by_rank = [(trial["sequence"] - length) * row // trial.ranks for length in sizes(trial)]
    return counted("heads_to_sequence", by_rank, r"\frac{p-1}{p}\,b\,s\,\frac{H}{p}\,d\,e", JACOBS)


def blocks(count: int, heads: int, trial: Trial) -> int:
    """Bytes of `count` times one rank's share, the largest where ranks differ."""
    return count * max(sizes(trial)) * BATCH * heads * HEAD_DIM * 4
