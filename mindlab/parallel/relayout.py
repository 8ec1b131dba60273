"""From the shards of a prefill to those of a cache: each token's keys and values go to its rank.

A prefill by ring or Ulysses leaves a rank with the keys and values of its piece of the prompt; a cache deals
positions in blocks, in turn (`caches.holder`). All ranks know both layouts, so nothing but the tensors
travels: one all-to-all each. `volume.decode_layout` has the bytes: none where both layouts are the same.

A prefill by tensor parallel leaves heads of the whole prompt instead: `ulysses.heads_to_sequence` brings them
to contiguous pieces first, or leave them, and shard the cache by heads as well.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.linear import Group, place
from mindlab.predict.caches import holder
from mindlab.predict.layouts import positions


@torch.no_grad()
def to_cache(
    x: torch.Tensor, length: int, *, layout: str = "contiguous", block: int = 1, group: Group = None
) -> torch.Tensor:
    """This rank's tokens of a cache (B, held, K, D), by position, from its prompt shard (B, S_r, K, D).

    `length` is that of the whole prompt, cut in `layout` (`split_sequence`); `block` is the cache's. One
    all-to-all, which sends what changes its rank. Raises ValueError for a shard of another length.

    >>> x = torch.arange(6).view(1, 6, 1, 1)
    >>> def change():
    ...     return to_cache(x.tensor_split(2, 1)[dist.get_rank()], 6).flatten().tolist()
    >>> ml.launch(change, ranks=2).values
    [[0, 2, 4], [1, 3, 5]]
    """
    rank, ranks = place(group)
    before = [[at for piece in pieces for at in piece] for pieces in positions(length, ranks, layout)]
    _check(x, before[rank], length, layout)
    target = [holder(at, ranks, block) for at in before[rank]]
    order = sorted(range(len(target)), key=target.__getitem__)
    arriving = [[at for at in there if holder(at, ranks, block) == rank] for there in before]
    sent = x.transpose(0, 1)[order].contiguous()  # (S_r, B, K, D): what goes to one rank lies together
    arrived = sent.new_empty(sum(map(len, arriving)), *sent.shape[1:])
    leaving = [target.count(to) for to in range(ranks)]
    dist.all_to_all_single(arrived, sent, list(map(len, arriving)), leaving, group=group)
    came = [at for there in arriving for at in there]
    return arrived[sorted(range(len(came)), key=came.__getitem__)].transpose(0, 1).contiguous()


def _check(x: torch.Tensor, own: list[int], length: int, layout: str) -> None:
    if x.ndim != 4 or x.shape[1] != len(own):
        raise ValueError(
            f"a shard of shape {tuple(x.shape)} does not fit: of {length} tokens cut {layout} this rank has "
            f"{len(own)}; give (batch, {len(own)}, heads, head_dim)"
        )
