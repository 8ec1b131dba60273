"""From where to where a layer reads, along one dim: one small rule for each kind of layer."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

Span = tuple[int, int]
CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_POINTWISE = (
    *(nn.Identity, nn.ReLU, nn.SiLU, nn.GELU, nn.ELU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Hardtanh),
    *(nn.Dropout, nn.Softplus, nn.Mish),
)
_FUNCTIONS = {
    *(
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.neg,
        torch.add,
        torch.mul,
        torch.cat,
    ),
    *(F.silu, F.relu, F.gelu, F.leaky_relu, torch.tanh, torch.sigmoid, torch.clamp),
}
_METHODS = {"add", "mul", "clamp", "tanh", "sigmoid", "relu", "contiguous"}


@dataclass(frozen=True)
class Layer:
    """Along one dim: which span a layer reads, its factor on the length, its output's length."""

    reads: Callable[[int, int], Span]
    factor: Fraction = Fraction(1)
    length: Callable[[int], int] = lambda n: n


SAME = Layer(lambda low, high: (low, high))


def layer_of(module: nn.Module, axis: int, dims: int) -> Layer | None:
    """What one torch module does along a dim; None for one that is not known."""
    if isinstance(module, nn.Dropout) and module.training and module.p > 0:
        return None  # it draws other zeros on each tile
    if isinstance(module, (*_POINTWISE, nn.GroupNorm)):
        return SAME
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return None if module.training else SAME  # in training its statistics are of all pixels
    if getattr(module, "padding_mode", "") == "circular":
        return None  # it reads the other end of the picture
    if isinstance(module, TRANSPOSED):
        return _transposed(module, axis)
    if isinstance(module, CONVS):
        return _conv(module, axis)
    if isinstance(module, POOLS):
        k, stride, pad = (_of(x, axis) for x in (module.kernel_size, module.stride, module.padding))
        if getattr(module, "ceil_mode", False):
            return None
        return _window(k, stride, _of(getattr(module, "dilation", 1), axis), (pad, pad))
    if isinstance(module, nn.PixelShuffle) and dims == 2:
        return _nearest(module.upscale_factor)
    if isinstance(module, nn.PixelUnshuffle) and dims == 2:
        return _window(module.downscale_factor, module.downscale_factor, 1, (0, 0))
    if isinstance(module, nn.Upsample) and module.size is None and not module.align_corners:
        return _upsampled(_of(module.scale_factor, axis), module.mode)
    return None


def layer_of_function(node: fx.Node, axis: int, dims: int) -> Layer | None:
    """What a function in a forward pass does along a dim; None for one that is not known."""
    if node.op == "call_method":
        return SAME if node.target in _METHODS else None
    if node.target is F.pad and "circular" not in (*node.args, *node.kwargs.values()):
        sides: Sequence[int] = node.args[1] if len(node.args) > 1 else node.kwargs["pad"]  # type: ignore
        at = 2 * (dims - 1 - axis)  # F.pad names the last dim first
        before, after = (sides[at], sides[at + 1]) if at < len(sides) else (0, 0)
        return Layer(lambda low, high: (low - before, high - before), length=lambda n: n + before + after)
    if node.target is F.interpolate and not node.kwargs.get("align_corners"):
        return _upsampled(_of(node.kwargs.get("scale_factor"), axis), str(node.kwargs.get("mode", "nearest")))
    if node.target is torch.cat:
        dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        return SAME if dim == 1 else None
    return SAME if node.target in _FUNCTIONS else None


def _conv(module: Any, axis: int) -> Layer:
    k, stride, dilation = (_of(x, axis) for x in (module.kernel_size, module.stride, module.dilation))
    if module.padding == "same":
        total = (k - 1) * dilation
        return _window(k, stride, dilation, (total // 2, total - total // 2))
    pad = 0 if module.padding == "valid" else _of(module.padding, axis)
    return _window(k, stride, dilation, (pad, pad))


def _window(k: int, stride: int, dilation: int, pad: tuple[int, int]) -> Layer:
    reach = (k - 1) * dilation
    return Layer(
        lambda low, high: (low * stride - pad[0], high * stride - pad[0] + reach),
        Fraction(1, stride),
        lambda n: (n + sum(pad) - reach - 1) // stride + 1,
    )


def _transposed(module: Any, axis: int) -> Layer:
    """Output o gets from input i through weight j where o = i · stride - padding + j · dilation."""
    k, stride, dilation, pad, extra = (
        _of(x, axis)
        for x in (module.kernel_size, module.stride, module.dilation, module.padding, module.output_padding)
    )

    def sources(o: int) -> list[int]:
        places = [o + pad - j * dilation for j in range(k)]
        return [place // stride for place in places if place % stride == 0]

    def reads(low: int, high: int) -> Span:
        period = stride * dilation
        ends = [*range(low, min(high, low + period) + 1), *range(max(low, high - period), high + 1)]
        found = [i for o in ends for i in sources(o)]
        return (min(found), max(found)) if found else (low // stride, high // stride)

    def length(n: int) -> int:
        return int((n - 1) * stride - 2 * pad + (k - 1) * dilation + extra + 1)

    return Layer(reads, Fraction(stride), length)


def _nearest(factor: int) -> Layer:
    return Layer(lambda low, high: (low // factor, high // factor), Fraction(factor), lambda n: n * factor)


def _upsampled(factor: Any, mode: str) -> Layer | None:
    """Nearest or linear up-sampling by a whole factor; None for another."""
    if factor is None or factor != int(factor) or factor < 1:
        return None
    whole = int(factor)
    if mode in ("nearest", "nearest-exact"):
        return _nearest(whole)
    if mode not in ("linear", "bilinear", "trilinear"):
        return None

    def place(o: int) -> Fraction:  # pixels are compared by their middles
        return Fraction(2 * o + 1, 2 * whole) - Fraction(1, 2)

    return Layer(
        lambda low, high: (math.floor(place(low)), math.ceil(place(high))),
        Fraction(whole),
        lambda n: n * whole,
    )


def _of(value: Any, axis: int) -> Any:
    return value[axis] if isinstance(value, tuple | list) else value
