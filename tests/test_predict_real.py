"""Volumes of the four strategies against real ranks: what the formula says is what the sockets saw."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.collectives import ring_all_gather
from mindlab.models.layers import MLP, Block
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.sequence import SequenceParallelBlock, library_reduce_scatter
from mindlab.parallel.shards import split_sequence
from mindlab.parallel.tensor import ParallelBlock, ParallelMLP
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.predict import layouts, volume
from mindlab.predict.quantity import Quantity

B, S, HIDDEN, HEADS, DIM = 2, 10, 24, 12, 4
KV = {3: 6, 4: 2}  # with 4 ranks each key-value head is copied


def forward(name: str) -> None:
    """In a rank: one strategy, once, on a sequence that ranks do not divide."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    layout = "zigzag" if name == "zigzag" else "contiguous"
    sizes = layouts.lengths(S, ranks, layout)
    x, *qkv = (
        torch.ones(B, S, *shape) for shape in ((HIDDEN,), (HEADS, DIM), (KV[ranks], DIM), (KV[ranks], DIM))
    )
    mine = [split_sequence(t, ranks, layout=layout)[rank] for t in (x, *qkv)]
    if name == "mlp":
        ParallelMLP.from_full(MLP(HIDDEN, 7))(x)
    elif name == "block":
        ParallelBlock.from_full(Block(HIDDEN, HEADS))(x)
    elif name == "sequence":
        SequenceParallelBlock.from_full(Block(HIDDEN, HEADS))(mine[0], sizes=sizes)
    elif name == "library":
        gloo = SequenceParallelBlock.from_full(Block(HIDDEN, HEADS), reduce_scatter=library_reduce_scatter)
        gloo(mine[0], sizes=sizes)
    elif name == "ulysses":
        ulysses_attention(*mine[1:], sizes=sizes)
    else:
        ring_attention(*mine[1:], causal=name == "zigzag", layout=layout, sizes=sizes)


def predicted(name: str, ranks: int) -> tuple[Quantity, Quantity | None]:
    """What each rank sends, and what it receives where a formula says so."""
    gqa, e = KV[ranks], {"itemsize": 4}
    layout = {"layout": "zigzag"} if name == "zigzag" else {}
    return {
        "mlp": lambda: (volume.gloo_tensor_parallel(B * S, HIDDEN, ranks, **e, all_reduces=1), None),
        "block": lambda: (volume.gloo_tensor_parallel(B * S, HIDDEN, ranks, **e), None),
        "sequence": lambda: (volume.sequence_parallel(B, S, HIDDEN, ranks, **e), None),
        "library": lambda: (volume.gloo_sequence_parallel(B, S, HIDDEN, ranks, **e), None),
        "ulysses": lambda: (
            volume.ulysses_attention(B, S, HEADS, gqa, DIM, ranks, **e),
            volume.ulysses_attention_received(B, S, HEADS, gqa, DIM, ranks, **e),
        ),
    }.get(
        name,
        lambda: (
            volume.ring_attention(B, S, gqa, DIM, ranks, **e, **layout),
            volume.ring_attention_received(B, S, gqa, DIM, ranks, **e, **layout),
        ),
    )()


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("name", ["mlp", "block", "sequence", "library", "ring", "zigzag", "ulysses"])
def test_real_ranks_send_what_the_formula_says(name: str, ranks: int) -> None:
    """Would catch one byte between formula and wire, on any rank, sent or received."""
    run = ml.launch(forward, name, ranks=ranks)
    sent, received = predicted(name, ranks)
    if run.wire is None or run.wire.payload is None:
        pytest.skip(run.why_no_wire or "the payload cannot be told")
    assert run.wire.payload.sum(axis=1).tolist() == list(sent.by_rank(ranks))
    if received is not None:
        assert run.wire.payload.sum(axis=0).tolist() == list(received.by_rank(ranks))


@pytest.mark.parametrize("ranks", [3, 4])
def test_gloo_sums_shards_of_unequal_lengths_one_by_one(ranks: int) -> None:
    """Would catch one sum of everything in their place: of 7-wide rows, gloo cuts each shard elsewhere."""

    def pair() -> None:
        sizes = layouts.lengths(10, ranks)
        ring_all_gather(torch.ones(sizes[dist.get_rank()], 7), sizes=sizes)
        library_reduce_scatter(torch.ones(10, 7), sizes=sizes)

    run = ml.launch(pair, ranks=ranks)
    if run.wire is None or run.wire.payload is None:
        pytest.skip(run.why_no_wire or "the payload cannot be told")
    sent = volume.gloo_sequence_parallel(1, 10, 7, ranks, itemsize=4, pairs=1)
    assert len(set(sent.by_rank(ranks))) > 1
    assert run.wire.payload.sum(axis=1).tolist() == list(sent.by_rank(ranks))
