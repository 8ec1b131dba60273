"""More than two axes, which axis is inside, and another package's hybrid beside ours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attention_data import apart
from hybrid_runs import Case, shards_of
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.digits import guided
from mindlab.models.layers import Attention
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.cfg import cfg_parallel
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import device_mesh, hybrid_mesh, own_shard
from mindlab.parallel.shards import split_sequence
from mindlab.predict.meshes import axis_groups, places

SCALE = 7.5
LENGTH, HIDDEN = 13, 24
AXES = [
    {"cfg": 2, "ring": 2, "ulysses": 2},
    {"ulysses": 2, "cfg": 2, "ring": 2},
    {"cfg": 2, "ring": 3, "ulysses": 1},
]


class Guided(nn.Module):
    """An attention layer of x, t and a condition; its scores and weighted values by `attend`."""

    def __init__(self, attend: Any) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layer, self.attend = Attention(HIDDEN, heads=6, kv_heads=2, head_dim=8), attend

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """(B, S, hidden) from (B, S, hidden), t () and a condition (B, hidden)."""
        x = x + t * condition.unsqueeze(1)
        layers = self.layer.q, self.layer.k, self.layer.v
        q, k, v = (layer(x).unflatten(-1, (-1, 8)) for layer in layers)
        out: Tensor = self.layer.o(self.attend(q, k, v).flatten(2))
        return x + out


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (2, S, hidden), one t, cond and uncond (2, hidden)."""
    draw = torch.Generator().manual_seed(9)
    x, cond, uncond = (torch.randn(*s, generator=draw) for s in ((2, LENGTH, HIDDEN), *[(2, HIDDEN)] * 2))
    return x, torch.tensor(0.7), cond, uncond


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_three_orthogonal_axes(axes: dict[str, int], layout: str) -> None:
    """Would catch a branch that attends over both branches' keys, partners with different shards, and bytes
    on a third axis that change the other two's. Two axes of the mesh, or the mesh itself: the same."""

    def step() -> tuple[Tensor, Tensor, Tensor]:
        mesh = device_mesh(axes)
        x, *conditions = inputs()

        two = tuple(name for name in axes if name != "cfg")

        def attend(q: Tensor, k: Tensor, v: Tensor, on: Any = mesh[two]) -> Tensor:
            return hybrid_attention(q, k, v, on, causal=True, layout=layout)

        shard = own_shard(x, mesh, layout=layout)
        out = cfg_parallel(Guided(attend), shard, *conditions, SCALE, group=mesh.get_group("cfg"))
        qkv = [own_shard(part, mesh, layout=layout) for part in Case(11, 2, heads=6).whole()]
        ml.step("again")
        alike = attend(*qkv), attend(*qkv, on=mesh)
        return out, *alike

    def one_card(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention_with_lse(q, k, v, causal=True)[0]

    run = ml.launch(step, ranks=axes["ring"] * axes["ulysses"] * 2)
    right = guided(Guided(one_card), *inputs(), SCALE).detach()
    parts = [p.tensor_split(axes["ulysses"], 1) for p in split_sequence(right, axes["ring"], layout=layout)]
    on_cfg = run.sent_within(axis_groups(axes)["cfg"])
    for rank, (out, first, second) in enumerate(run.values):
        at = places(axes)[rank]
        # Guidance enlarges the two branches' float32 rounding 14 times.
        assert apart(out, parts[at["ring"]][at["ulysses"]]) <= 1e-5 * (2 * SCALE - 1), rank
        assert torch.equal(first, second)
        assert on_cfg[rank] == ml.volume.cfg_parallel(out.numel(), 2, itemsize=4).value
    rest = run.sent_within(axis_groups(axes)["ring"]) + run.sent_within(axis_groups(axes)["ulysses"])
    assert (run.sent == on_cfg + rest).all()


def placed(kv_heads: int, inside: str, ring: int, ulysses: int) -> tuple[float, float, list[float]]:
    """(exposed seconds, bytes between hosts, bytes of each axis) on four cards of each of two hosts.

    A sequence 256 times as long as what is run, in half precision, all-to-all on all links at once.
    """
    case = Case(256, kv_heads, heads=8, dim=32, batch=1)
    run = ml.launch(shards_of, [case], ring, ulysses, inside, ranks=8)
    there = ml.replay(
        run, "two-atlas-a2", cards=[0, 1, 2, 3, 8, 9, 10, 11], bytes_times=256 / 2, flop_times=256**2,
        algorithms={"all_to_all": "at once"},
    )  # fmt: skip
    between = sum(n for link, n in there.link_bytes.items() if "RoCE" in link and "out" in link) / 128
    axes = [
        float(ml.volume.hybrid_attention(1, 256, 8, kv_heads, 32, ring=ring, ulysses=ulysses, itemsize=4,
                                         axis=axis).value) * 8 for axis in ("ring", "ulysses")
    ]  # fmt: skip
    return float(there.exposed.mean()), between, axes


@pytest.mark.parametrize("kv_heads", [8, 2])
def test_which_axis_belongs_inside(kv_heads: int) -> None:
    """Would catch a chapter's advice that the model does not give: with Ulysses inside a host, less waits.

    Between hosts goes all of the outer axis, and of the inner one nothing, if the inner groups fit a host.
    """
    inner, between, axes = placed(kv_heads, "ulysses", 2, 4)
    assert between == pytest.approx(axes[0])
    outer, also_between, _ = placed(kv_heads, "ring", 2, 4)
    # Each Ulysses group of four has two on either host: two of the three it sends to are across.
    assert also_between == pytest.approx(axes[1] * 2 / 3)
    assert inner < 0.65 * outer
    assert between == also_between if kv_heads == 8 else between < 0.7 * also_between


def test_beside_yunchang() -> None:
    """Would catch another cut of the sequence, or another result, than a published package's (0.6.4)."""
    pytest.importorskip("yunchang", reason="a peer that is compared where it is installed")
    whole = torch.arange(16 * 3).reshape(1, 16, 3, 1)

    def cut() -> list[tuple[Tensor, Tensor]]:
        from yunchang import set_seq_parallel_pg
        from yunchang.comm.extract_local import EXTRACT_FUNC_DICT

        rank, found = torch.distributed.get_rank(), []
        for inside in ("ulysses", "ring"):
            set_seq_parallel_pg(2, 2, rank, 4, use_ulysses_low=inside == "ulysses")
            mesh = hybrid_mesh(ring=2, ulysses=2, inside=inside)
            theirs = EXTRACT_FUNC_DICT["zigzag"](
                whole, rank, 4, rd=2, ud=2, use_ulysses_low=inside == "ulysses"
            )
            found.append((theirs, own_shard(whole, mesh, layout="zigzag")))
        return found

    for found in ml.launch(cut, ranks=4).values:
        assert all(torch.equal(theirs, ours) for theirs, ours in found)
