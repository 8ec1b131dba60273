"""A decoder that generates text with its cache sharded by position: prefill, change of layout, decode.

    prefill       each rank has a piece of the prompt; ring attention or Ulysses; the first new token
    fill          the keys and values go to the ranks that hold their positions
    decode_step   the newest token of every request on every rank; each reads its shard of the cache

In the prefill the prompt is cut, so ranks share all the work. In a decode step only the reading of the cache
is shared: projections, MLP and logits are computed by every rank alike, unless the blocks are split over
heads on another axis of a mesh (`split_heads`). Positions are counted in the whole request, not in a shard.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mindlab.models.decoder import Decoder, after_attention
from mindlab.models.layers import Block
from mindlab.models.tokens import decode, encode
from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import decode_attention
from mindlab.parallel.linear import Group, place
from mindlab.parallel.relayout import to_cache
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.shards import sequence_sizes
from mindlab.parallel.stages import linear_weights
from mindlab.parallel.tensor import ParallelBlock
from mindlab.predict.shapes import check_whole
from mindlab.trace import recorder

Attend = Callable[..., Tensor]
"""ring_attention or ulysses_attention: attend(q, k, v, causal=, sizes=, group=) of shards in one piece."""
Kept = list[tuple[Tensor, Tensor]]
"""This rank's keys and values of a prompt, (1, S_r, kv_heads, head_dim) a layer."""


@torch.no_grad()
def generate_sharded(
    model: Decoder,
    prompts: Sequence[str],
    tokens: int,
    *,
    attend: Attend = ring_attention,
    block: int = 1,
    group: Group = None,
) -> list[str]:
    """The continuation of each prompt by `tokens` tokens, on every rank: the text of one card.

    Prompts are prefilled one after another, then decoded together. `attend` is the prefill's attention
    (Ulysses: where ranks divide the heads), `block` the cache's (`caches.holder`). Always the likeliest
    token. Raises ValueError where a prompt and its tokens exceed the model's context.

    >>> from mindlab.models.decoder import load_decoder
    >>> write = lambda: generate_sharded(load_decoder().requires_grad_(False), ["张量并行"], 4)
    >>> ml.launch(write, ranks=2).values
    [['（Tensor P'], ['（Tensor P']]
    """
    if isinstance(prompts, str):
        raise ValueError(f"prompts={prompts!r}: give a list of prompts, also for one")
    prompt_ids = [encode(prompt).to(model.positions.device) for prompt in prompts]
    capacity = _capacity(model, prompt_ids, tokens)
    if not tokens:
        return [""] * len(prompts)
    caches = new_caches(model, len(prompts), capacity, block=block, group=group)
    firsts = []
    for request, ids in enumerate(prompt_ids):
        first, kept = prefill(model, ids, attend=attend, group=group)
        fill(caches, request, kept, ids.shape[1])
        firsts.append(first)
    new = [torch.cat(firsts)]
    for _ in range(tokens - 1):
        new.append(decode_step(model, new[-1], caches)[:, -1].argmax(-1, keepdim=True))
    return [decode(ids) for ids in torch.cat(new, 1)]


@torch.no_grad()
def prefill(
    model: Decoder, ids: Tensor, *, attend: Attend = ring_attention, group: Group = None
) -> tuple[Tensor, Kept]:
    """The token (1, 1) after a prompt (1, S), on every rank, and this rank's keys and values of each layer.

    The prompt is cut into pieces, in the order of ranks. The rank with the last one reads the logits and
    broadcasts the token: 8 bytes.
    """
    rank, ranks = place(group)
    _check_prompt(ids)
    sizes = sequence_sizes(ids.shape[1], ranks)
    x = model.embed(torch.split(ids, sizes, 1)[rank], start=sum(sizes[:rank]))
    kept: Kept = []
    for block in map(as_block, model.blocks):
        state_linear(block, x)
        q, k, v = block.attention.qkv(block.norm1(x))
        kept.append((k, v))
        x = after_attention(block, x, attend(q, k, v, causal=True, sizes=sizes, group=group))
    last = max(other for other in range(ranks) if sizes[other])
    token = ids.new_empty(1, 1)
    if rank == last:
        state_linear(model.logits, x[:, -1:])
        token = model.read(x[:, -1:]).argmax(-1)
    dist.broadcast(token, dist.get_global_rank(group or _world(), last), group=group)
    return token, kept


