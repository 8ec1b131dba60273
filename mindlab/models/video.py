"""A tiny video decoder: latents (B, 4, frames, height, width) to frames, twice as many and twice as large.

As video autoencoders are built, its convolutions are causal in time: a frame depends on earlier ones alone,
the first frame standing for those before it. Its weights are drawn, not trained: it is for comparing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalConv3d(nn.Module):
    """A convolution of 3 x 3 x 3 that looks at this frame and the two before: (B, outputs, T, H, W)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 3, padding=(0, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, outputs, T, H, W) from x (B, inputs, T, H, W)."""
        out: Tensor = self.conv(F.pad(x, (0, 0, 0, 0, 2, 0), mode="replicate"))
        return out


def video_decoder(channels: int = 8, *, norm: bool = True, seed: int = 0) -> nn.Sequential:
    """The decoder, (B, 3, 2 T, 2 H, 2 W) from latents (B, 4, T, H, W).

    The same `seed`, the same weights, with a norm or without one.

    >>> video_decoder()(torch.zeros(1, 4, 2, 3, 5)).shape
    torch.Size([1, 3, 4, 6, 10])
    """
    norms = [nn.GroupNorm(2, channels)] if norm else []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            CausalConv3d(4, channels),
            *norms,
            nn.SiLU(),
            nn.Upsample(scale_factor=2),
            CausalConv3d(channels, channels),
            nn.SiLU(),
            CausalConv3d(channels, 3),
        )
