r"""How much work a pass of a whole model is, part by part; reached through `ml.flops`.

Matrix products only, a multiplication and an addition as two, as everywhere in `flops`. "projections" are the
linear layers around attention, "attention" the pairs of a query and a key, "mlp" and "experts" the rest of
the layers, "logits" the last matrix, "text" what a diffusion transformer does with the text alone.
"""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.architectures import Architecture, Dit
from mindlab.predict.layouts import pairs_up_to
from mindlab.predict.parameters import attention_matrices, mlp_matrices
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole

_TEXT = r"4\,u\,h^2\,L + R\,(24\,u\,h^2 + 4\,u^2\,h)"
"""u tokens of text: keys and values where it is only looked at (else 0); R blocks that it goes through."""


def prefill_terms(model: Architecture, sequence: int, batch: int = 1) -> dict[str, Quantity]:
    """FLOP of a prompt's pass by part: all positions at once, causal, and the logits of the last one.

    >>> terms = ml.flops.prefill_terms(ml.architecture("llama-3.1-8b"), 4096)
    >>> round(terms["attention"].value / sum(term.value for term in terms.values()), 3)
    0.071
    """
    check_whole(1, sequence=sequence, batch=batch)
    pairs = batch * pairs_up_to(sequence, sequence, 0)
    return _decoder(model, batch * sequence, pairs, batch, absorbed=False)


def decode_terms(model: Architecture, context: int, batch: int = 1) -> dict[str, Quantity]:
    """FLOP of one new token for each of `batch` requests, by part; each sees `context` positions.

    >>> terms = ml.flops.decode_terms(ml.architecture("llama-3.1-8b"), 4096)
    >>> round(sum(term.value for term in terms.values()) / 2 / 8.03e9, 2)  # 2 FLOP a parameter, and attention
    1.07
    """
    check_whole(1, context=context, batch=batch)
    return _decoder(model, batch, batch * context, batch, absorbed=True)


def dit_terms(model: Architecture, tokens: int, batch: int = 1) -> dict[str, Quantity]:
    """FLOP of ONE pass of a diffusion transformer over `tokens` positions, by part. A guided step has two.

    >>> terms = ml.flops.dit_terms(ml.architecture("wan2.1-14b"), 75_600)
    >>> f"{sum(term.value for term in terms.values()):.4g}"
    '6.523e+15'
    """
    check_whole(1, tokens=tokens, batch=batch)
    dit = model.dit
    if dit is None:
        raise ValueError(f"{model.name} is no diffusion transformer: ask for prefill_terms or decode_terms")
    h, layers = model.hidden, model.layers
    many = batch * tokens
    looks, text = (6, dit.text_tokens) if dit.cross_attention else (4, 0)
    pairs = batch * tokens * (tokens + text)
    return {
        "projections": _flop("projections", 2 * many * looks * h * h * layers, rf"{2 * looks}\,t\,h^2\,L"),
        "attention": _flop("attention", 4 * pairs * h * layers, r"4\,t\,(t+t_{\mathrm{text}})\,h\,L"),
        "mlp": _flop("mlp", 4 * many * h * model.inner * layers, r"4\,t\,h\,i\,L"),
        "text": _flop("text", 4 * batch * text * h * h * layers + _refined(model, dit, batch), _TEXT),
    }


def prefill(model: Architecture, sequence: int, batch: int = 1) -> Quantity:
    """FLOP of a prompt's pass: the sum of `prefill_terms`.

    >>> ml.flops.prefill(ml.architecture("llama-3.1-8b"), 4096)
    prefill: 61.59 TFLOP (61,586,801,295,360 FLOP)
    """
    return _sum("prefill", prefill_terms(model, sequence, batch))


def decode_step(model: Architecture, context: int, batch: int = 1) -> Quantity:
    """FLOP of one new token for each of `batch` requests: the sum of `decode_terms`.

    >>> ml.flops.decode_step(ml.architecture("llama-3.1-8b"), 4096)
    decode_step: 17.16 GFLOP (17,156,800,512 FLOP)
    """
    return _sum("decode_step", decode_terms(model, context, batch))


def dit_pass(model: Architecture, tokens: int, batch: int = 1) -> Quantity:
    """FLOP of ONE pass of a diffusion transformer: the sum of `dit_terms`.

    >>> f"{ml.flops.dit_pass(ml.architecture('flux.1-dev'), 4608).value:.3g}"
    '7.44e+13'
    """
    return _sum("dit_pass", dit_terms(model, tokens, batch))


def _sum(name: str, terms: dict[str, Quantity]) -> Quantity:
    parts = " + ".join(rf"F_{{\mathrm{{{part}}}}}" for part in terms)
    return _flop(name, sum(int(term.value) for term in terms.values()), parts)


def _refined(model: Architecture, dit: Dit, batch: int) -> int:
    """The blocks that only the text goes through."""
    h, tokens = model.hidden, dit.text_tokens
    each = 24 * tokens * h * h + 4 * tokens * tokens * h
    return batch * dit.refiner_blocks * each


def _decoder(
    model: Architecture, tokens: int, pairs: int, last: int, *, absorbed: bool
) -> dict[str, Quantity]:
    """By part, of so many tokens that see so many pairs; logits of `last` positions."""
    if model.kind != "decoder":
        raise ValueError(f"{model.name} is a diffusion transformer: ask for dit_terms")
    experts = model.experts
    dense = model.layers if experts is None else experts.dense_layers
    terms = {
        "projections": (
            2 * tokens * attention_matrices(model) * model.layers,
            r"2\,t\,n_{\mathrm{attention}}\,L",
        ),
        "attention": (
            2 * pairs * model.heads * _dims(model, absorbed) * model.layers,
            r"2\,m\,H\,(d_k+d_v)\,L",
        ),
        "mlp": (2 * tokens * mlp_matrices(model, model.inner) * dense, r"2\,t\,n_{\mathrm{mlp}}\,L"),
        "logits": (2 * last * model.hidden * model.vocabulary, r"2\,b\,h\,V"),
    }
    if experts is not None:
        each = mlp_matrices(model, experts.inner) * (experts.top_k + experts.shared)
        router = experts.count * model.hidden
        work = 2 * tokens * (each + router) * (model.layers - dense)
        terms["experts"] = (
            work,
            r"2\,t\,\left((k+k_{\mathrm{shared}})\,n_{\mathrm{expert}} + E\,h\right)\,L",
        )
    return {name: _flop(name, *term) for name, term in terms.items()}


def _dims(model: Architecture, absorbed: bool) -> int:
    """Width of a key plus that of a value. In decoding, latents are read as they lie in the cache."""
    one = model.latent
    if one is None:
        return 2 * model.head_dim
    if absorbed:
        return 2 * one.kv_rank + one.rope_dim
    return one.nope_dim + one.rope_dim + one.value_dim


def _flop(name: str, value: int, formula: str) -> Quantity:
    return Quantity(value, "FLOP", formula, sources.COUNTED_BY_HAND, name=name)
