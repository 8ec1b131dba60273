"""What a wrong answer may have computed instead: likely mistakes, held against what the ranks returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Mistakes = Callable[[list[tuple[Any, ...]], int], Mapping[str, Any]]
"""(the arguments of all ranks, rank) -> the tensor that it returns (first), by a name for the mistake."""


def named(mistakes: Mistakes) -> Callable[[Any], str]:
    """An exercise's `look`: the sentence with the first mistake that explains every rank's result, or ""."""

    def look(attempt: Any) -> str:
        by_rank = [mistakes(attempt.given, rank) for rank in range(attempt.trial.ranks)]
        results = [[_first(value) for value in values] for values in (attempt.values, attempt.wanted)]
        for name in by_rank[0]:
            rows = zip(*results, (each[name] for each in by_rank), strict=True)
            if all(near(seen, other) and not near(wanted, other) for seen, wanted, other in rows):
                return f"Every rank returned {name}."
        return ""

    return look


def unnamed(attempt: Any) -> str:
    """A case's `look` that names nothing: `run` then says which numbers are wrong, and no more."""
    return ""


def _first(value: Any) -> Any:
    """A result, or the first of several."""
    return value[0] if isinstance(value, (tuple, list)) and value else value


def near(seen: Any, other: Any) -> bool:
    """Whether a result is that tensor, up to what rounding does."""
    import torch

    if not isinstance(seen, torch.Tensor) or seen.shape != other.shape:
        return False
    close = 1e-4 if seen.itemsize >= 4 else 0.05
    return torch.allclose(seen.double(), other.double(), atol=close, rtol=close)
