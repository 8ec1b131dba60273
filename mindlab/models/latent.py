"""Multi-latent attention: all heads share one short latent a token, and that is all the cache keeps.

DeepSeek-AI 2024 (DeepSeek-V2), section 2.1, without its norms and without the compression of queries:

    c = x W_c            the latent, d_c numbers, from which each head makes its keys and values
    r = rope(x W_r)      a key of d_r numbers with its position, one for all heads
    head h               query [q_h | rope(q'_h)], key [c K_h | r], value c V_h

Absorbed form: q_h · (c K_h) = (q_h K_hᵀ) · c, so the query is turned instead of the keys, and attention runs
on the cache as it is: every head's query [q_h K_hᵀ | rope(q'_h)] against one key [c | r], whose first d_c
numbers are the value too. V_h is applied to the result: once a head, not once a token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mindlab.parallel.attention import attention_with_lse
from mindlab.predict.heads import head_size
from mindlab.predict.shapes import check_whole


class LatentAttention(nn.Module):
    """Causal self-attention with a latent cache; in and out (B, S, hidden).

    `latent` is d_c, `rope` d_r (even). A token's cache entry is d_c + d_r numbers, however many heads.

    >>> LatentAttention(32, heads=4, latent=12, rope=4)(torch.ones(2, 3, 32)).shape
    torch.Size([2, 3, 32])
    """

    def __init__(
        self, hidden: int, heads: int, latent: int, rope: int, *, head_dim: int | None = None
    ) -> None:
        super().__init__()
        head_dim = head_size(hidden, heads) if head_dim is None else head_dim
        check_whole(1, heads=heads, latent=latent, rope=rope, head_dim=head_dim)
        if rope % 2:
            raise ValueError(f"rope={rope}: positions turn pairs of numbers, give an even number")
        self.heads, self.latent, self.rope = heads, latent, rope
        self.head_dim = head_dim
        self.scale = (self.head_dim + rope) ** -0.5
        self.q = nn.Linear(hidden, heads * (self.head_dim + rope))
        self.compress = nn.Linear(hidden, latent + rope)
        self.keys = nn.Parameter(torch.randn(heads, latent, self.head_dim) * latent**-0.5)
        self.values = nn.Parameter(torch.randn(heads, latent, self.head_dim) * latent**-0.5)
        self.o = nn.Linear(heads * self.head_dim, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, hidden) from (B, S, hidden), with each head's keys and values made: the form for prefill."""
        at = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        entry = self.entry(x, at)
        c, r = entry[..., : self.latent], entry[..., self.latent :]
        k = torch.cat([torch.einsum("bsuc,hcd->bshd", c, self.keys), r.expand(-1, -1, self.heads, -1)], -1)
        v = torch.einsum("bsuc,hcd->bshd", c, self.values)
        out, _ = attention_with_lse(torch.cat(self._query(x, at), -1), k, v, causal=True, scale=self.scale)
        attended: Tensor = self.o(out.flatten(2))
        return attended

    def entry(self, x: Tensor, at: Tensor) -> Tensor:
        """What the cache keeps of tokens x (B, S, hidden) at positions `at` (B, S): (B, S, 1, d_c + d_r)."""
        c, r = self.compress(x).split([self.latent, self.rope], -1)
        return torch.cat([c, turned(r, at)], -1).unsqueeze(2)

    def absorbed_query(self, x: Tensor, at: Tensor) -> Tensor:
        """Queries for cache entries, (B, S, heads, d_c + d_r)."""
        q, turning = self._query(x, at)
        return torch.cat([torch.einsum("bshd,hcd->bshc", q, self.keys), turning], -1)

    def head_values(self, out: Tensor) -> Tensor:
        """Each head's values (B, S, heads, head_dim) from its mean latent (B, S, heads, d_c)."""
        return torch.einsum("bshc,hcd->bshd", out, self.values)

    def _query(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        q, turning = self.q(x).unflatten(-1, (self.heads, -1)).split([self.head_dim, self.rope], -1)
        return q, turned(turning, at.unsqueeze(-1))


def absorbed_attention(layer: LatentAttention, x: Tensor) -> Tensor:
    """What layer(x) gives, with attention on the cache entries themselves: no head's keys are made.

    >>> layer, x = LatentAttention(32, heads=4, latent=12, rope=4), torch.randn(2, 5, 32)
    >>> torch.allclose(absorbed_attention(layer, x), layer(x), atol=1e-5)
    True
    """
    at = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    entry = layer.entry(x, at)
    q, latents = layer.absorbed_query(x, at), entry[..., : layer.latent]
    out, _ = attention_with_lse(q, entry, latents, causal=True, scale=layer.scale)
    attended: Tensor = layer.o(layer.head_values(out).flatten(2))
    return attended


def turned(x: Tensor, at: Tensor) -> Tensor:
    """x (…, d), each pair of its numbers turned by an angle that grows with the position `at` (…).

    Pair i (numbers i and i + d/2) turns by at · 10000 ** (-2i/d). Su et al. 2021 (RoFormer), section 3.2.2.

    >>> turned(torch.tensor([1.0, 0.0]), torch.tensor(0)).tolist()
    [1.0, 0.0]
    """
    half = x.shape[-1] // 2
    speed = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = at.unsqueeze(-1).float() * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
