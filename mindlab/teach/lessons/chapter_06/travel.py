"""Ways to bring tokens to experts and back, right and wrong, for the checks of several lessons."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.parallel.expert import swapped

Tensor = torch.Tensor


def there_and_back(x: Tensor, choices: Tensor, experts: Tensor) -> Tensor:
    """Each token's result from each of its experts, (T, k, H): ids of experts travel beside the tokens."""
    p, rank, k = dist.get_world_size(), dist.get_rank(), choices.shape[1]
    flat = choices.flatten()
    home = homes(experts)
    order = flat.argsort(stable=True)
    sent = torch.bincount(home[flat], minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    rows, ids = (swapped(one, sent, coming) for one in (x[order // k], flat[order]))
    for expert in (home == rank).nonzero().flatten():
        rows[ids == expert] = torch.tanh(rows[ids == expert] @ experts[expert])
    results = torch.empty(len(flat), x.shape[1], device=x.device)
    results[order] = swapped(rows, coming, sent)
    return results.view(-1, k, x.shape[1])


def homes(experts: Tensor) -> Tensor:
    """For each expert its rank, dealt out as `tensor_split` deals."""
    owned = torch.arange(len(experts), device=experts.device).tensor_split(dist.get_world_size())
    return torch.cat([torch.full_like(of, rank) for rank, of in enumerate(owned)])


def id_as_a_feature(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Right: the expert's number travels as one more feature of the token."""
    p, rank = dist.get_world_size(), dist.get_rank()
    home = homes(experts)
    token, slot = torch.ones_like(choices).nonzero(as_tuple=True)
    order = home[choices[token, slot]].argsort(stable=True)
    token, slot = token[order], slot[order]
    sent = torch.bincount(home[choices.flatten()], minlength=p)
    coming = swapped(sent, [1] * p, [1] * p)
    rows = swapped(torch.cat([x[token], choices[token, slot, None].float()], 1), sent, coming)
    x_there, ids = rows[:, :-1], rows[:, -1].long()
    out = torch.empty_like(x_there)
    for expert in range(len(experts)):
        if home[expert] == rank:
            out[ids == expert] = torch.tanh(x_there[ids == expert] @ experts[expert])
    back = swapped(out, coming, sent)
    return torch.zeros_like(x).index_add_(0, token, back * weights[token, slot, None])


def ids_beside(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Right: ids travel beside the tokens, weights stay at home."""
    return (there_and_back(x, choices, experts) * weights[..., None]).sum(1)


def without_weights(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: the results are added as they are."""
    return there_and_back(x, choices, experts).sum(1)


def mean_for_weights(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: the mean, right where all weights are 1/k."""
    return there_and_back(x, choices, experts).mean(1)


def weights_of_others(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: the weights are in another order than the results."""
    return (there_and_back(x, choices, experts) * weights.flip(-1)[..., None]).sum(1)


def in_the_order_of_travel(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: what comes back is not put in its token's place."""
    order = choices.flatten().argsort(stable=True)
    results = there_and_back(x, choices, experts).flatten(0, 1)[order].view(*choices.shape, -1)
    return (results * weights[..., None]).sum(1)


def everything_twice(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: right values, at twice the bytes."""
    ids_beside(x, choices, weights, experts)
    return ids_beside(x, choices, weights, experts)


def idle_rank_stays_away(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: a rank without tokens takes no part, and the others wait for it."""
    if not len(x):
        return x
    return ids_beside(x, choices, weights, experts)


def lengths_gathered(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong here: one more collective, which nobody needs."""
    lengths = torch.tensor([len(x)], device=x.device)
    every = [torch.empty_like(lengths) for _ in range(dist.get_world_size())]
    dist.all_gather(every, lengths)
    return ids_beside(x, choices, weights, experts)


def every_expert_at_home(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: every rank computes its own tokens with all the experts; nothing is sent."""
    out = torch.zeros_like(x)
    for expert, matrix in enumerate(experts):
        token, slot = (choices == expert).nonzero(as_tuple=True)
        out[token] += weights[token, slot, None] * torch.tanh(x[token] @ matrix)
    return out


def own_experts_only(x: Tensor, choices: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
    """Wrong: each rank applies the experts that it holds to its own tokens; the others' are missing."""
    held = homes(experts)[choices] == dist.get_rank()
    results = there_and_back(x, choices, experts)
    return (results * (weights * held)[..., None]).sum(1)
