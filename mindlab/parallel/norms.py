"""LayerNorm and RMSNorm of tokens whose features lie on several ranks: the statistics are shared, once.

On a shard of the SEQUENCE nothing of this is needed: a token is whole there, and torch's own norm is exact.
On a shard of the HIDDEN size a rank sees a slice of every token. The mean and variance of a slice are not the
token's, so each rank hands in what it knows of its slice, and all ranks merge it alike:

    count, mean, M2 (the sum of squares about that mean)      Chan, Golub & LeVeque 1979, updating formula

E[x²] - E[x]², from one sum of x and one of x², would be as cheap but cancels: at an offset of 10000 float32
has no digit of the variance left. For inference: no gradient goes through.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from mindlab.parallel.linear import Group, place


@torch.no_grad()
def sharded_layer_norm(
    x_shard: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, group: Group = None
) -> Tensor:
    """This rank's slice (…, hidden_r) of the LayerNorm of the full (…, hidden), in x_shard's dtype.

    `weight` and `bias` are this rank's slices, or None. All ranks hold the same tokens; their slices may
    differ in length, and may be empty. One all_gather, to which each rank gives one number (its count) and
    three a token (the mean as two numbers, and M2): float32, or float64 for float64 input.
    Raises ValueError for a weight or bias that does not fit the slice, and on a rank outside the group.

    >>> x = torch.arange(8.0).reshape(1, 8)
    >>> def normed():
    ...     mine = x.tensor_split(3, dim=-1)[dist.get_rank()]
    ...     return sharded_layer_norm(mine, None, None, 1e-5)
    >>> torch.allclose(torch.cat(ml.launch(normed, ranks=3).values, dim=-1), F.layer_norm(x, (8,)))
    True
    """
    _check_fits(x_shard, weight=weight, bias=bias)
    x = x_shard.to(_statistics_dtype(x_shard))
    place(group)
    centre, mean, variance = _merge(*_gather_moments(x, group))
    out = ((x - centre.unsqueeze(-1)) - mean.unsqueeze(-1)) * torch.rsqrt(variance + eps).unsqueeze(-1)
    return _scale(out, weight, bias).to(x_shard.dtype)


@torch.no_grad()
def sharded_rms_norm(x_shard: Tensor, weight: Tensor | None, eps: float, group: Group = None) -> Tensor:
    """This rank's slice (…, hidden_r) of the RMSNorm of the full (…, hidden), in x_shard's dtype.

    One all_reduce of one number (the count) and one a token (the sum of squares): squares only add up,
    nothing cancels. Slices, dtypes and errors as in `sharded_layer_norm`.

    >>> x = torch.arange(8.0).reshape(1, 8)
    >>> def normed():
    ...     mine = x.tensor_split(3, dim=-1)[dist.get_rank()]
    ...     return sharded_rms_norm(mine, None, 1e-6)
    >>> torch.allclose(torch.cat(ml.launch(normed, ranks=3).values, dim=-1), F.rms_norm(x, (8,), eps=1e-6))
    True
    """
    _check_fits(x_shard, weight=weight)
    x = x_shard.to(_statistics_dtype(x_shard))
    place(group)
    sums = torch.cat([x.new_tensor([x.shape[-1]]), x.square().sum(-1).flatten()])
    dist.all_reduce(sums, group=group)
    mean_square = (sums[1:] / sums[0]).reshape(x.shape[:-1])
    out = x * torch.rsqrt(mean_square + eps).unsqueeze(-1)
    return _scale(out, weight, None).to(x_shard.dtype)


def shared_moments(x: Tensor, group: Group = None) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, mean off that centre, and variance over the last dim of all ranks' x (…, own length) together.

    One all_gather of one number and three for each leading place. float32 or float64; an empty x has no say.
    """
    return _merge(*_gather_moments(x, group))


def _gather_moments(x: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Count, centre, mean off the centre and M2 of every rank's slice, in one collective.

    The mean travels as two numbers, its rounded value and the rest: float32 near 10000
    has steps of 0.001, and slices' means that are off by as much would spoil the result.
    """
    count = x.shape[-1]
    centre = x.sum(-1) / max(count, 1)
    off = x - centre.unsqueeze(-1)
    rest = off.sum(-1) / max(count, 1)
    square = (off - rest.unsqueeze(-1)).square().sum(-1)
    own = torch.cat([x.new_tensor([count]), torch.stack([centre, rest, square]).flatten()])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    rows = torch.stack(every)
    centres, rests, squares = rows[:, 1:].reshape(len(every), 3, *x.shape[:-1]).unbind(1)
    return rows[:, 0], centres, rests, squares


def _merge(counts: Tensor, centres: Tensor, rests: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, mean off that centre, and variance of the whole token, from its slices'.

    M2 of the whole = sum of the slices' M2 + sum of count (slice's mean - mean)².
    An empty slice has count 0 and so no say. All ranks merge the same numbers in the same
    order: they agree to the bit.
    """
    share = (counts / counts.sum()).reshape(-1, *[1] * (centres.ndim - 1))
    centre = (share * centres).sum(0)
    off = (centres - centre) + rests
    mean = (share * off).sum(0)
    variance = squares.sum(0) / counts.sum() + (share * (off - mean).square()).sum(0)
    return centre, mean, variance


def _scale(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x times weight plus bias, in x's dtype."""
    if weight is not None:
        x = x * weight.to(x.dtype)
    return x if bias is None else x + bias.to(x.dtype)


def _statistics_dtype(x: Tensor) -> torch.dtype:
    if not x.is_floating_point():
        raise ValueError(f"{x.dtype} cannot be normalised: give a floating-point tensor, x.float()")
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _check_fits(x_shard: Tensor, **given: Tensor | None) -> None:
    if not x_shard.ndim:
        raise ValueError("a tensor without dimensions has no features: give (…, hidden of this rank)")
    for name, tensor in given.items():
        if tensor is not None and tensor.shape != x_shard.shape[-1:]:
            raise ValueError(
                f"{name} of shape {tuple(tensor.shape)} does not fit {x_shard.shape[-1]} features: "
                f"give this rank's slice, {name}.tensor_split(ranks)[rank]"
            )
