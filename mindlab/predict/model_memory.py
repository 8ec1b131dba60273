r"""What a card holds while a whole model serves: weights, cache, activations, workspace, communicators.

Inference: activations live for one layer only, no gradients, no optimizer. Reached through `ml.memory`.
"""

from __future__ import annotations

from fractions import Fraction

from mindlab.predict import sources
from mindlab.predict.architectures import Architecture
from mindlab.predict.quantity import Quantity, exact, mean
from mindlab.predict.shapes import check_whole
from mindlab.predict.stage_parameters import stage_terms

HCCL_BUFFER = 200 * 10**6
"""Bytes of each of the two buffers that a communicator keeps on a card: HCCL's default, HCCL_BUFFSIZE=200."""

_CUT_BY_TENSOR = ("attention", "mlp", "embedding", "logits", "shared experts", "blocks", "refiner")


def model_weights(
    model: Architecture, *, itemsize: int = 2, tensor: int = 1, pipeline: int = 1, expert: int = 1
) -> Quantity:
    r"""Bytes of weights on each card: layers over pipeline stages, each layer over tensor ranks.

    Experts are cut by the larger of `expert` and `tensor`: dealt out, or each cut. Norms, routers and
    modulation are whole on every rank of a stage. With more stages than one, `per_rank` is each stage's: the
    first has the embedding, the last the logits, and `value` is the mean. Raises ValueError for more stages
    than layers, and for experts where there are none.

    >>> eight = ml.memory.model_weights(ml.architecture("llama-3.1-70b"), tensor=8)
    >>> round(eight.value / 1e9, 2)
    17.64
    >>> four = ml.memory.model_weights(ml.architecture("llama-3.1-8b"), pipeline=4)
    >>> [round(held / 1e9, 2) for held in four.per_rank]
    [4.54, 3.49, 3.49, 4.54]
    """
    check_whole(1, itemsize=itemsize, tensor=tensor, pipeline=pipeline, expert=expert)
    _check_spread(model, pipeline, expert)
    stages = [
        exact(itemsize * sum((n / _cut(name, tensor, expert) for name, n in terms.items()), Fraction(0)))
        for terms in stage_terms(model, pipeline)
    ]
    whole = r"n_{\mathrm{whole}} + \frac{n}{t} + \frac{n_{\mathrm{experts}}}{\max(t,\,x)}"
    by_stage = tuple(stages) if pipeline > 1 else None
    return Quantity(
        mean(stages),
        "B",
        rf"\frac{{e}}{{P}}\left({whole}\right)",
        sources.COUNTED_BY_HAND,
        by_stage,
        "model_weights",
    )


def _cut(name: str, tensor: int, expert: int) -> int:
    """Over how many ranks a part is spread."""
    if name == "experts":
        return max(tensor, expert)
    return tensor if name in _CUT_BY_TENSOR else 1


def _check_spread(model: Architecture, pipeline: int, expert: int) -> None:
    if pipeline > model.layers:
        raise ValueError(
            f"pipeline={pipeline} stages for {model.layers} layers: choose {model.layers} or fewer"
        )
    if model.experts is None and expert > 1:
        raise ValueError(f"expert={expert}: {model.name} has no experts to deal out; give 1")
    count = 1 if model.experts is None else model.experts.count
    if expert > count:
        raise ValueError(
            f"expert={expert}: {model.name} has {count} experts a layer; choose {count} or fewer"
        )


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
    HCCL's own buffers count 2 `buffer` for each of `communicators`; torch's meter does not see them.

    >>> terms = ml.memory.model_terms(ml.architecture("llama-3.1-8b"), tokens=4096, batch=16)
    >>> {name: f"{term.value / 1e9:.2f} GB" for name, term in terms.items() if term.value}
    {'weights': '16.06 GB', 'kv_cache': '8.59 GB', 'activations': '0.35 GB', 'workspace': '0.03 GB'}
    """
    check_whole(1, tokens=tokens, batch=batch, context=context)
    check_whole(0, generated=generated, communicators=communicators, buffer=buffer)
    if generated and model.kind == "dit":
        raise ValueError(f"generated={generated}: {model.name} writes no tokens; leave it 0")
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
    """What is alive at once in the widest layer: its input and output, and the larger of its two halves.

    n is 3 for a gated MLP, else 2; in single blocks of a diffusion transformer both halves are alive.
    """
    inner, experts = model.inner, model.experts
    if experts is not None:
        routed = experts.inner * (experts.top_k + experts.shared)
        inner = max(routed, model.inner) if experts.dense_layers else routed
    attention, mlp = _attention_width(model), (3 if model.gated else 2) * inner
    both = model.dit is not None and model.dit.single > 0
    half = attention + mlp if both else max(attention, mlp)
    value = own * itemsize * (2 * model.hidden / between + half / tensor)
    join = r"a + n\,i" if both else r"\max(a,\ n\,i)"
    return _bytes(
        "activations", value, rf"\frac{{s}}{{c}}\left(\frac{{2h}}{{t'}} + \frac{{{join}}}{{t}}\right)e"
    )


def _attention_width(model: Architecture) -> int:
    """a: numbers a token in queries, keys, values and results of all heads."""
    if model.latent is None:
        return 2 * (model.heads + model.kv_heads) * model.head_dim
    one = model.latent
    return 2 * model.heads * (one.nope_dim + one.rope_dim + one.value_dim)


def _workspace(model: Architecture, own: int, batch: int, tensor: int) -> Quantity:
    """In float32: the numbers that attention keeps a query and head, and what comes out of the last norm.

    Of a decoder the logits of one position a request, of a diffusion transformer its hidden features.
    """
    statistics = own * model.heads * 8 / tensor
    if model.kind == "dit":
        wide = 4 * own * model.hidden
        return _bytes("workspace", statistics + wide, r"\frac{s}{c}\left(\frac{8\,H}{t} + 4\,h\right)")
    logits = batch * model.vocabulary * 4 / tensor
    return _bytes("workspace", logits + statistics, r"\frac{4\,b\,V + 8\,\frac{s}{c}\,H}{t}")


def _bytes(name: str, value: float, formula: str) -> Quantity:
    whole = int(value) if value == int(value) else value
    return Quantity(whole, "B", formula, sources.COUNTED_BY_HAND, name=name)
