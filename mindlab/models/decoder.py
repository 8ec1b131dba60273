"""A small language model: a causal transformer, and generation with a cache of keys and values.

Its tokens are those of `tokens`, so every text can be a prompt. There are fewer heads of keys and values than
of queries. ids are (B, S), logits (B, S, vocabulary).

The model knows one text of 18 KB, on parallel inference, half Chinese and half English, nearly by heart, and
nothing else. `python -m mindlab.models.train decoder` makes the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from mindlab.models.layers import Block
from mindlab.models.tokens import decode, encode, vocabulary
from mindlab.models.weights import load_weights, shipped
from mindlab.parallel.attention import attention_with_lse
from mindlab.predict.shapes import check_whole


@dataclass
class Cache:
    """Keys and values of all tokens so far, (B, length, kv_heads, head_dim) a block; empty at first."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How many tokens of each sequence are in it."""
        return self.keys[0].shape[1] if self.keys else 0

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a block, after these new ones (B, new, kv_heads, head_dim) were appended."""
        if layer == len(self.keys):
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], k], 1)
            self.values[layer] = torch.cat([self.values[layer], v], 1)
        return self.keys[layer], self.values[layer]


class Decoder(nn.Module):
    """Logits (B, S, vocabulary) of the next token, from ids (B, S); row i has seen the ids up to i.

    Plain pre-norm blocks between `embed` and `read`, so that stages, shards and experts can take their place.
    `context` is the longest sequence. Raises ValueError on ids that are longer, or no tokens.

    >>> Decoder()(torch.zeros(1, 5, dtype=torch.int64)).shape
    torch.Size([1, 5, 768])
    """

    def __init__(
        self,
        hidden: int = 64,
        heads: int = 4,
        kv_heads: int = 2,
        layers: int = 4,
        *,
        inner: int | None = None,
        context: int = 128,
    ) -> None:
        super().__init__()
        check_whole(1, layers=layers, context=context)
        self.context = context
        self.embedding = nn.Embedding(vocabulary(), hidden)
        self.positions = nn.Parameter(torch.randn(context, hidden) * 0.02)
        self.blocks = nn.ModuleList(Block(hidden, heads, kv_heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.logits = nn.Linear(hidden, vocabulary())

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """(B, S, hidden) from ids (B, S), the first of which stands at position `start`."""
        check_ids(ids, start, self.context)
        embedded: Tensor = self.embedding(ids) + self.positions[start : start + ids.shape[1]]
        return embedded

    def read(self, x: Tensor) -> Tensor:
        """Logits (B, S, vocabulary) from the last block's output (B, S, hidden)."""
        logits: Tensor = self.logits(self.norm(x))
        return logits

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """(B, S, vocabulary) from ids (B, S). ids follow what is in the cache, which is extended."""
        if cache is None:
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x)
            return self.read(x)
        x = self.embed(ids, start=cache.length)
        for layer, block in enumerate(self.blocks):
            x = cached_block(cast(Block, block), x, cache, layer)
        return self.read(x)


def cached_block(block: Block, x: Tensor, cache: Cache, layer: int) -> Tensor:
    """The block's output (B, new, hidden) for the new tokens x, the earlier ones read from the cache."""
    q, k, v = block.attention.qkv(block.norm1(x))
    # causal is aligned at the end: the last new token sees all keys, the first one all but the other new ones
    out, _ = attention_with_lse(q, *cache.extend(layer, k, v), causal=True)
    return after_attention(block, x, out)


def after_attention(block: Block, x: Tensor, out: Tensor) -> Tensor:
    """The block's output (B, S, hidden) from its input x and its heads' attention (B, S, heads, head_dim)."""
    attended: Tensor = block.attention.o(out.flatten(2))
    before = x if block.parallel else x + attended
    after: Tensor = block.mlp(block.norm2(before))
    return x + attended + after


def load_decoder() -> Decoder:
    """The trained model that ships, float32, on the CPU.

    >>> load_decoder().context
    128
    """
    model = Decoder()
    load_weights(model, shipped("decoder"))
    return model


def generate(
    model: nn.Module,
    prompt: str,
    tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    cached: bool = True,
) -> str:
    """The continuation of `prompt` by `tokens` tokens, without the prompt.

    `temperature` 0 takes the likeliest token each time; above, one is drawn, the same for the same seed.
    `cached=False` computes every earlier token anew for each new one: the same text, more work. Raises
    ValueError where prompt and tokens exceed the model's context.

    >>> generate(load_decoder(), "张量并行", 4)
    '（Tensor P'
    """
    ids = encode(prompt)
    longer = continued(model, ids, tokens, temperature=temperature, seed=seed, cached=cached)
    return decode(longer[0, ids.shape[1] :])


@torch.no_grad()
def continued(
    model: nn.Module,
    ids: Tensor,
    tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    cached: bool = True,
) -> Tensor:
    """ids (B, S + tokens) from ids (B, S): the prompts and what follows. See `generate`.

    `model` is a Decoder, or one that is called in the same way.
    """
    check_whole(0, tokens=tokens)
    if not ids.shape[1]:
        raise ValueError("the prompt is empty: give one character at least")
    if not temperature >= 0:
        raise ValueError(f"temperature={temperature}: give 0 for the likeliest token, or a number above 0")
    generator = torch.Generator().manual_seed(seed)
    cache, new = Cache() if cached else None, ids
    for _ in range(tokens):
        logits = model(new, cache) if cached else model(ids)
        following = chosen(logits[:, -1], temperature, generator)
        new, ids = following, torch.cat([ids, following], 1)
    return ids


def chosen(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """One id for each row of logits (B, vocabulary), as (B, 1)."""
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    shares = (logits.float().cpu() / temperature).softmax(-1)
    return torch.multinomial(shares, 1, generator=generator).to(logits.device)


def check_ids(ids: Tensor, start: int, context: int) -> None:
    """Raises ValueError if these are no ids, or their positions lie behind the context."""
    if ids.ndim != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"ids {tuple(ids.shape)} of {ids.dtype}: give whole numbers, (batch, sequence)")
    if start + ids.shape[1] > context:
        raise ValueError(
            f"{start + ids.shape[1]} tokens do not fit a context of {context}: shorten the prompt, or "
            f"generate less"
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary():
        raise ValueError(
            f"ids from {int(ids.min())} to {int(ids.max())}: tokens lie between 0 and {vocabulary() - 1}"
        )
