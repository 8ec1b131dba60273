r"""How many numbers a model holds, part by part; reached through `Architecture.parameters`.

Weights and biases of every linear layer and norm. Tables that are computed, not learned, do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindlab.predict import sources
from mindlab.predict.dit_parameters import dit_parameter_terms
from mindlab.predict.quantity import Quantity

if TYPE_CHECKING:
    from mindlab.predict.architectures import Architecture


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
    return _decoder(model) if model.dit is None else dit_parameter_terms(model, model.dit)


def attention_parameters(model: Architecture) -> int:
    """Of one layer's attention."""
    h, d = model.hidden, model.head_dim
    if model.latent is not None:
        return _latent(model)
    q, kv = model.heads * d, model.kv_heads * d
    biases = model.qkv_bias * (q + 2 * kv) + model.output_bias * h
    return h * (q + 2 * kv) + q * h + biases + model.qk_norm * 2 * d


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


def _counted(name: str, value: int) -> Quantity:
    return Quantity(value, "", "", sources.COUNTED_BY_HAND, name=name)
