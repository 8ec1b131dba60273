"""The layers of a transformer on one card, in plain torch: what the strategies split and are compared with.

x is (batch, sequence, hidden) everywhere; attention's tensors are (batch, sequence, heads, head_dim).
Weights come from torch's own initialisation, so from its seed. Nothing here knows of ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from mindlab.parallel.attention import attention_with_lse
from mindlab.predict.heads import check_groups, head_size

Norm = Callable[[int], nn.Module]


class MLP(nn.Module):
    """Up to `inner` features, GeLU, down to `hidden`; in and out (…, hidden). The GeLU is the exact one.

    >>> MLP(8, 32)(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, hidden: int, inner: int, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, inner, bias=bias)
        self.down = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) from (…, hidden)."""
        out: torch.Tensor = self.down(F.gelu(self.up(x)))
        return out


class GatedMLP(nn.Module):
    """Up to `inner` features, times SiLU of a gate, down to `hidden`; in and out (…, hidden).

    Shazeer 2020, "GLU Variants Improve Transformer", section 2 (SwiGLU).

    >>> GatedMLP(8, 24)(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, hidden: int, inner: int, bias: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=bias)
        self.up = nn.Linear(hidden, inner, bias=bias)
        self.down = nn.Linear(inner, hidden, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) from (…, hidden)."""
        out: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Attention(nn.Module):
    """Self-attention; in and out (B, S, hidden).

    `kv_heads` (as many as heads unless given) must divide `heads`: query head i reads the keys and values of
    head i // (heads / kv_heads). `head_dim` is hidden / heads unless given. Raises ValueError where these do
    not divide.

    >>> Attention(32, heads=4, kv_heads=2)(torch.ones(2, 3, 32)).shape
    torch.Size([2, 3, 32])
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        bias: bool = True,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads or heads, causal
        self.head_dim = head_dim or head_size(hidden, heads)
        check_groups(heads, self.kv_heads)
        self.q = nn.Linear(hidden, heads * self.head_dim, bias=bias)
        self.k = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=bias)
        self.v = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=bias)
        self.o = nn.Linear(heads * self.head_dim, hidden, bias=bias)

    def qkv(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries (B, S, heads, head_dim), keys and values (B, S, kv_heads, head_dim)."""
        q, k, v = (layer(x).unflatten(-1, (-1, self.head_dim)) for layer in (self.q, self.k, self.v))
        return q, k, v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) from (B, S, hidden)."""
        out: torch.Tensor = self.o(attention_with_lse(*self.qkv(x), causal=self.causal)[0].flatten(2))
        return out


class Block(nn.Module):
    """A pre-norm transformer block: x + attention(norm1(x)), then that + mlp(norm2(it)); (B, S, hidden).

    `inner` is 4 hidden unless given. `norm` makes a norm from hidden: nn.LayerNorm or nn.RMSNorm; `mlp` is
    MLP or GatedMLP. `parallel=True` puts attention and MLP beside each other: x + attention(norm1(x)) +
    mlp(norm2(x)), the form of GPT-J and GPT-NeoX, whose two results can be summed before anything is sent.

    >>> Block(32, heads=4, norm=nn.RMSNorm)(torch.ones(2, 3, 32)).shape
    torch.Size([2, 3, 32])
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        kv_heads: int | None = None,
        inner: int | None = None,
        *,
        norm: Norm = nn.LayerNorm,
        mlp: type[MLP] | type[GatedMLP] = MLP,
        head_dim: int | None = None,
        bias: bool = True,
        causal: bool = True,
        parallel: bool = False,
    ) -> None:
        super().__init__()
        self.parallel = parallel
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.attention = Attention(hidden, heads, kv_heads, head_dim, bias=bias, causal=causal)
        self.mlp: nn.Module = mlp(hidden, inner or 4 * hidden, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, S, hidden) from (B, S, hidden)."""
        attended: torch.Tensor = self.attention(self.norm1(x))
        if self.parallel:
            beside: torch.Tensor = self.mlp(self.norm2(x))
            return x + (attended + beside)
        x = x + attended
        after: torch.Tensor = self.mlp(self.norm2(x))
        return x + after
