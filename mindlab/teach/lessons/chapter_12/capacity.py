"""Exercise 12.1: what a card holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Tolerance, Trial, Wrong

Tensor = torch.Tensor
Model = dict[str, int]
Layout = dict[str, int]


def my_capacity(model: Model, layout: Layout, tokens: int) -> Tensor:
    """Bytes of weights and of the cache on each card."""
    tensor, pipeline, context = (layout[axis] for axis in ("tensor", "pipeline", "context"))
    weights = model["parameters"] * 2 / (tensor * pipeline)
    heads = min(tensor, model["kv_heads"])
    cache = tokens * model["kv_bytes"] / (heads * context * pipeline)
    return torch.tensor([weights, cache], dtype=torch.float64)


def per_layer(model: Model, layout: Layout, tokens: int) -> Tensor:
    """Right: one pipeline stage's layers, one head group at a time."""
    stages = layout["pipeline"]
    copies = max(1, layout["tensor"] // model["kv_heads"])  # ranks that hold the same heads
    own_tokens = tokens / layout["context"]
    cache = own_tokens * model["kv_bytes"] / stages * copies / layout["tensor"]
    weights = 2 * model["parameters"] / stages / layout["tensor"]
    return torch.tensor([weights, cache], dtype=torch.float64)


def by_ranks(model: Model, layout: Layout, tokens: int) -> Tensor:
    """Right: divide step by step."""
    held = torch.tensor([2.0 * model["parameters"], float(tokens * model["kv_bytes"])], dtype=torch.float64)
    held /= layout["pipeline"]
    held[0] /= layout["tensor"]
    held[1] /= layout["context"]
    held[1] /= layout["tensor"] if layout["tensor"] <= model["kv_heads"] else model["kv_heads"]
    return held


def _by(form: Callable[..., tuple[float, float]], model: Model, layout: Layout, tokens: int) -> Tensor:
    whole, cache = 2 * model["parameters"], tokens * model["kv_bytes"]
    made = form(whole, cache, model["kv_heads"], layout["tensor"], layout["pipeline"], layout["context"])
    return torch.tensor(made, dtype=torch.float64)


def _formula(form: Callable[..., tuple[float, float]]) -> Callable[..., Tensor]:
    return partial(_by, form)


def asks_the_others(model: Model, layout: Layout, tokens: int) -> Tensor:
    """Wrong: right, but nobody else is needed."""
    dist.barrier()
    return my_capacity(model, layout, tokens)


MODELS = {
    "grouped": {"parameters": 70_553_706_496, "kv_bytes": 327_680, "kv_heads": 8},
    "latent": {"parameters": 671_026_522_112, "kv_bytes": 70_272, "kv_heads": 1},
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Model, Layout, int]:
    model = next(facts for name, facts in MODELS.items() if trial.sizes.get(name))
    layout = {axis: trial[axis] for axis in ("tensor", "pipeline", "context")}
    return dict(model), layout, 4096 * (seed % 3 + 1)


def _one_card(given: list[tuple[Model, Layout, int]]) -> list[Tensor]:
    return [by_ranks(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """Which layout, and which of the two numbers is how many times too large or too small."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, Tensor) or seen.shape != wanted.shape:
        return ""
    model, layout, _ = attempt.given[0]
    for name, mine, right in zip(
        ("the weights", "the bytes of cache"), seen.tolist(), wanted.tolist(), strict=True
    ):
        if abs(mine / right - 1) > 1e-9:
            where = ", ".join(f"{axis} {size}" for axis, size in layout.items())
            heads = f"{model['kv_heads']} key-value head{'s' * (model['kv_heads'] > 1)}"
            return f"With {where} and {heads} {name} come out at {mine / right:.3g} times what a card holds."
    return ""


EXERCISE = Exercise(
    name="12.1",
    title="What a card holds",
    statement="""
Write `my_capacity(model, layout, tokens)`. `model` has `parameters`, `kv_bytes` (what one token leaves in the
cache of all layers, in bfloat16) and `kv_heads`. `layout` has the degrees `tensor`, `pipeline` and `context`
(ranks that share a sequence by position). The cache holds `tokens` tokens.

Return a float64 tensor of two numbers: bytes of weights and bytes of cache on each card. Weights are
bfloat16, and all of them can be cut. A latent cache counts as one key-value head.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(
        Trial(2, sizes={"grouped": 1, "tensor": 8, "pipeline": 1, "context": 1}),
        Trial(2, sizes={"grouped": 1, "tensor": 16, "pipeline": 1, "context": 1}),
        Trial(2, sizes={"grouped": 1, "tensor": 2, "pipeline": 4, "context": 1}),
        Trial(2, sizes={"grouped": 1, "tensor": 4, "pipeline": 1, "context": 4}),
        Trial(2, sizes={"latent": 1, "tensor": 8, "pipeline": 2, "context": 2}),
    ),
    tolerance={"float64": Tolerance(0.0, 1e-12, "a few divisions in float64")},
    hints=(
        "Ask of each axis: does a rank on it have other layers, other heads, or other positions?",
        "Two rows, weights and cache; three columns, tensor, pipeline, context. Put a cross where an "
        "axis cuts. "
        "One cross stops cutting when there are no more heads to give away.",
        """
    weights = model["parameters"] * 2 / ...
    heads = ...                       # how far tensor parallel cuts the cache
    cache = tokens * model["kv_bytes"] / ...
    return torch.tensor([weights, cache], dtype=torch.float64)
""",
    ),
    solution=my_capacity,
    explanation="""
A pipeline stage has its own layers, so it cuts both. Tensor parallel cuts all weights, and the cache only
as far as there are key-value heads: beyond that heads are copied. A shared sequence (ring, Ulysses, a cache
by position) cuts the cache and leaves the weights whole on every rank. This is why a long context on a
model with few key-value heads asks for a cache by position, and a large model for tensor or pipeline
parallel.
""",
    right=(per_layer, by_ranks),
    wrong=(
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / t / p, c / t / s / p)),
            r"tensor 16, pipeline 1, context 1 and 8 key-value heads the bytes of cache come out at 0\.5",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / t / p / s, c / min(t, k) / s / p)),
            r"context 4 .* the weights come out at 0\.25 times",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / t / p, c / min(t, k) / s)),
            r"pipeline 4, context 1 .* the bytes of cache come out at 4 times",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / 2 / t / p, c / min(t, k) / s / p)),
            r"the weights come out at 0\.5 times",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / min(t, k) / p, c / min(t, k) / s / p)),
            r"tensor 16, .* the weights come out at 2 times",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / t / p, c / s / p)),
            r"the bytes of cache come out at 8 times",
        ),
        Wrong(
            _formula(lambda w, c, k, t, p, s: (w / t / p, c / min(t, k) / p)),
            r"context 4 .* the bytes of cache come out at 4 times",
        ),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
