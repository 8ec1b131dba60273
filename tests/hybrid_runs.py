"""What the tests of hybrid attention run on the ranks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from attention_data import exact, qkv
from torch.distributed.device_mesh import DeviceMesh

import mindlab as ml
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import hybrid_mesh, hybrid_sizes, own_shard
from mindlab.predict.meshes import axis_groups, hybrid_axes


class Case(NamedTuple):
    """One attention over `length` tokens."""

    length: int
    kv_heads: int
    causal: bool = False
    layout: str = "contiguous"
    heads: int = 24
    dim: int = 5
    dtype: torch.dtype = torch.float32
    told: bool = True
    """Whether the ranks are given all lengths."""
    overlap: bool = True
    batch: int = 2

    def whole(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tensors of one card."""
        counts = {"heads": self.heads, "kv_heads": self.kv_heads, "dim": self.dim, "batch": self.batch}
        return qkv(self.length, self.length, dtype=self.dtype, seed=self.length, **counts)

    def right(self) -> torch.Tensor:
        """One card's result, in float64."""
        return exact(*self.whole(), self.causal)[0]


def shard_of(case: Case, mesh: DeviceMesh) -> torch.Tensor:
    """This rank's shard of the result."""
    shards = [own_shard(x, mesh, layout=case.layout) for x in case.whole()]
    ring, ulysses = (mesh.size(mesh.mesh_dim_names.index(axis)) for axis in ("ring", "ulysses"))
    table = hybrid_sizes(case.length, ring=ring, ulysses=ulysses, layout=case.layout)
    return hybrid_attention(
        *shards, mesh, causal=case.causal, layout=case.layout, sizes=table if case.told else None,
        overlap=case.overlap,
    )  # fmt: skip


def shards_of(cases: list[Case], ring: int, ulysses: int, inside: str) -> list[torch.Tensor]:
    """This rank's shards of many attentions on one mesh."""
    mesh = hybrid_mesh(ring=ring, ulysses=ulysses, inside=inside)
    return [shard_of(case, mesh) for case in cases]


def per_axis(run: ml.Run, axis: str, ring: int, ulysses: int, inside: str) -> tuple[list[int], list[int]]:
    """(counted, wire) bytes that each rank sent on one axis; the wire's are the counted where it saw none."""
    groups = axis_groups(hybrid_axes(ring, ulysses, inside))[axis]
    counted, wire = run.sent_within(groups), run.wire_within(groups)
    return counted.tolist(), (counted if wire is None else wire).tolist()
