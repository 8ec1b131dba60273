r"""How many numbers a model holds, part by part; reached through `Architecture.parameters`.

Weights and biases of every linear layer and norm. Tables that are computed, not learned, do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindlab.predict import sources
from mindlab.predict.quantity import Quantity

if TYPE_CHECKING:
    from mindlab.predict.architectures import Architecture, Dit

_TIME = 256
"""Width of the sines that a time step is turned into, in all shipped diffusion transformers."""


def parameters(model: Architecture) -> Quantity:
    """All of them."""
    return _counted("parameters", sum(parameter_terms(model).values()))


def active_parameters(model: Architecture) -> Quantity:
    """Those that one token meets; all, where there are no experts."""
    terms = parameter_terms(model)
    experts = model.experts
    if experts is not None:
        terms["experts"] = terms["experts"] * experts.top_k // experts.count
    return _counted("active_parameters", sum(terms.values()))


def parameter_terms(model: Architecture) -> dict[str, int]:
    """By part: "attention", "mlp", "experts" (those that are chosen from), "embedding" and so on."""
    return _dit(model, model.dit) if model.dit is not None else _decoder(model)


def attention_parameters(model: Architecture) -> int:
    """Of one layer's attention."""
    h, d = model.hidden, model.head_dim
    if model.latent is not None:
        return _latent(model)
    q, kv = model.heads * d, model.kv_heads * d
    weights = h * (q + 2 * kv) + q * h
    return weights + model.qkv_bias * (q + 2 * kv) + model.qk_norm * 2 * d


def mlp_parameters(model: Architecture, inner: int) -> int:
    """Of one MLP without biases."""
    return (3 if model.gated else 2) * model.hidden * inner


def _latent(model: Architecture) -> int:
    one, h, heads = model.latent, model.hidden, model.heads
    assert one is not None
    query = heads * (one.nope_dim + one.rope_dim)
    down = h * one.q_rank + one.q_rank + one.q_rank * query if one.q_rank else h * query
    kv = h * (one.kv_rank + one.rope_dim) + one.kv_rank
    up = one.kv_rank * heads * (one.nope_dim + one.value_dim)
    return down + kv + up + heads * one.value_dim * h


def _decoder(model: Architecture) -> dict[str, int]:
    experts, h = model.experts, model.hidden
    dense = model.layers if experts is None else experts.dense_layers
    terms = {
        "attention": model.layers * attention_parameters(model),
        "mlp": dense * mlp_parameters(model, model.inner),
        "norms": model.layers * 2 * h + h,
        "embedding": model.vocabulary * h,
        "logits": 0 if model.tied else model.vocabulary * h,
    }
    if experts is not None:
        sparse = model.layers - dense
        one = mlp_parameters(model, experts.inner)
        terms["experts"] = sparse * experts.count * one
        terms["shared experts"] = sparse * experts.shared * one
        terms["router"] = sparse * experts.count * (h + experts.bias)
    return terms


def _dit(model: Architecture, dit: Dit) -> dict[str, int]:
    h, inner = model.hidden, model.inner
    attention, mlp = 4 * (h * h + h), 2 * h * inner + inner + h
    if dit.double or dit.single:
        norms = 2 * model.head_dim
        blocks = dit.double * 2 * (attention + mlp + norms)
        blocks += dit.single * (attention + mlp + norms)
    else:
        looks = 2 if dit.cross_attention else 1
        blocks = model.layers * (looks * (attention + 2 * h) + mlp + 2 * h * dit.cross_attention)
    return {
        "blocks": blocks,
        "modulation": _modulation(model, dit),
        "refiner": dit.refiner_blocks * (14 * h * h + 15 * h),
        "embedding": _embedding(model, dit),
    }


def _modulation(model: Architecture, dit: Dit) -> int:
    """The linear layers that turn the time step into shifts and scales."""
    h = model.hidden
    six, three = 6 * (h * h + h), 3 * (h * h + h)
    if dit.modulation == "shared":
        return six + model.layers * 6 * h
    if dit.modulation != "block":
        return model.layers * 2 * (int(dit.modulation) + 1) * 6 * h
    return dit.double * 2 * six + dit.single * three


def _embedding(model: Architecture, dit: Dit) -> int:
    """Of patches, time, text and guidance; and the last layer."""
    h, patch = model.hidden, dit.values_per_token
    time = _TIME * h + h + h * h + h
    text = dit.text_width * h + h
    if dit.cross_attention or dit.refiner_blocks:
        text += h * h + h
    pooled = dit.pooled_width * h + h * h + 2 * h if dit.pooled_width else 0
    last = h * patch + patch + (2 * h if dit.modulation == "shared" else 2 * h * h + 2 * h)
    refined = time + h * h if dit.refiner_blocks else 0
    return patch * h + h + time * (1 + dit.guidance_embedded) + text + pooled + last + refined


def _counted(name: str, value: int) -> Quantity:
    return Quantity(value, "", "", sources.COUNTED_BY_HAND, name=name)
