"""Which parameters each pipeline stage holds; reached through `ml.memory.model_weights`.

Layers go to stages in order, as evenly as they can, the first stages one more. The embedding and a text's
refiner are on the first stage, the logits on the last. What layers share lies on all stages in equal parts.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from mindlab.predict.architectures import Architecture
from mindlab.predict.parameters import parameter_terms

_FIRST, _LAST = ("embedding", "refiner"), ("logits",)


def stage_terms(model: Architecture, pipeline: int) -> list[dict[str, Fraction]]:
    """By stage, the parameters by part; over all stages they add up to `parameter_terms`.

    But for a table of tokens that is the matrix to logits too: first and last stage both need it.

    >>> [int(terms["logits"]) for terms in stage_terms(ml.architecture("llama-3.1-8b"), 2)]
    [0, 525336576]
    """
    whole = parameter_terms(model)
    parts = [parameter_terms(part) for part in _parts(model, pipeline)]
    stages: list[dict[str, Fraction]] = [{} for _ in parts]
    for name, count in whole.items():
        rest = Fraction(count - sum(part.get(name, 0) for part in parts), pipeline)
        for at, (stage, part) in enumerate(zip(stages, parts, strict=True)):
            stage[name] = part.get(name, 0) + rest
            if name in (*_FIRST, *_LAST):
                here = at == (0 if name in _FIRST else pipeline - 1)
                stage[name] = Fraction(count if here else 0)
    if model.tied and pipeline > 1:
        stages[-1]["logits"] += model.vocabulary * model.hidden
    return stages


def _parts(model: Architecture, pipeline: int) -> list[Architecture]:
    """The layers of each stage as a model of their own."""
    each, more = divmod(model.layers, pipeline)
    found, start = [], 0
    for stage in range(pipeline):
        stop = start + each + (stage < more)
        found.append(_between(model, start, stop))
        start = stop
    return found


def _between(model: Architecture, start: int, stop: int) -> Architecture:
    """Dense layers come before those with experts, double blocks before single ones."""
    experts, dit = model.experts, model.dit
    if experts is not None:
        experts = replace(experts, dense_layers=_shared(start, stop, experts.dense_layers))
    if dit is not None and dit.double + dit.single:
        double = _shared(start, stop, dit.double)
        dit = replace(dit, double=double, single=stop - start - double)
    return replace(model, layers=stop - start, experts=experts, dit=dit)


def _shared(start: int, stop: int, first: int) -> int:
    """How many of the layers from start to stop are among the `first` ones."""
    return max(0, min(stop, first) - start)
