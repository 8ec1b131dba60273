"""Exercise 03.3: two branches beside each other, one all-gather and one reduce-scatter for both."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mindlab.parallel import sequence
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong

Tensor = torch.Tensor
Tensors = list[torch.Tensor]
Given = tuple[Tensor, Tensor, Tensors, Tensors, list[int]]
BATCH, EPS = 2, 1e-6


def shard_of_both(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """This rank's positions of x plus both branches."""
    whole = sequence.gather_sequence(x, sizes)
    terms = torch.zeros_like(whole)
    for scale, up, down in zip(scales, ups, downs, strict=True):
        normed = F.rms_norm(whole, scale.shape, scale, 1e-6)
        terms += F.linear(F.gelu(F.linear(normed, up)), down)
    return x + sequence.scatter_sequence(terms, sizes)


def scaled_afterwards(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Right: the norm without weights is computed once, on the shard; the weights follow."""
    whole = sequence.gather_sequence(F.rms_norm(x, x.shape[-1:], eps=EPS), sizes)
    terms = [F.gelu((whole * scales[i]) @ ups[i].T) @ downs[i].T for i in range(2)]
    return sequence.scatter_sequence(terms[0] + terms[1], sizes) + x


def side_by_side(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Right: both downward products as one; positions stand first all the time."""
    whole = sequence.gather_sequence(x, sizes)
    inner = [F.gelu(F.rms_norm(whole, scales[i].shape, scales[i], EPS) @ ups[i].T) for i in range(2)]
    terms = torch.cat(inner, dim=-1) @ torch.cat(downs, dim=1).T
    return x + sequence.scatter_sequence(terms, sizes)


def two_gathers(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: right values; each norm's result is gathered."""
    terms: list[Tensor] = []
    for scale, up, down in zip(scales, ups, downs, strict=True):
        whole = sequence.gather_sequence(F.rms_norm(x, scale.shape, scale, EPS), sizes)
        terms.append(F.linear(F.gelu(F.linear(whole, up)), down))
    return x + sequence.scatter_sequence(terms[0] + terms[1], sizes)


def two_scatters(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: right values; each branch is summed by itself."""
    whole = sequence.gather_sequence(x, sizes)
    for scale, up, down in zip(scales, ups, downs, strict=True):
        normed = F.rms_norm(whole, scale.shape, scale, EPS)
        x = x + sequence.scatter_sequence(F.linear(F.gelu(F.linear(normed, up)), down), sizes)
    return x


def one_after_the_other(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: the second branch gets what the first one made."""
    for scale, up, down in zip(scales, ups, downs, strict=True):
        whole = sequence.gather_sequence(F.rms_norm(x, scale.shape, scale, EPS), sizes)
        x = x + sequence.scatter_sequence(F.linear(F.gelu(F.linear(whole, up)), down), sizes)
    return x


def one_norm_for_both(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: the second branch has weights of its own."""
    whole = sequence.gather_sequence(F.rms_norm(x, scales[0].shape, scales[0], EPS), sizes)
    terms = [F.linear(F.gelu(F.linear(whole, ups[i])), downs[i]) for i in range(2)]
    return x + sequence.scatter_sequence(terms[0] + terms[1], sizes)


def residual_in_each(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: x is in each of the p terms."""
    whole = sequence.gather_sequence(x, sizes)
    terms = whole.clone()
    for scale, up, down in zip(scales, ups, downs, strict=True):
        terms += F.linear(F.gelu(F.linear(F.rms_norm(whole, scale.shape, scale, EPS), up)), down)
    return sequence.scatter_sequence(terms, sizes)


def no_residual(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: x is not added at all."""
    return shard_of_both(x, scales, ups, downs, sizes) - x


def summed_then_cut(x: Tensor, scales: Tensor, ups: Tensors, downs: Tensors, sizes: list[int]) -> Tensor:
    """Wrong: right values; an all-reduce, of which each rank keeps a part."""
    whole = sequence.gather_sequence(x, sizes)
    terms = torch.zeros_like(whole)
    for scale, up, down in zip(scales, ups, downs, strict=True):
        terms += F.linear(F.gelu(F.linear(F.rms_norm(whole, scale.shape, scale, EPS), up)), down)
    dist.all_reduce(terms)
    return x + torch.split(terms, sizes, dim=1)[dist.get_rank()]


def _given(seed: int, rank: int, trial: Trial) -> Given:
    """This rank's positions of x, both norms' weights, and its features of both branches' weights."""
    ranks, hidden, inner = trial.ranks, trial["hidden"], trial["inner"]
    x = inputs.normal(seed, "x", BATCH, trial["sequence"], hidden)
    scales = 1 + inputs.normal(seed, "scales", 2, hidden, scale=0.3)
    ups = [inputs.normal(seed, f"up {i}", inner, hidden, scale=hidden**-0.5) for i in range(2)]
    downs = [inputs.normal(seed, f"down {i}", hidden, inner, scale=inner**-0.5) for i in range(2)]
    sizes = [part.shape[1] for part in x.tensor_split(ranks, dim=1)]
    mine = inputs.part(x, rank, ranks, dim=1)
    own = (
        [inputs.part(up, rank, ranks) for up in ups],
        [inputs.part(down, rank, ranks, dim=1) for down in downs],
    )
    return mine, scales, own[0], own[1], sizes


def _reference(given: list[Given]) -> list[Tensor]:
    x = torch.cat([parts[0] for parts in given], dim=1)
    out = x.clone()
    for i, scale in enumerate(given[0][1]):
        up = torch.cat([parts[2][i] for parts in given])
        down = torch.cat([parts[3][i] for parts in given], dim=1)
        out += F.linear(F.gelu(F.linear(F.rms_norm(x, scale.shape, scale, EPS), up)), down)
    return [part.clone() for part in torch.split(out, given[0][4], dim=1)]


def _one_pair(trial: Trial) -> Quantity:
    return volume.sequence_parallel(
        BATCH, trial["sequence"], trial["hidden"], trial.ranks, itemsize=4, pairs=1
    )


EXERCISE = Exercise(
    name="03.3",
    title="Two branches, one all-gather and one reduce-scatter",
    statement="""
Some models put attention and MLP beside each other. Here both branches are MLPs, so that the code stays
short. Write `shard_of_both(x, scales, ups, downs, sizes)`: this rank's positions of `x`, plus for each of two
branches `down(gelu(up(rms_norm(x, scale))))`.

Each rank gets its positions of `x`, (batch, own positions, hidden); `scales`, (2, hidden), the weights of
both norms; its features of the weights `ups` and `downs`, two each; and how many positions each rank has.
`eps` is 1e-6. `sequence.gather_sequence(x, sizes)` and `sequence.scatter_sequence(terms, sizes)` may be
used.

What is sent must be no more than one all-reduce would send.
""",
    inputs=_given,
    reference=_reference,
    calls=("send", "recv", "isend", "irecv", "all_gather", "reduce_scatter", "all_reduce"),
    budget=Budget(sent=Bound(OfTrial(_one_pair), naive=OfTrial(lambda trial: 2 * _one_pair(trial)))),
    whole=lambda trial: 4 * BATCH * trial["sequence"] * trial["hidden"],
    grain=lambda trial: 0,
    dims=("batch", "sequence", "hidden"),
    trials=(
        Trial(4, sizes={"sequence": 12, "hidden": 24, "inner": 32}),
        Trial(4, sizes={"sequence": 14, "hidden": 24, "inner": 30}),
        Trial(3, sizes={"sequence": 14, "hidden": 24, "inner": 32}),
    ),
    hints=(
        "The two branches want two different tensors for all positions. Which single tensor are both made"
        " of?",
        "Draw the way of one position: x, two norms, two branches, one sum. Put the gather as far to the "
        "left, and the scatter as far to the right, as it goes. What does each rank then do p times over?",
        """
    whole = ...                                # gathered once, before the norms
    terms = ...                                # both branches' terms, added before anything is sent
    return ... + sequence.scatter_sequence(terms, sizes)
""",
    ),
    solution=shard_of_both,
    explanation="""
Gathered is x, not the two norms' results: one tensor for two. Each rank then computes both norms of all
positions, a little work p times over, and half of the bytes of two pairs are saved. Terms of one sum may be
added before they are summed over ranks. x itself comes in once, on its own rank.

Or without that work: the two norms differ in their weights only. What they share can be gathered.
""",
    right=(scaled_afterwards, side_by_side),
    wrong=(
        Wrong(two_gathers, r"Rank 0 sent .*, 1.5 times the allowed"),
        Wrong(two_scatters, r"Rank 0 sent .*, 1.5 times the allowed"),
        Wrong(one_after_the_other, r"Rank 0: element .* elements are wrong"),
        Wrong(one_norm_for_both, r"Rank 0: element .* elements are wrong"),
        Wrong(residual_in_each, r"right but for 3 x `x` too much"),
        Wrong(no_residual, r"right but for 1 x `x` too little"),
        Wrong(summed_then_cut, r"All ranks together sent .*, 1.5 times the allowed"),
    ),
)
