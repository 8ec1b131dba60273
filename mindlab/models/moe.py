"""A mixture of experts on one card: a router picks `top_k` MLPs for each token and adds their results.

The steps carry the names they have on many cards: route, dispatch (each expert gets the tokens that chose
it), experts, combine (the results come back to their tokens and are added with the router's weights).
x is (…, hidden); every position is one token.

`MoEDecoder` is the small language model of `decoder` with such layers. `python -m mindlab.models.train moe`
makes its weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from mindlab.models.decoder import Decoder
from mindlab.models.layers import MLP, GatedMLP
from mindlab.models.weights import load_weights, shipped
from mindlab.predict.shapes import check_whole


class Route(NamedTuple):
    """Where T tokens go: `experts` and `weights` are (T, top_k), `probabilities` (T, number of experts).

    A token's experts stand in the order of their weights, the largest first, and the weights add up to 1.
    Weights and probabilities are float32, whatever the model's dtype.
    """

    experts: torch.Tensor
    weights: torch.Tensor
    probabilities: torch.Tensor


class MoE(nn.Module):
    """A router and its experts; in and out (…, hidden). The result is sum over k of weight_k · expert_k(x).

    Softmax over all experts, the `top_k` largest, their weights divided by their sum: Jiang et al. 2024,
    "Mixtral of Experts", section 2.1 (softmax of the top logits, which is the same). `last_route` is the
    route of the last forward. Raises ValueError where `top_k` is not between 1 and `experts`.

    >>> layer = MoE(8, 16, experts=4, top_k=2)
    >>> layer(torch.ones(2, 3, 8)).shape, layer.last_route.experts.shape
    (torch.Size([2, 3, 8]), torch.Size([6, 2]))
    """

    last_route: Route

    def __init__(
        self,
        hidden: int,
        inner: int,
        experts: int,
        top_k: int,
        *,
        mlp: type[MLP] | type[GatedMLP] = MLP,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_whole(1, experts=experts, top_k=top_k)
        if top_k > experts:
            raise ValueError(f"top_k={top_k} is more than the {experts} experts: choose 1 to {experts}")
        self.hidden, self.top_k = hidden, top_k
        self.router = nn.Linear(hidden, experts, bias=False)
        self.experts = nn.ModuleList(mlp(hidden, inner, bias=bias) for _ in range(experts))

    def route(self, tokens: torch.Tensor) -> Route:
        """The experts and weights of each of the tokens (T, hidden)."""
        return chosen(self.router(tokens), self.top_k)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, hidden) from (…, hidden)."""
        if x.shape[-1] != self.hidden:
            raise ValueError(
                f"x {tuple(x.shape)} has {x.shape[-1]} features, the experts take {self.hidden}: "
                f"its last dim must be {self.hidden}"
            )
        tokens = x.reshape(-1, self.hidden)
        self.last_route = route = self.route(tokens)
        results = tokens.new_zeros(*route.experts.shape, self.hidden)
        for index, expert in enumerate(self.experts):
            token, slot = (route.experts == index).nonzero(as_tuple=True)
            results[token, slot] = expert(tokens[token])
        return combine(results, route.weights).view(x.shape)


def chosen(logits: torch.Tensor, top_k: int) -> Route:
    """The route that the router's logits (T, number of experts) give.

    >>> chosen(torch.tensor([[0.0, 2.0, 2.0]]), 2).weights
    tensor([[0.5000, 0.5000]])
    """
    probabilities = logits.float().softmax(-1)
    weights, experts = probabilities.topk(top_k, dim=-1)
    return Route(experts, weights / weights.sum(-1, keepdim=True), probabilities)


def combine(results: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """(T, hidden) in the dtype of results (T, top_k, hidden) times weights (T, top_k), added in float32.

    >>> combine(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[0.75, 0.25]]))
    tensor([[1.5000]])
    """
    return (results.float() * weights.unsqueeze(-1)).sum(1).to(results.dtype)


def expert_counts(route: Route) -> torch.Tensor:
    """How many times each expert was chosen, (number of experts), int64; they add up to T · top_k.

    >>> expert_counts(Route(torch.tensor([[0, 2], [2, 1]]), torch.ones(2, 2) / 2, torch.ones(2, 4) / 4))
    tensor([1, 1, 2, 0])
    """
    return torch.bincount(route.experts.flatten(), minlength=route.probabilities.shape[-1])


def balance_loss(route: Route) -> torch.Tensor:
    """E · sum over experts of f_e · P_e, a scalar with gradients: 1 if tokens and probabilities are even.

    f_e is the share of choices that expert e got, P_e its mean probability. Fedus, Zoph and Shazeer 2021,
    "Switch Transformers", equations 4 to 6; with top_k above 1, f counts all of a token's choices.

    >>> balance_loss(Route(torch.tensor([[0], [1]]), torch.ones(2, 1), torch.ones(2, 2) / 2)).item()
    1.0
    """
    shares = expert_counts(route) / route.experts.numel()
    return shares.numel() * (shares * route.probabilities.mean(0)).sum()


class MoEDecoder(Decoder):
    """A Decoder with a mixture of experts in place of each block's MLP; logits (B, S, vocabulary) from ids.

    >>> model = MoEDecoder(experts=8, top_k=2)
    >>> model(torch.zeros(1, 5, dtype=torch.int64)).shape, len(model.routes())
    (torch.Size([1, 5, 768]), 4)
    """

    def __init__(
        self,
        hidden: int = 64,
        heads: int = 4,
        kv_heads: int = 2,
        layers: int = 4,
        *,
        experts: int = 8,
        top_k: int = 2,
        inner: int = 64,
        context: int = 128,
    ) -> None:
        super().__init__(hidden, heads, kv_heads, layers, inner=inner, context=context)
        for block in self.blocks:
            block.mlp = MoE(hidden, inner, experts, top_k)

    def routes(self) -> list[Route]:
        """The route of each layer's last forward."""
        return [layer.last_route for layer in self.modules() if isinstance(layer, MoE)]


def load_moe() -> MoEDecoder:
    """The trained model that ships, float32, on the CPU: 4 layers of 8 experts, 2 for each token.

    >>> load_moe().blocks[0].mlp.router
    Linear(in_features=64, out_features=8, bias=False)
    """
    model = MoEDecoder()
    load_weights(model, shipped("moe"))
    return model
