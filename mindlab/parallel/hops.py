"""One tensor of any shape from one rank to another: a header that says what comes, then the tensor.

The receiver of a stage's output cannot know its shape: micro-batches and prompts differ. The header is one
message of eight int64, 64 bytes: dtype, number of dims, their lengths. An empty tensor is a header alone.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from mindlab.parallel.linear import Group

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32)
_DIMS = 6


Sending = list[tuple[dist.Work, Tensor]]
"""What is on its way, with the tensors that must stay as they are until it has arrived."""


def send(x: Tensor, to: int, group: Group = None) -> Sending:
    """What is on its way of x to a rank of the group: `finish` waits for it; leave x alone until then.

    Raises ValueError for a dtype or a number of dims that the header has no room for.
    """
    if x.dtype not in DTYPES or x.ndim > _DIMS:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(
            f"{tuple(x.shape)} of {x.dtype} cannot be passed on: give up to {_DIMS} dims of {names}"
        )
    lengths = [*x.shape, *[0] * (_DIMS - x.ndim)]
    header = torch.tensor([DTYPES.index(x.dtype), x.ndim, *lengths], device=x.device)
    return [sent for part in (header, x.contiguous()) for sent in start(part, to, group)]


def receive(source: int, device: torch.device, group: Group = None) -> Tensor:
    """The tensor that a rank of the group sent with `send`, when it is there."""
    header = arrival((2 + _DIMS,), torch.int64, source, device, group)
    kind, dims, *lengths = header.tolist()
    return arrival(tuple(lengths[:dims]), DTYPES[kind], source, device, group)


def start(x: Tensor, to: int, group: Group = None) -> Sending:
    """What is on its way of x alone, without a header; nothing where it is empty."""
    work = dist.isend(x, _global(to, group), group) if x.numel() else None
    return [] if work is None else [(work, x)]


def arrival(
    shape: tuple[int, ...], dtype: torch.dtype, source: int, device: torch.device, group: Group = None
) -> Tensor:
    """The tensor of this shape and dtype that a rank of the group sent, when it is there."""
    x = torch.empty(shape, dtype=dtype, device=device)
    if x.numel():
        dist.recv(x, _global(source, group), group)
    return x


def finish(sending: Sending) -> None:
    """Returns when all of it has been taken."""
    for work, _ in sending:
        work.wait()


def _global(rank: int, group: Group) -> int:
    """The global number of a rank of the group."""
    world = group or dist.group.WORLD
    assert world is not None, "torch.distributed is not initialised"
    return dist.get_global_rank(world, rank)
