"""Case 06-a: a combine without weights."""

from __future__ import annotations

import torch

from mindlab.teach.lesson import Case, Choice, Exercise, Trial, Wrong
from mindlab.teach.lessons.chapter_06 import given

Tensor = torch.Tensor


def mean_of_results(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """(T, H): what came back from the experts, one row for each token."""
    tokens, k = choices.shape
    order = choices.flatten().argsort(stable=True)
    out = returned.new_zeros(tokens, returned.shape[1])
    out.index_add_(0, order // k, returned)
    return out / k


def combined(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """(T, H): what came back from the experts, one row for each token."""
    order = choices.flatten().argsort(stable=True)
    results = torch.empty_like(returned)
    results[order] = returned
    results = results.view(*choices.shape, returned.shape[1])
    return (results * weights.unsqueeze(-1)).sum(1)


def added_row_by_row(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Right: each row is weighted and added to its token."""
    order = choices.flatten().argsort(stable=True)
    weighted = returned * weights.flatten()[order].unsqueeze(-1)
    out = returned.new_zeros(len(choices), returned.shape[1])
    return out.index_add_(0, order // choices.shape[1], weighted)


def by_a_matrix(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Right: a matrix of tokens and rows with the weights in it."""
    order = choices.flatten().argsort(stable=True)
    matrix = returned.new_zeros(len(choices), len(returned))
    row = torch.arange(len(returned), device=returned.device)
    matrix[order // choices.shape[1], row] = weights.flatten()[order]
    return matrix @ returned


def plain_sum(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: the sum of the results."""
    return mean_of_results(returned, choices, weights) * choices.shape[1]


def weights_twice(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: as if the experts had not applied them, and once more."""
    return combined(returned, choices, weights.square())


def weights_in_the_order_of_tokens(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: rows are in the order of experts, weights in that of tokens."""
    order = choices.flatten().argsort(stable=True)
    weighted = returned * weights.flatten().unsqueeze(-1)
    return torch.zeros_like(returned[: len(choices)]).index_add_(0, order // choices.shape[1], weighted)


def order_not_undone(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: the order is applied a second time, where it has to be undone."""
    order = choices.flatten().argsort(stable=True)
    return (returned[order].view(*choices.shape, returned.shape[1]) * weights.unsqueeze(-1)).sum(1)


def overwritten(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: the second result takes the place of the first."""
    order = choices.flatten().argsort(stable=True)
    out = torch.zeros_like(returned[: len(choices)])
    for row, at in enumerate(order.tolist()):
        out[at // choices.shape[1]] = weights.flatten()[at] * returned[row]
    return out


def not_added(returned: Tensor, choices: Tensor, weights: Tensor) -> Tensor:
    """Wrong: the results stand beside each other."""
    order = choices.flatten().argsort(stable=True)
    results = torch.empty_like(returned)
    results[order] = returned
    return results * weights.flatten().unsqueeze(-1)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
    x, choices, weights, experts = given.mixture(seed, rank, trial)
    order = choices.flatten().argsort(stable=True)
    return given.results(x, choices, experts).flatten(0, 1)[order].clone(), choices, weights


def _one_card(all_given: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    found = []
    for returned, choices, weights in all_given:
        order = choices.flatten().argsort(stable=True).tolist()
        out = torch.zeros(len(choices), given.HIDDEN)
        for row, at in enumerate(order):
            out[at // given.TOP_K] += weights.flatten()[at] * returned[row]
        found.append(out)
    return found


REPAIR = Exercise(
    name="06-a",
    title="A combine that was tested with a fresh router",
    statement="""
(T, H): what came back from the experts, one row for each token. `returned` is (2 T, H): a row for each token
and expert, in the order in which they left: by expert, and of one expert by token. `choices` (T, 2) are the
experts of each token, `weights` (T, 2) what the router gave them. T may be 0.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    dims=("token", "feature"),
    trials=(
        Trial(4, sizes={"experts": 8, "even": 1}),
        Trial(4, sizes={"experts": 6}),
        Trial(3, sizes={"experts": 8}),
    ),
    hints=(
        "What does the program do with its third argument?",
        "A token's result is the sum over its experts of weight times result. The rows stand in the order of "
        "travel; which token, and which of its two choices, does a row belong to?",
        """
    order = ...                  # the order in which the choices left
    results[...] = returned      # back to token by token
    return ...                   # times the weights, added over the choices
""",
    ),
    solution=combined,
    explanation="""
With a router that has learned nothing all weights are 1/k, and the mean is right. With a trained one it is
not: the first choice counts more than the second.

Where the weights are applied is a convention. At home, they need not travel. On the experts' side, the sum of
a rank's experts can go back as one row. Both at once, or neither, are the two ways to get it wrong, and the
shapes tell nothing.
""",
    right=(added_row_by_row, by_a_matrix),
    wrong=(
        Wrong(mean_of_results, r"Rank 0: element .* are wrong.*experts 8, even 1 it was right"),
        Wrong(plain_sum, r"every element is 2 times the right one"),
        Wrong(weights_twice, r"every element is 0\.5 times the right one"),
        Wrong(weights_in_the_order_of_tokens, r"72 of 72 elements are wrong.*experts 8, even 1 it was right"),
        Wrong(order_not_undone, r"64 of 64 elements are wrong\. No rank"),
        Wrong(overwritten, r"Rank 0: element .* are wrong"),
        Wrong(not_added, r"shape \(16, 8\), and \(8, 8\) is wanted"),
    ),
)

CASE = Case(
    name="06-a",
    title="A combine that was tested with a fresh router",
    story="""
A layer of experts goes over to two all-to-alls. The test builds a layer whose router is all zeros, so that
every rank gets as many tokens, compares with the old code, and passes to the last digit. With the weights of
a trained model the text becomes poor, but is not noise.
""",
    program=mean_of_results,
    causes=(
        Choice(
            "The rows are given to the wrong tokens: `order // k` is off by one.",
            "`order` are places in the flat list of choices, k for each token; `order // k` is the token.",
            holds=False,
        ),
        Choice(
            "The results are added without the router's weights, as if all were 1/k.",
            "A router of zeros gives every expert the same weight, and the mean is the right sum. A trained "
            "router does not.",
            holds=True,
        ),
        Choice(
            "`index_add_` adds in another order than one card does.",
            "Another order changes the last digits only.",
            holds=False,
        ),
        Choice(
            "A rank without tokens divides by zero.",
            "It divides an empty tensor by k, which is 2.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    shown_trial=1,
    source="deepseek-ai/DeepEP issue 112 (2025) asks who applies the weights: before the combine the caller, "
    "or in it the kernel for low latency; the program and its test are ours",
)
