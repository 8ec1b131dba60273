"""What a wrong answer may have computed instead: likely mistakes, held against what the ranks returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Mistakes = Callable[[list[tuple[Any, ...]], int], Mapping[str, torch.Tensor]]
"""(the arguments of all ranks, rank) -> what that rank returns, by a name for the mistake."""


def named(mistakes: Mistakes) -> Callable[[Any], str]:
    """An exercise's `look`: the sentence with the first mistake that explains every rank's result, or ""."""

    def look(attempt: Any) -> str:
        by_rank = [mistakes(attempt.given, rank) for rank in range(attempt.trial.ranks)]
        for name in by_rank[0]:
            pairs = zip(attempt.values, attempt.wanted, (each[name] for each in by_rank), strict=True)
            if all(_near(seen, other) and not _near(wanted, other) for seen, wanted, other in pairs):
                return f"Every rank returned {name}."
        return ""

    return look


def _near(seen: object, other: torch.Tensor) -> bool:
    if not isinstance(seen, torch.Tensor) or seen.shape != other.shape:
        return False
    close = 1e-4 if other.itemsize >= 4 else 0.05
    return torch.allclose(seen.double(), other.double(), atol=close, rtol=close)
