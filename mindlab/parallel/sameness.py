"""Do all ranks hold the same tensors? Weights that differ make every strategy wrong without an error."""

from __future__ import annotations

import hashlib

import torch
import torch.distributed as dist
from torch import nn

from mindlab.errors import MindlabError
from mindlab.parallel.linear import Group, place


def same_on_every_rank(what: nn.Module | torch.Tensor, group: Group = None) -> None:
    """None where every rank of the group gives the same tensors, to the bit, under the same names.

    `what` is a module (its parameters and buffers) or one tensor. Raises MindlabError on every rank of the
    group where they differ: it names the first tensor that does, and the ranks that have another one than
    rank 0 of the group. Costs 8 bytes to each other rank, and reading the tensors once.

    >>> with ml.expect_error(ml.MindlabError, match="the tensor on ranks 1, 2 is not that of rank 0"):
    ...     ml.launch(lambda: same_on_every_rank(torch.ones(2) * dist.get_rank()), ranks=3)
    """
    prints = _fingerprints(what)
    total = _digest(repr(prints).encode())
    _, ranks = place(group)
    device = what.device if isinstance(what, torch.Tensor) else _device(what)
    totals = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(ranks)]
    dist.all_gather(totals, torch.tensor([total], device=device), group=group)
    if len({int(total) for total in totals}) > 1:
        _explain(prints, ranks, group)


def _explain(prints: dict[str, tuple[str, int]], ranks: int, group: Group) -> None:
    """Exchange all fingerprints and raise."""
    by_rank: list[dict[str, tuple[str, int]]] = [{} for _ in range(ranks)]
    dist.all_gather_object(by_rank, prints, group=group)
    for name in dict.fromkeys(name for found in by_rank for name in found):
        first = by_rank[0].get(name)
        others = [rank for rank in range(ranks) if by_rank[rank].get(name) != first]
        if others:
            kinds = {found[name][0] if name in found else "missing" for found in by_rank}
            shapes = f" ({', '.join(sorted(kinds))})" if len(kinds) > 1 else ""
            plural = "s" * (len(others) > 1)
            raise MindlabError(
                f"{name} on rank{plural} {', '.join(map(str, others))} is not that of rank 0{shapes}: seed "
                "every rank alike before the layer is made (torch.manual_seed), or broadcast it"
            )
    raise AssertionError("fingerprints differ, and no tensor does")


def _fingerprints(what: nn.Module | torch.Tensor) -> dict[str, tuple[str, int]]:
    """Shape and dtype, and a digest of the bytes, of each tensor by name."""
    named = {"the tensor": what} if isinstance(what, torch.Tensor) else what.state_dict()
    return {
        name: (f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}", _digest(_bytes(tensor)))
        for name, tensor in named.items()
    }


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _device(module: nn.Module) -> torch.device:
    """Where the group's collectives take their tensors: beside the module's."""
    return next((tensor.device for tensor in module.state_dict().values()), torch.device("cpu"))