@torch.no_grad()
def decode_step(model: Decoder, ids: Tensor, caches: Sequence[ShardedCache]) -> Tensor:
    """Logits (B, 1, vocabulary) after the newest tokens (B, 1), each stored on one rank."""
    at = caches[0].newest(ids)
    x = model.embedding(ids) + model.positions[at].unsqueeze(1)
    for block, cache in zip(map(as_block, model.blocks), caches, strict=True):
        state_linear(block, x)
        q, k, v = block.attention.qkv(block.norm1(x))
        cache.append(k, v)
        out = decode_attention(q, *cache.shard, lengths=cache.own, group=cache.group)
        x = after_attention(block, x, out)
    state_linear(model.logits, x)
    return model.read(x)


def fill(caches: Sequence[ShardedCache], request: int, kept: Kept, length: int) -> None:
    """Brings a prompt's keys and values to their ranks: two all-to-alls a layer."""
    for cache, tensors in zip(caches, kept, strict=True):
        own = [to_cache(x, length, block=cache.block, group=cache.group)[0] for x in tensors]
        cache.fill(request, length, *own)


def new_caches(
    model: Decoder, batch: int, capacity: int, *, block: int = 1, group: Group = None
) -> list[ShardedCache]:
    """An empty cache for each block of the model, of its key-value heads, for requests up to `capacity`."""
    made = []
    for attention in (as_block(block).attention for block in model.blocks):
        dims = (attention.head_dim, attention.head_dim)
        dtype = attention.k.weight.dtype
        made.append(
            ShardedCache(batch, capacity, attention.kv_heads, dims, block=block, dtype=dtype, group=group)
        )
    return made


def split_heads(model: Decoder, group: Group = None) -> Decoder:
    """The model with its blocks split over heads (`ParallelBlock`): for the other axis of a mesh.

    Embedding, norm and logits stay whole on every rank. The given model is not changed.
    """
    split = copy.deepcopy(model)
    split.blocks = nn.ModuleList(ParallelBlock.from_full(as_block(block), group) for block in model.blocks)
    return split


def _check_prompt(ids: Tensor) -> None:
    if ids.ndim != 2 or len(ids) != 1 or not ids.shape[1]:
        raise ValueError(f"ids {tuple(ids.shape)}: give one prompt of one token at least, (1, S)")


def as_block(block: nn.Module) -> Block:
    """The block itself: whole or split over heads, both have the parts that are used here."""
    return cast(Block, block)


def state_linear(part: nn.Module, x: Tensor) -> None:
    """Tell the record of the linear layers of `part` for x (B, S, hidden): their FLOP, their weights read.

    Layers that are split over heads tell of themselves.
    """
    weights = linear_weights(part)
    recorder.compute(2 * x.shape[0] * x.shape[1] * weights, nbytes=weights * x.element_size(), what="linear")


def _capacity(model: Decoder, prompts: Sequence[Tensor], tokens: int) -> int:
    """The longest request's tokens; raises ValueError for no or empty prompts, and above the context."""
    check_whole(0, tokens=tokens)
    lengths = [ids.shape[1] for ids in prompts]
    if not lengths or not min(lengths):
        raise ValueError(f"prompts of {lengths} tokens: give one prompt at least, of one token at least")
    # the last new token is read by nobody, and needs no place
    capacity = max(lengths) + max(0, tokens - 1)
    if capacity > model.context:
        raise ValueError(
            f"{capacity} tokens do not fit a context of {model.context}: shorten the prompts, or "
            "generate less"
        )
    return capacity


def _world() -> dist.ProcessGroup:
    world = dist.group.WORLD
    assert world is not None, "torch.distributed is not initialised"
    return world
