"""Exercise 07.2: both branches in one call of the model."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.cfg import cfg_fused
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Tolerance, Trial, Wrong
from mindlab.teach.lessons.chapter_07 import guiding
from mindlab.teach.lessons.chapter_07.guiding import Model

Tensor = torch.Tensor
SCALE = 7.5


def my_fused(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """The guided prediction, by one call of the model."""
    both = model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([uncond, cond]))
    eps_u, eps_c = both.chunk(2)
    return eps_u + scale * (eps_c - eps_u)


def condition_first(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """Right: the other half first, and another form of the same sum."""
    both = model(x.repeat(2, 1, 1), t.repeat(2), torch.cat([cond, uncond]))
    return scale * both[: len(x)] + (1 - scale) * both[len(x) :]


def one_beside_the_other(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float
) -> Tensor:
    """Right: the two branches of an entry stand beside each other in the batch."""
    conditions = torch.stack([uncond, cond], 1).flatten(0, 1)
    both = model(x.repeat_interleave(2, 0), t.repeat_interleave(2), conditions).unflatten(0, (-1, 2))
    eps_u, eps_c = both.unbind(1)
    return torch.lerp(eps_u, eps_c, scale)


def _made_wrong(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float, *, how: str
) -> Tensor:
    """One mistake at a time."""
    if how == "two calls":
        eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
        return eps_u + scale * (eps_c - eps_u)
    if how == "mixed conditions":
        return model(x, t, uncond + scale * (cond - uncond))
    if how == "one t":
        return model(torch.cat([x, x]), t, torch.cat([uncond, cond]))
    if how == "along the tokens":
        both = model(torch.cat([x, x], 1), t, cond)
        eps_u, eps_c = both.chunk(2, 1)
    else:
        both = model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([uncond, cond]))
        eps_u, eps_c = both[::2] if how == "every second" else both[: len(x)], both[len(x) :]
    if how == "both halves":
        return torch.cat([eps_u, eps_c])
    if how == "swapped":
        eps_u, eps_c = eps_c, eps_u
    return (eps_c if how == "shifted" else eps_u) + scale * (eps_c - eps_u)


def asks_the_others(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """Wrong here: waits for ranks that are not needed."""
    dist.barrier()
    return my_fused(model, x, t, cond, uncond, scale)


def _inputs(seed: int, rank: int, trial: Trial) -> tuple[Model, Tensor, Tensor, Tensor, Tensor, float]:
    x, t = guiding.step(seed, trial)
    cond, uncond = guiding.condition(seed, "some"), guiding.condition(seed, "none")
    return Model(seed), x + rank, t, cond, uncond, SCALE


def _one_card(given: list[tuple[Model, Tensor, Tensor, Tensor, Tensor, float]]) -> list[Tensor]:
    results = []
    for model, x, t, cond, uncond, scale in given:
        eps_u, eps_c = model(x, t, uncond).double(), model(x, t, cond).double()
        results.append((eps_u + scale * (eps_c - eps_u)).float())
    return results


def _likely(attempt: Attempt, rank: int) -> dict[str, Tensor]:
    model, x, t, cond, uncond, scale = attempt.given[rank]
    eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
    return {
        "a guidance away from the condition: the halves of the batch are swapped": eps_c
        + scale * (eps_u - eps_c),
        "the guidance on top of the conditional prediction": eps_c + scale * (eps_c - eps_u),
        "the model's answer to a mixture of the conditions; it is not linear in them": model(
            x, t, uncond + scale * (cond - uncond)
        ),
        "a prediction that is not guided": eps_c,
    }


def _look(attempt: Attempt) -> str:
    for rank in range(attempt.trial.ranks):
        if (calls := guiding.calls(attempt, rank)) != 1:
            return f"Rank {rank} called the model {calls} times; one call is enough."
    return guiding.resembled(attempt, _likely)


EXERCISE = Exercise(
    name="07.2",
    title="Both branches in one batch",
    statement="""
Write `my_fused(model, x, t, cond, uncond, scale)` for one card: the guided prediction by **one** call of
the model. `model(x, t, condition)` takes x (batch, tokens, features), one time and one condition for each
entry of the batch: t (batch,), condition (batch, features). It predicts each entry by itself.

Nothing is to be sent.
""",
    inputs=_inputs,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(Trial(3, sizes={"tokens": 5}), Trial(2, sizes={"tokens": 1})),
    tolerance={"float32": Tolerance(3e-5, 1e-5, "differences rounded to 24 bits, and then taken 7.5 times")},
    dims=guiding.DIMS,
    hints=(
        "The model predicts each entry of a batch by itself. So two predictions of one x are one prediction "
        "of a batch in which x stands twice.",
        "Draw the batch as a column of boxes: x, t and condition of each entry beside each other. Which "
        "boxes stand there twice, and which differ between the upper and the lower half?",
        """
    both = model(..., ..., ...)       # each twice as long as before
    eps_u, eps_c = ...                # in the order in which the conditions went in
    return ...
""",
    ),
    solution=my_fused,
    explanation="""
x and t stand twice in the batch, the conditions once each. The order of the halves is free, as long as they
are taken apart as they were put together.

The work is the same as in two calls. What changes: half of the calls, each weight is read once a step instead
of twice, and twice the activations live at one time.
""",
    right=(condition_first, one_beside_the_other, cfg_fused),
    wrong=(
        Wrong(partial(_made_wrong, how="two calls"), r"called the model 2 times"),
        Wrong(partial(_made_wrong, how="swapped"), r"halves of the batch are swapped"),
        Wrong(partial(_made_wrong, how="shifted"), r"on top of the conditional prediction"),
        Wrong(partial(_made_wrong, how="mixed conditions"), r"mixture of the conditions"),
        Wrong(partial(_made_wrong, how="one t"), r"give one t and one condition"),
        Wrong(partial(_made_wrong, how="along the tokens"), r"a prediction that is not guided"),
        Wrong(partial(_made_wrong, how="both halves"), r"shape"),
        Wrong(partial(_made_wrong, how="every second"), r"Rank 0: element"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
