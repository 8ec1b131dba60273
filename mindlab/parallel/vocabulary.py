"""A vocabulary cut over ranks: the embedding table by its rows, the logits by their columns.

Both are cut by `torch.tensor_split`: any vocabulary on any number of ranks. Shoeybi et al. 2019, section 3.
For inference: no gradients.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from mindlab.parallel.linear import Group, frozen, gathered, matmul, place, shard, split_sizes, summed


class VocabParallelEmbedding(nn.Module):
    """Rows of an embedding table: ids (…) -> (…, hidden), whole on every rank.

    A rank gives 0 for the ids of other ranks; one all-reduce joins them. It adds one row to zeros: exact in
    every dtype. `weight` (own rows, hidden) starts at id `first` of `size`.
    """

    def __init__(self, weight: torch.Tensor, first: int, size: int, group: Group = None) -> None:
        super().__init__()
        self.weight = frozen(weight)
        self.first, self.size, self.group = first, size, group

    @classmethod
    def from_full(cls, embedding: nn.Embedding, group: Group = None) -> VocabParallelEmbedding:
        """This rank's rows of `embedding`, copied. Raises ValueError for one with max_norm.

        >>> table, ids = nn.Embedding(10, 4), torch.tensor([[0, 9, 3]])
        >>> run = ml.launch(lambda: VocabParallelEmbedding.from_full(table)(ids), ranks=3)
        >>> torch.equal(run.values[2], table(ids))
        True
        """
        if embedding.max_norm is not None:
            raise ValueError(
                f"max_norm={embedding.max_norm} changes rows of the table while it is read: use an embedding "
                "without it"
            )
        rank, ranks = place(group)
        size = embedding.num_embeddings
        first = sum(split_sizes(size, ranks)[:rank])
        return cls(shard(embedding.weight, rank, ranks), first, size, group)

    @torch.no_grad()
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """(…, hidden) on every rank from ids (…), the same on all.

        Raises ValueError for an id outside 0 to size-1: no rank has it, and it would give zeros in silence.
        Ids are int32 or int64, as torch's own embedding takes them: uint8 would be taken for a mask.
        """
        self._check(ids)
        rows = len(self.weight)
        own = (ids >= self.first) & (ids < self.first + rows)
        out = self.weight.new_zeros((*ids.shape, self.weight.shape[1]))
        out[own] = self.weight[ids[own] - self.first]
        return summed(out, group=self.group)

    def _check(self, ids: torch.Tensor) -> None:
        if ids.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"ids are {ids.dtype}: give int32 or int64, ids.long()")
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= self.size):
            raise ValueError(
                f"ids from {int(ids.min())} to {int(ids.max())} do not fit a vocabulary of {self.size}: "
                f"give 0 to {self.size - 1}"
            )


class VocabParallelLogits(nn.Module):
    """Logits of this rank's part of the vocabulary: (…, hidden) -> (…, own), or all with gather_output.

    `argmax` and `log_sum_exp` are over the whole vocabulary and send a few bytes a token, not all logits.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        sizes: list[int],
        group: Group = None,
        *,
        gather_output: bool = False,
    ) -> None:
        super().__init__()
        self.weight = frozen(weight)
        self.bias = None if bias is None else frozen(bias)
        self.sizes, self.group, self.gather_output = sizes, group, gather_output

    @classmethod
    def from_full(
        cls, full: nn.Linear | nn.Embedding, group: Group = None, *, gather_output: bool = False
    ) -> VocabParallelLogits:
        """This rank's part, copied, of a linear layer to the vocabulary or of an embedding (tied weights).

        >>> head, x = nn.Linear(4, 10), torch.ones(1, 4)
        >>> run = ml.launch(lambda: VocabParallelLogits.from_full(head).argmax(x), ranks=3)
        >>> torch.equal(run.values[2], head(x).argmax(-1))
        True
        """
        rank, ranks = place(group)
        bias: torch.Tensor | None = full.bias if isinstance(full, nn.Linear) else None
        sizes = split_sizes(len(full.weight), ranks)
        weight, bias = shard(full.weight, rank, ranks), shard(bias, rank, ranks)
        return cls(weight, bias, sizes, group, gather_output=gather_output)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, own), or (…, vocabulary) with gather_output, from (…, hidden)."""
        logits = self._own(x)
        return gathered(logits, self.sizes, self.group) if self.gather_output else logits

    @torch.no_grad()
    def argmax(self, x: torch.Tensor) -> torch.Tensor:
        """The id (…) of the largest logit of the whole vocabulary, the lowest of equals: the greedy token.

        Each rank sends its best logit and that one's id: two all-gathers, 12 bytes a token in float32.
        """
        logits = self._own(x)
        rank, _ = place(self.group)
        best = logits.new_full(logits.shape[:-1], -torch.inf)
        at = torch.zeros(logits.shape[:-1], dtype=torch.int64, device=logits.device)
        if logits.shape[-1]:
            best, at = logits.max(-1)
        values = self._by_rank(best)
        ids = self._by_rank(at + sum(self.sizes[:rank]))
        return ids.gather(0, values.argmax(0, keepdim=True)).squeeze(0)

    @torch.no_grad()
    def log_sum_exp(self, x: torch.Tensor) -> torch.Tensor:
        """log of the sum of exp over the whole vocabulary (…), natural, float32.

        A token's log-probability is its logit minus this. One all-gather, 4 bytes a token.
        """
        return self._by_rank(self._own(x).float().logsumexp(-1)).logsumexp(0)

    def _own(self, x: torch.Tensor) -> torch.Tensor:
        return matmul(x, self.weight, self.bias)

    def _by_rank(self, x: torch.Tensor) -> torch.Tensor:
        """All ranks' x, stacked in front."""
        parts = [torch.empty_like(x) for _ in self.sizes]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return torch.stack(parts)
