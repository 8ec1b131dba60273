"""Multi-latent attention: absorbed equals plain, shards equal one card, bytes by the formula."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
from attention_data import exact

import mindlab as ml
from mindlab.models import latent as one_card
from mindlab.models.latent import LatentAttention, absorbed_attention, turned
from mindlab.parallel import decode
from mindlab.parallel.latent import decode_latent, latent_cache

HIDDEN, HEADS, LATENT, ROPE, DIM = 20, 6, 14, 4, 10


def made() -> tuple[LatentAttention, torch.Tensor]:
    """A layer whose sizes all differ, and tokens (2, 11, hidden)."""
    torch.manual_seed(1)
    layer = LatentAttention(HIDDEN, HEADS, LATENT, ROPE, head_dim=DIM).requires_grad_(False)
    return layer, torch.randn(2, 11, HIDDEN)


def test_plain_and_absorbed_equal_the_definition() -> None:
    """Would catch a wrong scale, a rope part left out of scores, values made with the keys' matrix."""
    layer, x = made()
    at = torch.arange(11).expand(2, 11)
    entry = layer.entry(x, at)
    c, r = entry[:, :, 0, :LATENT].double(), entry[:, :, :, LATENT:].double()
    q = layer.q(x).double().unflatten(-1, (HEADS, -1))
    q = torch.cat([q[..., :DIM], turned(q[..., DIM:], at.unsqueeze(-1))], -1)
    k = torch.stack([torch.cat([c @ layer.keys[h].double(), r[:, :, 0]], -1) for h in range(HEADS)], 2)
    v = torch.stack([c @ layer.values[h].double() for h in range(HEADS)], 2)
    out, _ = exact(q, k, v, True, scale=(DIM + ROPE) ** -0.5)
    right = torch.nn.functional.linear(out.flatten(2), layer.o.weight.double(), layer.o.bias.double())
    for got in (layer(x), absorbed_attention(layer, x)):
        assert float((got - right).abs().max()) <= 1e-5  # float32's rounding


def test_positions_are_relative() -> None:
    """Would catch a rotation that does not grow evenly: only distances may matter to a score."""
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(0)).double()
    near = turned(q, torch.tensor(7)) @ turned(k, torch.tensor(4))
    far = turned(q, torch.tensor(107)) @ turned(k, torch.tensor(104))
    # angles are computed in float32
    assert float((near - far).abs()) <= 1e-4
    assert float((near - turned(q, torch.tensor(7)) @ turned(k, torch.tensor(5))).abs()) > 1e-2


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_decoding_from_shards(ranks: int) -> None:
    """Would catch positions of the shard instead of the request, latents merged without their LSE."""
    layer, x = made()

    def steps() -> Any:
        outs = []
        for block in (1, 4):
            cache = latent_cache(layer, 2, 11, block=block)
            outs.append(torch.cat([decode_latent(layer, x[:, at : at + 1], cache) for at in range(11)], 1))
        return outs

    run = ml.launch(steps, ranks=ranks)
    for outs in run.values:
        for out in outs:
            assert float((out - layer(x)).abs().max()) <= 1e-5
    # head_dim numbers a head travel, not d_c
    each = ml.volume.decode_attention(2, HEADS, DIM, ranks, itemsize=4)
    if run.wire is not None and run.wire.payload is not None:
        assert run.wire.payload.sum(axis=1).tolist() == [22 * n for n in each.by_rank(ranks)]


def test_what_a_step_reads() -> None:
    """Would catch the latent counted twice, as key and as value: it is one tensor."""
    layer, x = made()

    def step() -> None:
        cache = latent_cache(layer, 2, 11)
        cache.append(layer.entry(x[:, :10], torch.arange(10).expand(2, 10)))
        decode_latent(layer, x[:, 10:], cache)

    run = ml.launch(step, ranks=3)
    cache = ml.memory.latent_cache(2, 11, LATENT, ROPE, itemsize=4, ranks=3)
    queries = 2 * HEADS * (LATENT + ROPE + LATENT) * 4
    for row in (row for row in run.work if row.what == "attention"):
        assert row.nbytes == cache.by_rank(3)[row.rank] + queries


def test_an_odd_rope_is_refused_and_examples() -> None:
    """Would catch a half of a pair that is left standing, and an example that was right once."""
    with pytest.raises(ValueError, match="rope=3: positions turn pairs"):
        LatentAttention(32, 4, 12, 3)
    for module in (one_card, decode):
        done = doctest.testmod(module, extraglobs={"torch": torch, "ml": ml, "dist": torch.distributed})
        assert done.attempted and not done.failed
