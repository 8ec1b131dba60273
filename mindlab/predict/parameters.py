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
    formula = r"n_{\mathrm{embedding}} + L\,n_{\mathrm{layer}} + n_{\mathrm{logits}}"
    return _counted("parameters", sum(parameter_terms(model).values()), formula)


def active_parameters(model: Architecture) -> Quantity:
    """Those that one token meets; all, where there are no experts."""
    terms = parameter_terms(model)
    experts = model.experts
    if experts is not None:
        terms["experts"] = terms["experts"] * experts.top_k // experts.count
    formula = r"n - \left(1 - \frac{k}{E}\right) n_{\mathrm{experts}}"
    return _counted("active_parameters", sum(terms.values()), formula if experts else "n")


def parameter_terms(model: Architecture) -> dict[str, int]:
    """By part: "attention", "mlp", "experts" (those that are chosen from), "embedding" and so on."""
    return _decoder(model) if model.dit is None else dit_parameter_terms(model, model.dit)


def attention_parameters(model: Architecture) -> int:
    """Of one layer's attention: matrices, biases, and norms inside."""
    matrices, one = attention_matrices(model), model.latent
    if one is not None:
        return matrices + one.q_rank + one.kv_rank
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    biases = (model.qkv_bias or model.bias) * (q + 2 * kv) + (model.output_bias or model.bias) * model.hidden
    return matrices + biases + model.qk_norm * 2 * model.head_dim


def attention_matrices(model: Architecture) -> int:
    """Of the matrices around one layer's attention: what a token is multiplied with."""
    h, heads, one = model.hidden, model.heads, model.latent
    if one is None:
        return 2 * h * (heads + model.kv_heads) * model.head_dim
    query = heads * (one.nope_dim + one.rope_dim)
    down = (h + query) * one.q_rank if one.q_rank else h * query
    kv = h * (one.kv_rank + one.rope_dim)
    up = one.kv_rank * heads * (one.nope_dim + one.value_dim)
    return down + kv + up + heads * one.value_dim * h


def mlp_matrices(model: Architecture, inner: int) -> int:
    """Of the matrices of one MLP."""
    return (3 if model.gated else 2) * model.hidden * inner


def mlp_parameters(model: Architecture, inner: int) -> int:
    """Of one MLP."""
    biases = (2 if model.gated else 1) * inner + model.hidden
    return mlp_matrices(model, inner) + model.bias * biases


def _decoder(model: Architecture) -> dict[str, int]:
    experts, h = model.experts, model.hidden
    dense = model.layers if experts is None else experts.dense_layers
    terms = {
        "attention": model.layers * attention_parameters(model),
        "mlp": dense * mlp_parameters(model, model.inner),
        "norms": (model.layers * 2 * h + h) * (2 if model.bias else 1),
        "embedding": (model.vocabulary + model.positions) * h,
        "logits": (0 if model.tied else model.vocabulary * h) + model.bias * model.vocabulary,
    }
    if experts is not None:
        sparse = model.layers - dense
        one = mlp_parameters(model, experts.inner)
        terms["experts"] = sparse * experts.count * one
        terms["shared experts"] = sparse * experts.shared * one
        terms["router"] = sparse * experts.count * (h + experts.bias)
    return terms


def _counted(name: str, value: int, formula: str) -> Quantity:
    return Quantity(value, "", formula, sources.COUNTED_BY_HAND, name=name)
