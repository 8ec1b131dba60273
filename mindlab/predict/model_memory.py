r"""What a card holds while a whole model serves: weights, cache, activations, workspace, communicators.

Inference: activations live for one layer only, no gradients, no optimizer. Reached through `ml.memory`.
"""

from __future__ import annotations

from mindlab.predict import sources
from mindlab.predict.architectures import Architecture
from mindlab.predict.parameters import parameter_terms
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole

HCCL_BUFFER = 200 * 10**6
"""Bytes of each of the two buffers that a communicator keeps on a card: HCCL's default, HCCL_BUFFSIZE=200."""

_CUT_BY_TENSOR = ("attention", "mlp", "embedding", "logits", "shared experts", "blocks", "refiner")


def model_weights(
    model: Architecture, *, itemsize: int = 2, tensor: int = 1, pipeline: int = 1, expert: int = 1
) -> Quantity:
    r"""Bytes of weights on each card: layers over pipeline stages, each layer over tensor ranks.

    Experts lie on `expert` ranks, or are cut by tensor ranks where expert=1. Norms, routers and modulation
    are whole on every rank of a stage. The mean over the stages: the first has the embedding, the last the
    logits.

    >>> eight = ml.memory.model_weights(ml.architecture("llama-3.1-70b"), tensor=8)
    >>> round(eight.value / 1e9, 2)
    17.64
    """
    check_whole(1, itemsize=itemsize, tensor=tensor, pipeline=pipeline, expert=expert)
    whole = 0.0
    for name, count in parameter_terms(model).items():
        cut = tensor if name in _CUT_BY_TENSOR else 1
        if name == "experts":
            cut = max(tensor, expert)
        whole += count / cut
    value = whole * itemsize / pipeline
    formula = r"\frac{e}{P}\left(n_{\mathrm{whole}} + \frac{n}{t} + \frac{n_{\mathrm{experts}}}{x}\right)"
    return Quantity(value, "B", formula, sources.COUNTED_BY_HAND, name="model_weights")


def model_terms(
    model: Architecture,
    *,
    tokens: int,
    batch: int = 1,
    generated: int = 0,
    itemsize: int = 2,
    tensor: int = 1,
    pipeline: int = 1,
    expert: int = 1,
    context: int = 1,
    sequence_parallel: bool = False,
    communicators: int = 0,
    buffer: int = HCCL_BUFFER,
) -> dict[str, Quantity]:
    r"""Bytes on a card by what they are for: weights, kv_cache, activations, workspace, communicators.

    `tokens` is the length of a sequence, which `context` ranks share (Ulysses, ring, or a cache by position);
    `batch` sequences have a cache, one is computed at a time. `generated` tokens come to each. Between layers
    a rank of a tensor group holds all hidden features of its tokens, or with `sequence_parallel` 1/t of them.

    >>> terms = ml.memory.model_terms(ml.architecture("llama-3.1-8b"), tokens=4096, batch=16)
    >>> {name: f"{term.value / 1e9:.2f} GB" for name, term in terms.items() if term.value}
    {'weights': '16.06 GB', 'kv_cache': '8.59 GB', 'activations': '0.35 GB', 'workspace': '0.03 GB'}
    """
    check_whole(1, tokens=tokens, batch=batch, context=context)
    check_whole(0, generated=generated, communicators=communicators, buffer=buffer)
    own = -(-tokens // context)
    between = tensor if sequence_parallel else 1
    spread = {"tensor": tensor, "pipeline": pipeline, "expert": expert}
    return {
        "weights": model_weights(model, itemsize=itemsize, **spread),
        "kv_cache": _cache(model, -(-(tokens + generated) // context), batch, itemsize, tensor, pipeline),
        "activations": _activations(model, own, itemsize, tensor, between),
        "workspace": _workspace(model, own, batch, tensor),
        "communicators": _bytes("communicators", 2 * buffer * communicators, r"2\,n\,B"),
    }


def _cache(model: Architecture, own: int, batch: int, itemsize: int, tensor: int, pipeline: int) -> Quantity:
    if model.kind != "decoder":
        return _bytes("kv_cache", 0, "0")
    heads = 1 if model.latent is not None else min(tensor, model.kv_heads)
    each = model.kv_bytes_per_token(itemsize)
    value = batch * own * each.value / heads / pipeline
    return _bytes("kv_cache", value, r"b\,\frac{s}{c}\,\frac{2\,L\,K\,d\,e}{t'\,P}")


def _activations(model: Architecture, own: int, itemsize: int, tensor: int, between: int) -> Quantity:
    """What is alive at once in the widest layer: its input and output, and the larger of its two halves."""
    heads = (2 * model.heads + 2 * model.kv_heads) * model.head_dim
    inner, experts = model.inner, model.experts
    if experts is not None and not experts.dense_layers:
        inner = experts.inner * experts.top_k
    mlp = (3 if model.gated else 2) * inner
    dit = model.dit
    both = dit is not None and dit.single > 0
    half = heads + mlp if both else max(heads, mlp)
    value = own * itemsize * (2 * model.hidden / between + half / tensor)
    formula = r"\frac{s}{c}\left(2h + \frac{\max(2(H+K)d,\ n\,i)}{t}\right)e"
    return _bytes("activations", value, formula)


def _workspace(model: Architecture, own: int, batch: int, tensor: int) -> Quantity:
    """In float32: logits of one position a request, and the numbers that attention keeps a query and head."""
    logits = batch * model.vocabulary * 4 / tensor
    statistics = own * model.heads * 8 / tensor
    wide = own * model.hidden * 4 if model.kind == "dit" else 0
    formula = r"\frac{4\,b\,V + 8\,\frac{s}{c}\,H}{t}"
    return _bytes("workspace", logits + statistics + wide, formula)


def _bytes(name: str, value: float, formula: str) -> Quantity:
    whole = int(value) if value == int(value) else value
    return Quantity(whole, "B", formula, sources.COUNTED_BY_HAND, name=name)
