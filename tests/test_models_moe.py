"""The mixture of experts on one card: right against the sum written out, its route and its balance."""

from __future__ import annotations

import doctest

import pytest
import torch

from mindlab.models import moe
from mindlab.models.layers import MLP, GatedMLP
from mindlab.models.moe import MoE, MoEDecoder, Route, balance_loss, combine, expert_counts, load_moe
from mindlab.models.tokens import encode, shipped_text

B, S, HIDDEN, INNER = 2, 7, 12, 20


def draw(*shape: int) -> torch.Tensor:
    """Numbers that are the same in every test."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def by_hand(layer: MoE, x: torch.Tensor) -> torch.Tensor:
    """Token by token, in float64: exponentials of the chosen logits alone, divided by their sum."""
    layer, out = layer.double(), []
    for token in x.double().reshape(-1, HIDDEN):
        logits = (layer.router.weight @ token).tolist()
        chosen = sorted(range(len(logits)), key=lambda each: -logits[each])[: layer.top_k]
        shares = torch.tensor([logits[each] for each in chosen], dtype=torch.float64).softmax(0)
        parts = (share * layer.experts[each](token) for share, each in zip(shares, chosen, strict=True))
        out.append(sum(parts))
    return torch.stack(out).view(x.shape)


@pytest.mark.parametrize(("experts", "top_k"), [(4, 1), (6, 2), (5, 5), (1, 1)])
@pytest.mark.parametrize("mlp", [MLP, GatedMLP])
def test_moe_by_hand(experts: int, top_k: int, mlp: type[MLP]) -> None:
    """Would catch weights that are not renormalised, a softmax over tokens, results given to other tokens."""
    torch.manual_seed(0)
    layer, x = MoE(HIDDEN, INNER, experts, top_k, mlp=mlp), draw(B, S, HIDDEN)
    out = layer(x)
    # float32 sums of some dozens of terms of size 1
    torch.testing.assert_close(out.double(), by_hand(layer, x), atol=1e-5, rtol=0)


def test_moe_in_half_precision() -> None:
    """Would catch weights rounded to bf16 before they are added up, and an output of another dtype."""
    torch.manual_seed(0)
    layer, x = MoE(HIDDEN, INNER, 4, 2).bfloat16(), draw(B, S, HIDDEN).bfloat16()
    out = layer(x)
    assert out.dtype == torch.bfloat16 and layer.last_route.weights.dtype == torch.float32
    torch.testing.assert_close(layer.last_route.weights.sum(-1), torch.ones(B * S))
    # two roundings of bf16 (8 bits) inside an expert whose results are below 1
    torch.testing.assert_close(out.float(), layer.float()(x.float()), atol=2e-2, rtol=2e-2)


def test_no_token_and_one_expert_for_all() -> None:
    """Would catch an expert that fails without tokens, and one that loses tokens when it gets them all."""
    layer = MoE(HIDDEN, INNER, 4, 1)
    assert layer(torch.zeros(0, HIDDEN)).shape == (0, HIDDEN)
    assert expert_counts(layer.last_route).tolist() == [0, 0, 0, 0]
    with torch.no_grad():
        layer.router.weight.zero_()[2] = 1
    x = draw(5, HIDDEN).abs()
    torch.testing.assert_close(layer(x), layer.experts[2](x))
    assert expert_counts(layer.last_route).tolist() == [0, 0, 5, 0]


def test_router_and_chosen_experts_learn() -> None:
    """Would catch a route cut off from the gradients: the router would never change."""
    layer = MoE(HIDDEN, INNER, 4, 2)
    layer(draw(B, S, HIDDEN)).square().sum().backward()
    assert layer.router.weight.grad is not None and layer.router.weight.grad.abs().sum() > 0
    used = {each for each in range(4) if expert_counts(layer.last_route)[each]}
    learning = {index for index, each in enumerate(layer.experts) if each.up.weight.grad.abs().sum() > 0}
    assert used == learning


def test_balance_loss_by_hand() -> None:
    """Would catch a balance that is 1 for every route, or that has no gradient towards an even one."""
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], requires_grad=True)
    route = Route(torch.tensor([[0], [0], [1]]), torch.ones(3, 1), logits.softmax(-1))
    high, low = torch.tensor(2.0).sigmoid(), torch.tensor(1.0).sigmoid()
    first = (2 * high + 1 - low) / 3
    wanted = 2 * (2 / 3 * first + 1 / 3 * (1 - first))
    torch.testing.assert_close(balance_loss(route), wanted)
    balance_loss(route).backward()
    assert (logits.grad[:, 0] > 0).all()


def test_combine_adds_in_float32() -> None:
    """Would catch a sum in bf16: 1 + 1/256 would be lost before the second 1/256 comes."""
    results = torch.tensor([[[1.0], [1 / 256], [1 / 256]]], dtype=torch.bfloat16)
    assert combine(results, torch.ones(1, 3)).item() == 1 + 1 / 128


def test_the_shipped_experts_are_all_used() -> None:
    """Would catch a router that sends most of the text to a few experts: training without a term for balance.

    Even use is a share of 1/8 for each of the 8 experts; a dead one has 0.
    """
    model, text = load_moe(), encode(shipped_text())[:, : 56 * 128].view(56, 128)
    with torch.no_grad():
        model(text)
    for route in model.routes():
        shares = expert_counts(route) / route.experts.numel()
        assert shares.min() > 0.03 and shares.max() < 0.3, shares


def test_each_block_of_the_decoder_has_experts() -> None:
    """Would catch a decoder that keeps a plain MLP, or one router for all layers."""
    torch.manual_seed(0)
    model = MoEDecoder(24, 6, 3, layers=3, experts=5, top_k=2, inner=16)
    with torch.no_grad():
        model(torch.randint(768, (2, 9)))
    routes = model.routes()
    assert [tuple(route.experts.shape) for route in routes] == [(18, 2)] * 3
    assert not torch.equal(routes[0].experts, routes[1].experts)
    assert not any(isinstance(module, MLP) for block in model.blocks for module in block.children())


def test_refusals() -> None:
    """Would catch a top_k or a shape that fails somewhere inside torch."""
    with pytest.raises(ValueError, match="top_k=5 is more than the 4 experts: choose 1 to 4"):
        MoE(HIDDEN, INNER, 4, 5)
    with pytest.raises(ValueError, match="top_k"):
        MoE(HIDDEN, INNER, 4, 0)
    with pytest.raises(ValueError, match="its last dim must be 12"):
        MoE(HIDDEN, INNER, 4, 2)(torch.zeros(2, 3, 11))


def test_examples() -> None:
    """Would catch an example in a docstring that is no longer true."""
    assert doctest.testmod(moe, extraglobs={"torch": torch}).failed == 0
