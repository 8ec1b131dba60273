r"""How many bytes each rank holds: weights, activations, KV cache, and attention while it runs.

Weights under tensor parallel (`ranks=1`: one card): `mlp_weights`, `attention_weights`, `block_weights` and
their parts. Activations that a layer keeps for a backward pass: `activations`, with each term by itself in
`activation_terms`. What ring and Ulysses attention hold while they run: `ring_attention_held`,
`ulysses_attention_held`, their parts in `…_terms`. A cache of keys and values cut by heads is `kv_cache`, one
cut by position `kv_cache_shard` or, of latents, `latent_cache`; a new token reads all of it.
`itemsize` is the bytes of one element. What a card holds of a whole model (`ml.architecture`) that serves:
`model_terms`, of which `model_weights` is one.

`value` is the mean where ranks differ; `per_rank` then holds each rank's whole bytes, and `by_rank(ranks)`
gives them either way. An allocator rounds up and keeps more than that: compare with bytes that are in use.

    >>> ml.memory.block_weights(4096, 32, ranks=8, itemsize=2)
    block_weights: 48.05 MiB (50,387,968 B)
    >>> ml.memory.kv_cache(1, 4096, 8, 128, itemsize=2, layers=32)
    kv_cache: 512 MiB (536,870,912 B)
"""

from __future__ import annotations

from mindlab.predict.activations import (
    activation_terms,
    activations,
    activations_full,
    activations_selective,
)
from mindlab.predict.decoding import kv_cache_shard, latent_cache
from mindlab.predict.held import (
    kv_cache,
    ring_attention_held,
    ring_attention_terms,
    ulysses_attention_held,
    ulysses_attention_terms,
)
from mindlab.predict.model_memory import model_terms, model_weights
from mindlab.predict.weights import (
    attention_weights,
    block_weights,
    column_weights,
    gated_mlp_weights,
    mlp_weights,
    row_weights,
    vocabulary_weights,
)

__all__ = [
    "column_weights",
    "row_weights",
    "mlp_weights",
    "gated_mlp_weights",
    "attention_weights",
    "block_weights",
    "vocabulary_weights",
    "activations",
    "activation_terms",
    "activations_selective",
    "activations_full",
    "kv_cache",
    "kv_cache_shard",
    "latent_cache",
    "ring_attention_held",
    "ring_attention_terms",
    "ulysses_attention_held",
    "ulysses_attention_terms",
    "model_weights",
    "model_terms",
]
