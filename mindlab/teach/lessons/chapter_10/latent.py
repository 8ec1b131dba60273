"""Exercise 10.3: attention over a latent cache, with the fewest numbers under way."""

from __future__ import annotations

import torch

from mindlab.parallel.decode import attend_shard, merge_scattered
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_10 import given, merge

HEADS, LATENT, ROPE, DIM = 5, 24, 4, 6
Tensor = torch.Tensor
Given = tuple[Tensor, Tensor, Tensor, float]


def my_latent(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Each head's attention over all ranks' entries, on every rank."""
    latents = entries[..., : values.shape[1]]
    out, lse = attend_shard(q, entries, latents, scale=scale)
    out = torch.einsum("bshc,hcd->bshd", out, values)
    return merge_scattered(out, lse)


def head_by_head(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Right: one head after the other, and a merge of one's own."""
    latents = entries[..., : values.shape[1]]
    out, lse = attend_shard(q, entries, latents, scale=scale)
    heads = [out[:, :, head] @ values[head] for head in range(len(values))]
    return merge.merged_over_ranks(torch.stack(heads, 2), lse)


def values_made_first(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Right: every head's values are made of the latents before attention; more work, the same bytes."""
    made = torch.einsum("bsuc,hcd->bshd", entries[..., : values.shape[1]], values)
    keys = entries.expand(-1, -1, len(values), -1)
    return merge_scattered(*attend_shard(q, keys, made, scale=scale))


def latents_travel(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: the mean latents are merged, and the values made of them on every rank."""
    out = merge_scattered(*attend_shard(q, entries, entries[..., : values.shape[1]], scale=scale))
    return torch.einsum("bshc,hcd->bshd", out, values)


def latents_only(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: the part with the position is left out of the scores."""
    latents = entries[..., : values.shape[1]]
    out, lse = attend_shard(q[..., : values.shape[1]], latents, latents, scale=scale)
    return merge_scattered(torch.einsum("bshc,hcd->bshd", out, values), lse)


def usual_scale(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: the scale of the absorbed queries' length, not of the heads'."""
    out, lse = attend_shard(q, entries, entries[..., : values.shape[1]])
    return merge_scattered(torch.einsum("bshc,hcd->bshd", out, values), lse)


def own_entries(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: the attention over this rank's entries alone."""
    out, _ = attend_shard(q, entries, entries[..., : values.shape[1]], scale=scale)
    return torch.einsum("bshc,hcd->bshd", out, values)


def unweighted(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: the LSE is forgotten."""
    out, lse = attend_shard(q, entries, entries[..., : values.shape[1]], scale=scale)
    return merge.averages(torch.einsum("bshc,hcd->bshd", out, values), lse)


def values_left_out(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: mean latents are returned."""
    return merge_scattered(*attend_shard(q, entries, entries[..., : values.shape[1]], scale=scale))


def another_heads_values(q: Tensor, entries: Tensor, values: Tensor, scale: float) -> Tensor:
    """Wrong: all heads get the first one's values."""
    out, lse = attend_shard(q, entries, entries[..., : values.shape[1]], scale=scale)
    return merge_scattered(out @ values[0], lse)


def _given(seed: int, rank: int, trial: Trial) -> Given:
    q = inputs.normal(seed, "q", given.BATCH, 1, HEADS, LATENT + ROPE)
    entries = inputs.normal(seed, "entries", given.BATCH, trial["length"], 1, LATENT + ROPE) + 0.5
    values = inputs.normal(seed, "values", HEADS, LATENT, DIM, scale=LATENT**-0.5)
    return q, entries[:, rank :: trial.ranks].clone(), values, (DIM + ROPE) ** -0.5


def _one_card(all_given: list[Given]) -> list[Tensor]:
    q, _, values, scale = all_given[0]
    entries = torch.cat([one[1] for one in all_given], 1)
    out = given.exact(q, entries, entries[..., :LATENT], scale)
    return [torch.einsum("bshc,hcd->bshd", out, values)] * len(all_given)


def _sent(dim: int, trial: Trial) -> Quantity:
    return volume.decode_attention(given.BATCH, HEADS, dim, trial.ranks, itemsize=4)


EXERCISE = Exercise(
    name="10.3",
    title="A latent cache",
    statement="""
In multi-latent attention the cache keeps one entry a token, for all heads: a latent of 24 numbers, and a
rotated key of 4. Write `my_latent(q, entries, values, scale)`. `q` (batch, 1, heads, 28) are the heads'
queries, turned so that they meet entries as they are; `entries` (batch, S_r, 1, 28) is this rank's shard.
Scores are products with whole entries, times `scale`. What is added up are the latents, the first 24
numbers; a head's output is that sum times its matrix in `values` (heads, 24, 6).

Return the output (batch, 1, heads, 6) over all ranks' entries, on every rank. `attend_shard(q, k, v,
scale=)` and `merge_scattered(out, lse)` are at hand. Which numbers should travel?
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(
            OfTrial(lambda trial: _sent(DIM, trial)), naive=OfTrial(lambda trial: _sent(LATENT, trial))
        )
    ),
    calls=("all_to_all",),
    whole=lambda trial: given.BATCH * HEADS * DIM * 4,
    grain=lambda trial: 0,
    dims=given.DIMS,
    trials=(
        Trial(4, sizes={"length": 17}),
        Trial(3, sizes={"length": 17}),
        Trial(4, sizes={"length": 2}),
    ),
    hints=(
        "A merge multiplies each part by a weight and adds. A head's matrix multiplies what comes out. In "
        "which order may that be done?",
        "Draw one head's part: 24 numbers, times a (24, 6) matrix: 6 numbers. Which of the two tensors would "
        "you send? The weights of the merge are one number a head, so they pass through the matrix.",
        """
    latents = ...                                # of every entry
    out, lse = attend_shard(q, ..., ..., scale=scale)
    out = ...                                    # (batch, 1, heads, 6)
    return merge_scattered(..., lse)
""",
    ),
    solution=my_latent,
    explanation="""
$\\sum_i w_i (O_i V) = (\\sum_i w_i O_i) V$: the merge is linear, so a head's matrix may come before it. Then
head_dim numbers a head travel in place of d_c. In DeepSeek-V3 that is 128 in place of 512.

The cache is read once, for all heads, as key and as value at once. Cut by heads it would not shrink: there
is one. Cut by position each rank holds 1/p.
""",
    right=(head_by_head, values_made_first),
    wrong=(
        Wrong(latents_travel, r"times the allowed"),
        Wrong(latents_only, r"Rank 0: element"),
        Wrong(usual_scale, r"Rank 0: element"),
        Wrong(own_entries, r"Nothing was sent"),
        Wrong(unweighted, r"Rank 0: element"),
        Wrong(values_left_out, r"shape \(2, 1, 5, 24\), and \(2, 1, 5, 6\) is wanted"),
        Wrong(another_heads_values, r"Rank 0: element"),
    ),
)
