"""Case 03-a: an all-reduce that looks superfluous."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn import functional as F

from mindlab.predict import sources, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]
BATCH, HEAD, EPS = 2, 8, 1e-6


def norm_queries_and_keys(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """This rank's heads, normalised over the features of all heads."""
    q_scale = torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6)
    k_scale = torch.rsqrt(k.square().mean(-1, keepdim=True) + 1e-6)
    return q * q_scale * q_weight, k * k_scale * k_weight


def repaired(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """The same, with one small all_reduce for both."""
    means = torch.stack([q.square().mean(-1), k.square().mean(-1)])
    dist.all_reduce(means)
    q_scale, k_scale = torch.rsqrt(means / dist.get_world_size() + 1e-6).unsqueeze(-1)
    return q * q_scale * q_weight, k * k_scale * k_weight


def sums_and_counts(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Right: sums of squares, divided by the number of all features."""
    p = dist.get_world_size()
    sums = torch.cat([q.square().sum(-1).flatten(), k.square().sum(-1).flatten()])
    dist.all_reduce(sums)
    of_q, of_k = (half.view(*q.shape[:-1], 1) for half in sums.chunk(2))
    q = q / (of_q / (p * q.shape[-1]) + EPS).sqrt() * q_weight
    return q, k / (of_k / (p * k.shape[-1]) + EPS).sqrt() * k_weight


def gathered_sums(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Right: two numbers a token from each rank, added by everybody."""
    own = torch.stack([q.square().mean(-1), k.square().mean(-1)])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    means = torch.stack(every).mean(0).unsqueeze(-1)
    return q / (means[0] + EPS).sqrt() * q_weight, k / (means[1] + EPS).sqrt() * k_weight


def not_divided(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong: the sum of the ranks' means is taken for the mean."""
    means = torch.stack([q.square().mean(-1), k.square().mean(-1)])
    dist.all_reduce(means)
    q_scale, k_scale = torch.rsqrt(means + EPS).unsqueeze(-1)
    return q * q_scale * q_weight, k * k_scale * k_weight


def means_of_roots(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong: roots are averaged, where the root of the average is wanted."""
    roots = torch.stack([q.square().mean(-1).sqrt(), k.square().mean(-1).sqrt()])
    dist.all_reduce(roots)
    of_q, of_k = (roots / dist.get_world_size() + EPS).unsqueeze(-1)
    return q / of_q * q_weight, k / of_k * k_weight


def one_for_both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong: queries and keys share one mean."""
    p = dist.get_world_size()
    both = torch.cat([q, k], dim=-1)
    mean = both.square().mean(-1)
    dist.all_reduce(mean)
    scale = torch.rsqrt(mean / p + EPS).unsqueeze(-1)
    return q * scale * q_weight, k * scale * k_weight


def two_all_reduces(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong here: right values; one message each for queries and keys."""
    out = []
    for x, weight in ((q, q_weight), (k, k_weight)):
        mean = x.square().mean(-1)
        dist.all_reduce(mean)
        out.append(x / (mean / dist.get_world_size() + EPS).sqrt().unsqueeze(-1) * weight)
    return out[0], out[1]


def all_heads_gathered(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong: right values, for the price of all queries and keys."""
    own = torch.cat([q, k], dim=-1)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    qs, ks = zip(*(part.split([q.shape[-1], k.shape[-1]], dim=-1) for part in every), strict=True)
    scales = [torch.rsqrt(torch.cat(x, -1).square().mean(-1, keepdim=True) + EPS) for x in (qs, ks)]
    return q * scales[0] * q_weight, k * scales[1] * k_weight


def head_by_head(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> Pair:
    """Wrong: each head by itself, which is another model's norm."""
    out = []
    for x, weight in ((q, q_weight), (k, k_weight)):
        heads = x.unflatten(-1, (-1, HEAD))
        out.append(F.rms_norm(heads, (HEAD,), eps=EPS).flatten(-2) * weight)
    return out[0], out[1]


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """This rank's heads of queries and keys, some heads larger than others, and its part of the weights."""
    parts = []
    for name in ("heads", "kv_heads"):
        features = trial[name] * HEAD
        size = torch.linspace(0.5, 2.5, trial[name]).repeat_interleave(HEAD)
        x = inputs.normal(seed, name, BATCH, trial["sequence"], features) * size
        weight = 1 + inputs.normal(seed, f"{name} weight", features, scale=0.2)
        parts += [inputs.part(one, rank, trial.ranks, dim=-1) for one in (x, weight)]
    return parts[0], parts[2], parts[1], parts[3]


def _reference(given: list[tuple[Tensor, ...]]) -> list[Pair]:
    out = []
    for x, weight in ((0, 2), (1, 3)):
        whole, scale = (torch.cat([parts[place] for parts in given], dim=-1) for place in (x, weight))
        normed = F.rms_norm(whole, scale.shape, scale, EPS)
        out.append([part.clone() for part in normed.chunk(len(given), dim=-1)])
    return list(zip(*out, strict=True))


def _two_a_token(trial: Trial) -> Quantity:
    """Two float32 a token, summed: one for the queries, one for the keys."""
    return volume.ring_all_reduce(4 * 2 * BATCH * trial["sequence"], trial.ranks)


def _gathered(trial: Trial) -> Quantity:
    """The same two, from each rank to each other one."""
    nbytes = 4 * 2 * BATCH * trial["sequence"] * (trial.ranks - 1)
    return Quantity(nbytes, "B", r"(p-1)\,2\,b\,s\,e", sources.COUNTED_BY_HAND, ranks=trial.ranks)


def _all_heads(trial: Trial) -> Quantity:
    features = (trial["heads"] + trial["kv_heads"]) * HEAD
    return volume.ring_all_gather(4 * BATCH * trial["sequence"] * features, trial.ranks)


REPAIR = Exercise(
    name="03-a",
    title="An all-reduce that looks superfluous",
    statement="RMSNorm over the features of all heads, queries and keys apart; few bytes, one collective.",
    inputs=_given,
    reference=_reference,
    results=("queries", "keys"),
    calls=("all_reduce", "all_gather"),
    budget=Budget(
        sent=Bound(OfTrial(_two_a_token), naive=OfTrial(_all_heads), allowed=OfTrial(_gathered)),
        collectives={"all_reduce": 1, "all_gather": 1},
    ),
    whole=lambda trial: 4 * BATCH * trial["sequence"] * (trial["heads"] + trial["kv_heads"]) * HEAD,
    grain=lambda trial: 0,
    trials=(
        Trial(4, sizes={"sequence": 10, "heads": 24, "kv_heads": 12}),
        Trial(3, sizes={"sequence": 10, "heads": 24, "kv_heads": 12}),
    ),
    hints=(
        "Over which features does the model take the mean square: those of one head, or of all? How many "
        "of them does a rank hold?",
        "Draw the features of one token as a row of boxes, one a head, and cut the row for the ranks. A "
        "mean over the row is made of a number from each piece. Queries and keys are two rows.",
        """
    means = torch.stack([...])          # this rank's mean squares: of q, of k
    dist.all_reduce(means)              # both in one message
    q_scale, k_scale = ...              # all ranks have as many features
""",
    ),
    solution=repaired,
    explanation="""
The norm stands before the heads are told apart, over the features of all of them. Cut by heads, a rank has a
slice of these features: a norm on a hidden shard. Squares only add up, so the mean square of each slice is
enough; all slices are equally long, so the mean of the means is right.

Two numbers a token, in one message for queries and keys. To gather the heads would give the same values for
hundreds of numbers a token.
""",
    right=(sums_and_counts, gathered_sums),
    wrong=(
        Wrong(norm_queries_and_keys, r"Nothing was sent"),
        Wrong(not_divided, r"Rank 0, queries: every element is 0.5 times the right one"),
        Wrong(means_of_roots, r"Rank 0, queries: element .* elements are wrong"),
        Wrong(one_for_both, r"Rank 0, queries: element .* elements are wrong"),
        Wrong(two_all_reduces, r"called all_reduce 2 times; the budget is 1"),
        Wrong(all_heads_gathered, r"Rank 0 sent .* times the allowed"),
        Wrong(head_by_head, r"Nothing was sent"),
    ),
)

CASE = Case(
    name="03-a",
    title="An all-reduce that looks superfluous",
    story="""
A model normalises its queries and its keys before attention. Under tensor parallel each rank has some of the
heads. A profile shows a small all-reduce in front of every attention. Somebody argues: "Each rank has its
heads whole, and the mean is over the last dimension, so it is complete already." The all-reduce goes. The
server becomes quicker, and nothing crashes. The answers become worse, the more cards, the more so.
""",
    program=norm_queries_and_keys,
    causes=(
        Choice(
            "The epsilon is added p times.",
            "It is added once on each rank, to that rank's own mean. And 1e-6 is too small to be seen.",
            holds=False,
        ),
        Choice(
            "The weights of the norm are cut, and should be whole.",
            "A feature is multiplied with its own weight. Who holds the feature needs that weight, and no"
            " other.",
            holds=False,
        ),
        Choice(
            "This model's norm is over the features of all heads, and a rank's last dimension holds only "
            "some.",
            "The last dimension is complete on one card. Under tensor parallel it is a slice: a norm on a"
            " hidden shard. Where a model normalises each head for itself, the argument would be right.",
            holds=True,
        ),
        Choice(
            "Queries and keys must be normalised together.",
            "On one card they are not: each has a mean of its own.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="proposed for MiniMax-M2 in vllm-project/vllm pull request 39298 (closed); a missing all-reduce "
    "of this kind was repaired in axonn-ai/yalis pull request 36, and turboderp-org/exllamav3 pull request "
    "141 says why it is needed; retold here in other words",
)
