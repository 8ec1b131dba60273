"""What the lessons of chapter 09 hand to the ranks: shards of q, k, v on a mesh, and one card's attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.mesh import split_hybrid
from mindlab.teach import inputs, likely
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Trial

BATCH, HEAD_DIM = 2, 8
DIMS = ("batch", "position", "head", "head_dim")
CALLS = ("all_to_all", "isend", "irecv", "send", "recv", "batch_isend_irecv", "new_group", "barrier")

Tensor = torch.Tensor


def whole(seed: int, trial: Trial) -> list[Tensor]:
    """q, k and v of the whole sequence, the same on every rank."""
    counts = {"q": trial["heads"], "k": trial["kv_heads"], "v": trial["kv_heads"]}
    return [
        inputs.normal(seed, name, BATCH, trial["sequence"], count, HEAD_DIM) for name, count in counts.items()
    ]


def shards(x: Tensor, trial: Trial, layout: str = "contiguous") -> list[Tensor]:
    """Every rank's shard of x on the trial's mesh, Ulysses inside, as tensors of their own."""
    cut = split_hybrid(x, ring=trial["ring"], ulysses=trial["ulysses"], layout=layout)
    return [shard.clone(memory_format=torch.contiguous_format) for shard in cut]


def attended(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """One card's attention."""
    return attention_with_lse(q, k, v, causal=causal)[0]


def named(mistakes: likely.Mistakes) -> Callable[[Attempt], str]:
    """A `look`: the first mistake that explains every rank's result, some ranks' being right by chance."""

    def look(attempt: Attempt) -> str:
        pairs = zip(attempt.values, attempt.wanted, strict=True)
        wrong = not all(near(seen, wanted) for seen, wanted in pairs)
        by_rank = [mistakes(attempt.given, rank) for rank in range(attempt.trial.ranks)]
        for name in by_rank[0] if wrong else ():
            if all(near(seen, each[name]) for seen, each in zip(attempt.values, by_rank, strict=True)):
                return f"Every rank returned {name}."
        return ""

    return look


def near(seen: Any, other: Tensor) -> bool:
    """Whether a result is that tensor, up to rounding."""
    if not isinstance(seen, Tensor) or seen.shape != other.shape:
        return False
    return torch.allclose(seen.double(), other.double(), atol=1e-4, rtol=1e-4)


def nbytes(trial: Trial) -> int:
    """Bytes of the whole queries."""
    return BATCH * trial["sequence"] * trial["heads"] * HEAD_DIM * 4
