"""What the tests of expert parallel run on the ranks, and the one card that they compare with."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.layers import MLP, GatedMLP
from mindlab.models.moe import MoE
from mindlab.parallel.expert import Dispatch, ExpertParallelMoE

HIDDEN, INNER = 10, 14

# float32 sums of some dozens of terms of size 1
CLOSE = 1e-5
# Weights, inner features, the experts' results and the answer are rounded to 8 bits, at values of up to 3.
BF16 = 6e-2

OPTIONS: dict[str, dict[str, Any]] = {
    "each": {},
    "once": {"once_per_rank": True},
    "copies": {"copies": {0: 2, 3: 2}},
    "copies once": {"copies": {0: 2, 3: 2}, "once_per_rank": True},
}


def layer(
    experts: int = 6, top_k: int = 2, *, mlp: type[MLP] | type[GatedMLP] = MLP, favourite: int | None = None
) -> MoE:
    """A mixture with weights and biases of size 1, alike everywhere; `favourite` is always chosen first."""
    draw = torch.Generator().manual_seed(11)
    moe = MoE(HIDDEN, INNER, experts, top_k, mlp=mlp).requires_grad_(False)
    for tensor in moe.parameters():
        tensor.copy_(torch.randn(tensor.shape, generator=draw) / max(1, tensor.shape[-1]) ** 0.5)
    if favourite is not None:
        moe.router.weight[favourite] += 20 * torch.eye(HIDDEN)[0]
    return moe


def tokens(lengths: list[int], favoured: bool = False) -> list[torch.Tensor]:
    """One (T_r, HIDDEN) a rank; favoured: the first feature is 1, so that the favourite is chosen."""
    x = torch.randn(sum(lengths), HIDDEN, generator=torch.Generator().manual_seed(5))
    if favoured:
        x[:, 0] = 1
    return list(x.split(lengths))


def one_card(moe: MoE, x: torch.Tensor, kept: torch.Tensor | None = None) -> torch.Tensor:
    """Token by token in float64, without a function of the package; `kept` leaves some choices out."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token, row in enumerate(x.double()):
        logits = moe.router.weight.double() @ row
        best = sorted(range(len(logits)), key=lambda expert: -float(logits[expert]))[: moe.top_k]
        weights = logits[best].softmax(0)
        for slot, expert in enumerate(best):
            if kept is None or kept[token, slot]:
                out[token] += weights[slot] * by_hand(moe.experts[expert], row)
    return out


def by_hand(expert: Any, row: torch.Tensor) -> torch.Tensor:
    """One expert's result for one token, in float64, from its weights."""
    up = expert.up.weight.double() @ row + (0 if expert.up.bias is None else expert.up.bias.double())
    if isinstance(expert, GatedMLP):
        gate = expert.gate.weight.double() @ row + (
            0 if expert.gate.bias is None else expert.gate.bias.double()
        )
        inner = up * gate / (1 + torch.exp(-gate))
    else:
        inner = up * (1 + torch.erf(up / 2**0.5)) / 2
    return expert.down.weight.double() @ inner + (
        0 if expert.down.bias is None else expert.down.bias.double()
    )


def run_layer(
    moe: MoE, parts: list[torch.Tensor], dtype: torch.dtype = torch.float32, **options: Any
) -> tuple[torch.Tensor, Dispatch]:
    """On a rank: the results of its tokens, and who got which."""
    split = ExpertParallelMoE.from_full(moe.to(dtype), **options)
    out = split(parts[dist.get_rank()].to(dtype))
    assert out.is_contiguous() and out.dtype == dtype
    return out, split.last_dispatch


def lengths(ranks: int, kind: str) -> list[int]:
    """How many tokens each rank has; never alike, "idle": rank 0 and the last have none."""
    found = [5 + 3 * rank for rank in range(ranks)]
    if kind == "idle" and ranks > 1:
        found[0] = found[-1] = 0
    return found


def check(run: ml.Run, moe: MoE, parts: list[torch.Tensor], close: float = CLOSE) -> None:
    """Every rank has one card's results; what was sent is what the formula says from the routes."""
    for rank, part in enumerate(parts):
        out, dispatch = run.values[rank]
        right = one_card(moe, part, dispatch.kept)
        assert out.shape == right.shape
        if len(part):
            assert float((out.double() - right).abs().max()) <= close, rank


def check_bytes(run: ml.Run, experts: int, itemsize: int, options: dict[str, Any]) -> None:
    """Counted and on the wire: the formula's bytes on every rank."""
    table = [dispatch.routes for _, dispatch in run.values]
    more = {key: value for key, value in options.items() if key in ("copies", "once_per_rank")}
    right = ml.volume.expert_parallel(table, experts, HIDDEN, itemsize=itemsize, **more)
    assert run.sent.tolist() == list(right.by_rank(run.ranks))
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == list(right.by_rank(run.ranks))


def check_counts(run: ml.Run, held: list[list[int]]) -> None:
    """What one rank says it sent another, that one says it received; and all of it was chosen."""
    found: list[Dispatch] = [dispatch for _, dispatch in run.values]
    for s, sender in enumerate(found):
        for d, receiver in enumerate(found):
            assert torch.equal(sender.sent[d], receiver.received[s])
            assert int(sender.rows_sent[d]) == int(receiver.rows_received[s])
            assert not sender.sent[d][[e for e in range(len(held)) if d not in held[e]]].any()
        kept = sender.choices[sender.kept]
        assert sender.sent.sum(0).tolist() == torch.bincount(kept, minlength=len(held)).tolist()
