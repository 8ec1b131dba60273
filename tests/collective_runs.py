"""What the tests of the collectives run on the ranks, and how they read rounds off a Run."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mindlab import collectives
from mindlab.trace.run import Run

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64}


def data(rank: int, elements: int, dtype: str) -> torch.Tensor:
    """One rank's tensor: small whole numbers, so that every order of additions is exact, also in bfloat16."""
    draw = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(-7, 8, (elements,), generator=draw).to(DTYPES[dtype])


def call(name: str, elements: int, dtype: str, group: dist.ProcessGroup | None = None) -> Any:
    """The result of one collective on this rank, and whether it left its input alone."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    x = data(rank, elements, dtype)
    if name == "ring_all_gather":
        shards = data(0, elements, dtype).tensor_split(ranks)
        x = shards[rank].clone()
        before = x.clone()
        out = collectives.ring_all_gather(x, group, sizes=[len(shard) for shard in shards])
    else:
        before = x.clone()
        out = getattr(collectives, name)(x, group)
    return out, torch.equal(x, before), out.is_contiguous() and out.data_ptr() != x.data_ptr()


def wanted(name: str, ranks: int, elements: int, dtype: str) -> list[torch.Tensor]:
    """What one card computes for each rank."""
    xs = [data(rank, elements, dtype) for rank in range(ranks)]
    total = torch.stack([x.to(torch.float64) for x in xs]).sum(0).to(DTYPES[dtype])
    if name.endswith("all_reduce"):
        return [total] * ranks
    if name == "ring_reduce_scatter":
        return list(total.tensor_split(ranks))
    if name.endswith("all_to_all"):
        return [torch.cat([x.tensor_split(ranks)[rank] for x in xs]) for rank in range(ranks)]
    return [xs[0]] * ranks


def rounds_of(run: Run) -> int:
    """The longest chain of messages, each of which was sent after the one before had arrived.

    Messages between two ranks pair in order; a send depends on every receive that ended before it began.
    """
    sends = sorted((e for e in run.events if e.op == "isend"), key=lambda e: (e.rank, e.index))
    receives = sorted((e for e in run.events if e.op == "irecv"), key=lambda e: (e.rank, e.index))
    queues: dict[tuple[int, int], list[Any]] = {}
    for send in sends:
        queues.setdefault((send.rank, send.peer or 0), []).append(send)
    sent_as = {id(receive): queues[receive.peer or 0, receive.rank].pop(0) for receive in receives}
    assert not any(queues.values()), "a message that nobody received"
    depth: dict[int, int] = {}

    def level(send: Any) -> int:
        if id(send) not in depth:
            before = [
                r for r in receives if r.rank == send.rank and r.end is not None and r.end <= send.start
            ]
            own = [s for s in sends if s.rank == send.rank and s.index < send.index]
            after = [level(sent_as[id(r)]) for r in before] + [level(s) for s in own]
            depth[id(send)] = 1 + max(after, default=0)
        return depth[id(send)]

    return max((level(send) for send in sends), default=0)
