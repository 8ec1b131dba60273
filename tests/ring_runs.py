"""What the tests of ring attention run on the ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from attention_data import qkv

import mindlab as ml
from mindlab.parallel.ring import ring_attention, travel
from mindlab.parallel.shards import sequence_sizes, split_sequence


class Case(NamedTuple):
    """One attention over `length` tokens."""

    length: int
    causal: bool = False
    layout: str = "contiguous"
    overlap: bool = True
    kv_heads: int = 2
    dtype: torch.dtype = torch.float32
    told: bool = True
    """Whether the ranks are given all lengths."""


def whole(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The tensors of one card."""
    return qkv(case.length, case.length, kv_heads=case.kv_heads, dtype=case.dtype, seed=case.length)


def shard_of(case: Case, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """This rank's shard of the ring attention."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    q, k, v = (split_sequence(x, ranks, layout=case.layout)[rank] for x in whole(case))
    sizes = sequence_sizes(case.length, ranks, layout=case.layout) if case.told else None
    return ring_attention(
        q, k, v, causal=case.causal, layout=case.layout, overlap=case.overlap, sizes=sizes, group=group
    )


def shards_of(cases: list[Case]) -> list[torch.Tensor]:
    """This rank's shards of many attentions, one after another."""
    return [shard_of(case) for case in cases]


def own_sizes(sizes: list[int], told: bool, causal: bool) -> torch.Tensor:
    """A contiguous sequence cut at will."""
    x = qkv(sum(sizes), sum(sizes), kv_heads=1)
    q, k, v = (x.split(sizes, 1)[dist.get_rank()] for x in x)
    return ring_attention(q, k, v, causal=causal, sizes=sizes if told else None)


def two_rings(members: list[list[int]], case: Case) -> torch.Tensor | None:
    """The ring of this rank's group, each group with a sequence of its own length; None outside them."""
    groups = [dist.new_group(ranks) for ranks in members]  # all ranks make all groups, in one order
    for number, (ranks, group) in enumerate(zip(members, groups, strict=True)):
        if dist.get_rank() in ranks:
            return shard_of(case._replace(length=case.length + 5 * number), group)
    return None


def held_beside(case: Case) -> int:
    """The most bytes that ring attention keeps alive at one time on this rank, beside what it was given."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    q, k, v = (split_sequence(x, ranks, layout=case.layout)[rank].contiguous() for x in whole(case))
    sizes = sequence_sizes(case.length, ranks, layout=case.layout)
    with ml.ExtraMemory() as extra:
        ring_attention(q, k, v, causal=case.causal, layout=case.layout, overlap=case.overlap, sizes=sizes)
    return extra.peak


def blocks_seen(sizes: list[int], overlap: bool, slow: int) -> list[Any]:
    """Whose blocks passed this rank, and what was in them when it was done with each; one rank dawdles."""
    import time

    rank, seen = dist.get_rank(), []
    k = torch.full((1, sizes[rank], 4, 64), float(rank))
    for source, keys, values in travel(k, k + 100, sizes, overlap=overlap):
        if rank == slow:
            time.sleep(0.05)
        seen.append((source, keys.shape[1], keys.unique().tolist(), values.unique().tolist()))
    return seen


def side_by_side(length: int, causal: bool, rotate: str) -> tuple[float, float] | str:
    """How far torch's own ring attention is from ours on this rank, and how large the result is."""
    import importlib

    name = "torch.distributed.tensor.experimental._context_parallel._attention"
    try:
        peer = importlib.import_module(name)
        options, ring = peer._cp_options, peer._templated_ring_attention
    except (ImportError, AttributeError) as error:
        return f"this version of torch has no such function: {error}"

    def kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> Any:
        ops: Any = vars(torch)["ops"]
        return ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)

    case = Case(length, causal, "zigzag" if causal else "contiguous", kv_heads=4)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    shards = [split_sequence(x, ranks, layout=case.layout)[rank].transpose(1, 2) for x in whole(case)]
    options.enable_load_balance = causal
    peer.set_rotate_method(rotate)
    group = dist.group.WORLD
    theirs = ring(group, 2, kernel, *shards, is_causal=causal)[0].transpose(1, 2)
    return float((shard_of(case) - theirs).abs().max()), float(theirs.abs().max())
