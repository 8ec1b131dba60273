"""What the lessons of chapter 08 run: a line of stages of which each is a matrix, and its inputs."""

from __future__ import annotations

from typing import Any

import torch

from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.sources import HUANG
from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Trial

HIDDEN = 6
Tensor = torch.Tensor


def weights(seed: int, ranks: int) -> list[Tensor]:
    """The matrix of every stage."""
    return [inputs.normal(seed, f"stage {rank}", HIDDEN, HIDDEN, scale=0.4) for rank in range(ranks)]


def rows(trial: Trial) -> list[int]:
    """How many rows each micro-batch has: not the same for all."""
    return [2 + number % 3 for number in range(trial["microbatches"])]


def batches(seed: int, rank: int, trial: Trial) -> list[Tensor]:
    """The micro-batches; on other ranks than the first their shapes, filled with NaN."""
    made = [inputs.normal(seed, f"batch {i}", count, HIDDEN) for i, count in enumerate(rows(trial))]
    return made if not rank else [torch.full_like(x, torch.nan) for x in made]


def prompts(seed: int, rank: int, trial: Trial) -> list[Tensor]:
    """One row a prompt; on other ranks than the first NaN."""
    made = [inputs.normal(seed, f"prompt {i}", 1, HIDDEN) for i in range(trial["prompts"])]
    return made if not rank else [torch.full_like(x, torch.nan) for x in made]


def sent(trial: Trial) -> Quantity:
    """Bytes that each rank sends: all rows once, to the next stage."""
    each = sum(rows(trial)) * HIDDEN * 4
    return counted("pipeline", [each] * (trial.ranks - 1) + [0], r"\frac{p-1}{p}\,b\,s\,h\,e", HUANG)


def taken(trial: Trial) -> Quantity:
    """Bytes that each rank sends while all prompts take their turns: one row a prompt and pass."""
    each = trial["prompts"] * HIDDEN * 4
    whole, last = trial["tokens"] * each, (trial["tokens"] - 1) * each
    return counted("pipeline_decode", [whole] * (trial.ranks - 1) + [last], r"n\,m\,h\,e", HUANG)


def only_last(results: Any, ranks: int) -> list[Any]:
    """What every rank must return: the results on the last one, None on the others."""
    return [None] * (ranks - 1) + [results]


def decoded(given: list[tuple[Tensor, list[Tensor], int]], how: str = "") -> list[Any]:
    """The prompts after `tokens` passes through all stages, each with a memory of its own in each stage."""
    _, made, tokens = given[0]
    results = []
    for prompt in made:
        x, seen = prompt, [torch.zeros_like(prompt) for _ in given]
        for _ in range(tokens):
            x = prompt if how == NO_WAY_BACK else x
            for stage, (weight, _, _) in enumerate(given):
                out, old = torch.tanh((x + seen[stage]) @ weight), seen[stage]
                kept = {FORGETS: 0 * x, LAST_ONLY: x, OUTPUTS: old + out}
                x, seen[stage] = out, kept.get(how, old + x)
        results.append(x)
    return only_last(torch.cat(results), len(given))


FORGETS = "if a stage remembers nothing"
LAST_ONLY = "if a stage remembers its last input only"
OUTPUTS = "if a stage remembers its results, not its inputs"
NO_WAY_BACK = "if every pass begins with the prompt"


def looks_like(attempt: Attempt) -> str:
    """Which of the likely mistakes the last rank's result is, as a sentence; "" for none of them."""
    seen, wanted = attempt.values[-1], attempt.wanted[-1]
    if not isinstance(seen, Tensor) or seen.shape != wanted.shape or torch.allclose(seen, wanted, atol=1e-5):
        return ""
    for how in (FORGETS, LAST_ONLY, OUTPUTS, NO_WAY_BACK):
        if torch.allclose(seen, decoded(attempt.given, how)[-1], atol=1e-5):
            return f"The result is what comes out {how}."
    return ""


def decoding(seed: int, rank: int, trial: Trial) -> tuple[Tensor, list[Tensor], int]:
    """This rank's matrix, the prompts, and how many tokens."""
    return weights(seed, trial.ranks)[rank], prompts(seed, rank, trial), trial["tokens"]
