"""Classifier-free guidance on two groups of ranks, or in one batch on one card.

A guided step needs two predictions of one model for the same x and t, without the condition and with it:

    eps = eps_u + scale (eps_c - eps_u)         Ho & Salimans 2022; their w is scale - 1

`cfg_parallel` lets half of the ranks make each and exchange them, `cfg_fused` makes both in one call of twice
the batch. Two calls one after the other on one card are `models.digits.guided`. All three fit its `sample`.

The first half of a group's ranks has the unconditional branch; rank r and rank r + p/2 are partners. Within
its half the model may be split in another way: give a model that is split over the ranks of this half,
`dist.new_subgroups(ranks // 2)[0]`. Then x may be a shard too; partners hold the same one. There are two
branches: more ranks than two need another strategy in each half to be of use.

In half precision the two predictions' rounding grows by |scale| + |scale - 1| in the result.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from mindlab.parallel.linear import Group, place

Model = Callable[[Tensor, Tensor, Tensor], Tensor]
"""model(x, t, condition) -> prediction, in x's shape."""


@torch.no_grad()
def cfg_parallel(
    model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float, group: Group = None
) -> Tensor:
    """The guided prediction on every rank: one call of the model, one exchange.

    All ranks give the same x, t and conditions (partners, where x is a shard). Each sends
    its prediction's bytes, whatever p. Raises ValueError for an odd number of ranks, and
    for more branches than two: conditions are one tensor each.

    >>> def guide():
    ...     one, three = torch.ones(()), torch.tensor(3.0)
    ...     return cfg_parallel(lambda x, t, c: x * c, torch.ones(1), one, three, one, 7.5)
    >>> ml.launch(guide, ranks=2).values  # 1 + 7.5 (3 - 1)
    [tensor([16.]), tensor([16.])]
    """
    _refuse(cond, uncond, scale)
    conditional = branch(group)
    mine = prediction(model(x, t, cond if conditional else uncond), x)
    theirs = from_partner(mine, group)
    return combined(theirs, mine, scale) if conditional else combined(mine, theirs, scale)


@torch.no_grad()
def cfg_fused(model: Model, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
    """The guided prediction by one call of the model, with both branches in one batch: half the calls.

    The work is the same, the activations are twice as large. x is (B, …), t (B,) or one value for all, the
    conditions (B, …) and alike in shape: texts of different lengths must be padded alike and masked. Raises
    ValueError where they cannot lie in one batch.

    >>> labels = torch.tensor([3, 7])
    >>> def model(x, t, condition):
    ...     return x * condition[:, None]
    >>> cfg_fused(model, torch.ones(2, 1), torch.ones(2), labels, torch.ones_like(labels), 2.0).tolist()
    [[5.0], [13.0]]
    """
    _refuse(cond, uncond, scale)
    _refuse_batch(x, cond, uncond)
    if t.ndim and len(t) != len(x):
        raise ValueError(f"t {tuple(t.shape)} does not fit x {tuple(x.shape)}: give one value, or {len(x)}")
    times = torch.cat([t, t]) if t.ndim else t
    twice = torch.cat([x, x])
    both = prediction(model(twice, times, torch.cat([uncond, cond])), twice)
    return combined(both[: len(x)], both[len(x) :], scale)


def combined(eps_u: Tensor, eps_c: Tensor, scale: float) -> Tensor:
    """eps_u + scale (eps_c - eps_u): 0 gives eps_u, 1 gives eps_c, more goes beyond it.

    >>> combined(torch.zeros(1), torch.ones(1), 7.5)
    tensor([7.5000])
    """
    return eps_u + scale * (eps_c - eps_u)


def branch(group: Group = None) -> int:
    """0 on the ranks that predict without the condition, 1 on those that predict with it.

    Raises ValueError for an odd number of ranks.
    """
    rank, ranks = place(group)
    if ranks % 2:
        even = "2" if ranks == 1 else f"{ranks - 1} or {ranks + 1}"
        alone = "; one rank alone takes cfg_fused" if ranks == 1 else ""
        raise ValueError(f"ranks={ranks} cannot be halved for two branches: choose {even}{alone}")
    return int(rank >= ranks // 2)


def prediction(made: object, x: Tensor) -> Tensor:
    """What a model made of x, ready to send; raises ValueError if it is no tensor of x's shape.

    >>> prediction((torch.ones(2), None), torch.ones(2))
    Traceback (most recent call last):
    ...
    ValueError: the model gave a tuple for x (2,): it must give one tensor of that shape
    """
    if not isinstance(made, Tensor) or made.shape != x.shape:
        what = tuple(made.shape) if isinstance(made, Tensor) else f"a {type(made).__name__}"
        raise ValueError(
            f"the model gave {what} for x {tuple(x.shape)}: it must give one tensor of that shape"
        )
    return made.contiguous()


def from_partner(mine: Tensor, group: Group = None) -> Tensor:
    """What this rank's partner in the other half has for `mine`: a message each way, an all-gather of two.

    Both must be of one shape and dtype, which is not checked: `prediction` compares this rank's with its x.
    """
    rank, ranks = place(group)
    world = group or dist.group.WORLD
    assert world is not None, "torch.distributed is not initialised"
    partner = dist.get_global_rank(world, (rank + ranks // 2) % ranks)
    theirs = torch.empty_like(mine)
    ops = [dist.P2POp(dist.irecv, theirs, partner, group), dist.P2POp(dist.isend, mine, partner, group)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return theirs


def _refuse(cond: Tensor, uncond: Tensor, scale: float) -> None:
    """Raises ValueError for what says that there are more branches than two."""
    for name, given in (("cond", cond), ("uncond", uncond)):
        if not isinstance(given, Tensor):
            many = f" of {len(given)}" if isinstance(given, list | tuple | dict) else ""
            raise ValueError(
                f"{name} is a {type(given).__name__}{many}: give one tensor. There are two branches, with "
                "the condition and without; a third one needs a prediction and a scale of its own"
            )
    if not isinstance(scale, int | float) or scale != scale:
        raise ValueError(f"scale={scale!r}: give one number, there is one difference to scale")


def _refuse_batch(x: Tensor, cond: Tensor, uncond: Tensor) -> None:
    if cond.shape != uncond.shape or cond.dtype != uncond.dtype:
        raise ValueError(
            f"cond {tuple(cond.shape)} {cond.dtype} and uncond {tuple(uncond.shape)} {uncond.dtype} cannot "
            "lie in one batch: pad them to one shape, with a mask that the model heeds, or use cfg_parallel"
        )
    if not cond.ndim or len(cond) != len(x):
        raise ValueError(
            f"conditions {tuple(cond.shape)} do not fit x {tuple(x.shape)}: give one for each of the "
            f"{len(x)} entries of the batch"
        )
