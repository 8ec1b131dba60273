"""A cache of keys and values that is sharded by position: every token lies on exactly one rank.

`holder(position, ranks, block)` says on which: positions are dealt in blocks, in turn. All ranks know the
lengths of all requests, so appending needs no message: every rank computes the new token's keys and values
(the query is replicated too), and the one that holds its position keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindlab.parallel.linear import Group, place
from mindlab.predict.caches import held, held_positions, holder, one_piece
from mindlab.predict.shapes import check_whole
from mindlab.ranks.backends import device

__all__ = ["ShardedCache", "held", "held_positions", "holder", "one_piece"]


class ShardedCache:
    """This rank's shard of one layer's cache, for `batch` requests of up to `capacity` tokens each.

    `dims` are the lengths of what is kept for each head: (head_dim, head_dim) for keys and values, one number
    for a latent. `block` positions in a row lie on one rank: 1 is round-robin, `one_piece(capacity, ranks)`
    gives each rank one piece. Room for all of it is taken at once.

    >>> def fill():
    ...     cache = ShardedCache(1, 4, 1, (1, 1))
    ...     for token in range(3):
    ...         cache.append(torch.full((1, 1, 1, 1), token), torch.zeros(1, 1, 1, 1))
    ...     return cache.lengths, cache.own, cache.shard[0].flatten().tolist()
    >>> ml.launch(fill, ranks=2).values
    [([3], [2], [0.0, 2.0]), ([3], [1], [1.0])]
    """

    def __init__(
        self,
        batch: int,
        capacity: int,
        heads: int,
        dims: Sequence[int],
        *,
        block: int = 1,
        dtype: torch.dtype = torch.float32,
        group: Group = None,
    ) -> None:
        check_whole(1, batch=batch, capacity=capacity, heads=heads)
        self.rank, self.ranks = place(group)
        self.capacity, self.block, self.group = capacity, block, group
        self.lengths = [0] * batch
        room = held(capacity, self.ranks, block)[self.rank]
        self._kept = [torch.zeros(batch, room, heads, dim, dtype=dtype, device=device()) for dim in dims]

    @property
    def own(self) -> list[int]:
        """How many tokens of each request lie on this rank."""
        return [self._held(length) for length in self.lengths]

    @property
    def shard(self) -> tuple[torch.Tensor, ...]:
        """What lies on this rank, (B, S_r, heads, dim) each, S_r that of the longest request; no copy.

        Of a request only the first `own` are its tokens.
        """
        longest = max(self.own)
        return tuple(kept[:, :longest] for kept in self._kept)

    def newest(self, x: torch.Tensor) -> torch.Tensor:
        """The position (B,) of each request's newest token, from something (B, 1, …) that has one of each.

        Raises ValueError for another number of requests or of tokens: they would be broadcast.
        """
        if x.shape[:2] != (len(self.lengths), 1):
            raise ValueError(f"{tuple(x.shape)}: give one new token a request, ({len(self.lengths)}, 1, …)")
        return torch.tensor(self.lengths, device=x.device)

    def append(self, *new: torch.Tensor, requests: Sequence[int] | None = None) -> None:
        """Store the next tokens of each request, (B, new, heads, dim) each and the same on every rank.

        Each rank keeps those whose positions it holds. With `requests` row i belongs to request requests[i].
        Raises ValueError, and stores nothing, where a request would outgrow the capacity.
        """
        rows = range(len(self.lengths)) if requests is None else requests
        count = self._check(new, rows)
        for row, request in enumerate(rows):
            start = self.lengths[request]
            mine = held_positions(start, start + count, self.rank, self.ranks, self.block)
            picked = [position - start for position in mine]
            self._write(request, start + count, [tensor[row, picked] for tensor in new])

    def fill(self, request: int, length: int, *own: torch.Tensor) -> None:
        """Make `length` tokens the whole of a request, of which `own` (held, heads, dim) each lie here.

        `relayout.to_cache` brings them from the shards of a prefill. Raises ValueError for another number of
        tokens than this rank holds of so many.
        """
        self._check_requests([request])
        self._check_room(request, 0, length)
        if len(own) != len(self._kept):
            raise ValueError(f"{len(own)} tensors for a cache of {len(self._kept)}: give each kind its own")
        for tensor, kept in zip(own, self._kept, strict=True):
            if tensor.shape != (self._held(length), *kept.shape[2:]):
                raise ValueError(
                    f"{tuple(tensor.shape)} does not fit: of {length} tokens rank {self.rank} holds "
                    f"{(self._held(length), *kept.shape[2:])}"
                )
        self.lengths[request] = 0
        self._write(request, length, own)

    def clear(self, request: int) -> None:
        """Forget a request, so that another can take its place."""
        self._check_requests([request])
        self.lengths[request] = 0

    def _held(self, length: int) -> int:
        return held(length, self.ranks, self.block)[self.rank]

    def _write(self, request: int, length: int, tensors: Sequence[torch.Tensor]) -> None:
        first, end = self._held(self.lengths[request]), self._held(length)
        for kept, tensor in zip(self._kept, tensors, strict=True):
            kept[request, first:end] = tensor
        self.lengths[request] = length

    def _check(self, new: Sequence[torch.Tensor], rows: Sequence[int]) -> int:
        """How many new tokens each request gets; raises ValueError where they do not fit."""
        self._check_requests(rows)
        if len(new) != len(self._kept):
            raise ValueError(f"{len(new)} tensors for a cache that keeps {len(self._kept)}: give one each")
        count = new[0].shape[1] if new[0].ndim == 4 else 0
        for tensor, kept in zip(new, self._kept, strict=True):
            right = (len(rows), count, *kept.shape[2:])
            if tensor.shape != right or tensor.ndim != 4:
                raise ValueError(
                    f"{tuple(tensor.shape)} does not fit: give (requests, new tokens, heads, dim), {right}"
                )
        for request in rows:
            self._check_room(request, self.lengths[request], count)
        return count

    def _check_requests(self, rows: Sequence[int]) -> None:
        batch = len(self.lengths)
        if any(type(row) is not int for row in rows):
            raise ValueError(f"requests={rows!r}: give whole numbers from 0 to {batch - 1}, as a list")
        if len(set(rows)) != len(rows) or not all(0 <= request < batch for request in rows):
            raise ValueError(f"requests={list(rows)}: give different ones from 0 to {batch - 1}")

    def _check_room(self, request: int, before: int, count: int) -> None:
        if before + count > self.capacity:
            raise ValueError(
                f"request {request} has {before} tokens and gets {count}: a cache with "
                f"capacity={self.capacity} has no room; make it with capacity={before + count}, or end the "
                "request"
            )
