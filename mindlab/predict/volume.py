r"""How many bytes each rank sends: one function for each collective and algorithm, and for each strategy.

The collectives take `f(nbytes, ranks, *, itemsize=None)`. `nbytes` is D, the bytes of the FULL tensor: for an
all-gather the gathered result, for a reduce-scatter the tensor before it is scattered, for an all-to-all all
the blocks that one rank hands in. (One rank's share in its place makes every prediction p times too small.)
`value` is the closed form, in bytes sent per rank: the mean, where ranks differ. With `itemsize` (bytes of
one element, or of one row if the tensor is cut by rows) `per_rank` holds the exact whole bytes of every rank,
cut as `torch.tensor_split` cuts, which is what `mindlab.collectives` does.

The strategies (`tensor_parallel`, `sequence_parallel`, `ring_attention`, `ulysses_attention`) take the shapes
of a layer and say what its forward pass sends. There `itemsize` is always needed, and `per_rank` is given
where ranks differ; `by_rank(ranks)` works in both cases. `hybrid_attention` gives one
axis of its mesh, or both. The experts' (`expert_…`) take a routing table, for what they send depends on it.
Those of decoding (`decode_…`) say what one new token sends, and the change from a prefill's shards;
`guided_step` a step of a diffusion transformer on cfg x tensor x ring x ulysses.

Empty chunks are not sent. All ranks together receive what all ranks send: adding both counts every byte
twice. Names that start with `gloo_` say what gloo does, not what a textbook says.

`volume.rounds` has the same names: how many steps. `seconds` has those of the collectives: how long.

    >>> ml.volume.ring_all_reduce(1200, 4).value
    1800
    >>> ml.volume.ring_all_reduce(40, 4, itemsize=4).per_rank  # ten elements: chunks of 3, 3, 2, 2
    (56, 60, 64, 60)
    >>> ml.volume.ring_attention(1, 512, 2, 64, ranks=4, itemsize=4).value
    393216
"""

from __future__ import annotations

from mindlab.predict import rounds as rounds
from mindlab.predict.branches import cfg_parallel
from mindlab.predict.collectives import (
    bruck_all_to_all,
    direct_all_to_all,
    halving_doubling_all_reduce,
    mesh_all_gather,
    mesh_all_reduce,
    mesh_reduce_scatter,
    one_shot_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    root_all_gather,
    root_all_reduce,
    tree_broadcast,
    unchunked_ring_all_reduce,
)
from mindlab.predict.combined import guided_step
from mindlab.predict.decoding import (
    decode_attention,
    decode_attention_gathered,
    decode_attention_summed,
    decode_layout,
)
from mindlab.predict.experts import (
    expert_combine,
    expert_counts,
    expert_destinations,
    expert_dispatch,
    expert_dispatch_expected,
    expert_parallel,
    expert_weights,
)
from mindlab.predict.gloo import (
    gloo_all_gather,
    gloo_all_reduce,
    gloo_all_to_all,
    gloo_broadcast,
    gloo_gather,
    gloo_reduce,
    gloo_reduce_scatter,
    gloo_scatter,
)
from mindlab.predict.hybrid import hybrid_attention
from mindlab.predict.pipelines import pipeline, pipeline_decode
from mindlab.predict.strategies import (
    gloo_sequence_parallel,
    gloo_tensor_parallel,
    ring_attention,
    ring_attention_received,
    sequence_parallel,
    tensor_parallel,
    ulysses_attention,
    ulysses_attention_received,
)
from mindlab.predict.tiles import halo_exchange, halo_exchange_received, norm_statistics

__all__ = [
    "ring_reduce_scatter",
    "ring_all_gather",
    "ring_all_reduce",
    "halving_doubling_all_reduce",
    "tree_broadcast",
    "direct_all_to_all",
    "bruck_all_to_all",
    "unchunked_ring_all_reduce",
    "root_all_reduce",
    "root_all_gather",
    "mesh_reduce_scatter",
    "mesh_all_gather",
    "mesh_all_reduce",
    "one_shot_all_reduce",
    "gloo_all_reduce",
    "gloo_reduce_scatter",
    "gloo_all_gather",
    "gloo_all_to_all",
    "gloo_broadcast",
    "gloo_reduce",
    "gloo_gather",
    "gloo_scatter",
    "tensor_parallel",
    "gloo_tensor_parallel",
    "sequence_parallel",
    "gloo_sequence_parallel",
    "ring_attention",
    "ring_attention_received",
    "ulysses_attention",
    "ulysses_attention_received",
    "hybrid_attention",
    "expert_parallel",
    "expert_counts",
    "expert_dispatch",
    "expert_weights",
    "expert_combine",
    "expert_dispatch_expected",
    "expert_destinations",
    "cfg_parallel",
    "pipeline",
    "pipeline_decode",
    "decode_attention",
    "decode_attention_gathered",
    "decode_attention_summed",
    "decode_layout",
    "guided_step",
    "halo_exchange",
    "halo_exchange_received",
    "norm_statistics",
]
