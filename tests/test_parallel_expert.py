"""Expert parallel: one card's result on every rank, the bytes of the formula, work stated, refusals."""

from __future__ import annotations

import copy
import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist
from expert_runs import (
    BF16,
    CLOSE,
    HIDDEN,
    INNER,
    OPTIONS,
    check,
    check_bytes,
    check_counts,
    layer,
    lengths,
    one_card,
    run_layer,
    tokens,
)

import mindlab as ml
from mindlab.models.layers import MLP, GatedMLP
from mindlab.models.moe import MoE
from mindlab.parallel import expert, routes
from mindlab.parallel.expert import ExpertParallelMoE


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("kind", ["some", "idle"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_one_card_on_every_rank(ranks: int, kind: str, options: str) -> None:
    """Would catch tokens given to another expert, results to another token, weights used twice or not at all.

    Six experts: two each on 3 ranks, 2 2 1 1 on 4, none on the last two of 8.
    """
    moe, parts, more = layer(), tokens(lengths(ranks, kind)), OPTIONS[options]
    run = ml.launch(run_layer, moe, parts, ranks=ranks, **more)
    check(run, moe, parts)
    check_bytes(run, 6, 4, more)
    check_counts(run, [list(of) for of in expert.holders(6, ranks, more.get("copies"))])
    rounds = 4 if more.get("once_per_rank") else 3
    assert [event.op for event in run.events if event.rank == 0] == ["all_to_all_single"] * rounds


@pytest.mark.parametrize("options", ["each", "once"])
def test_one_rank(options: str) -> None:
    """Would catch a path that needs a neighbour; one rank sends nothing."""
    moe, parts = layer(), tokens([9])
    run = ml.launch(run_layer, moe, parts, ranks=1, **OPTIONS[options])
    check(run, moe, parts)
    assert run.sent.tolist() == [0]


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("ranks", [2, 4])
def test_bfloat16(ranks: int, options: str) -> None:
    """Would catch weights rounded before they are used, and bytes of float32 sent for bfloat16."""
    moe, parts, more = layer().bfloat16(), tokens(lengths(ranks, "some")), OPTIONS[options]
    parts = [part.bfloat16() for part in parts]
    run = ml.launch(run_layer, moe, parts, torch.bfloat16, ranks=ranks, **more)
    check(run, moe, parts, BF16)
    check_bytes(run, 6, 2, more)


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("top_k", [1, 2])
def test_every_token_on_one_expert(top_k: int, options: str) -> None:
    """Would catch room that is made for the mean; a rank that gets nothing, and leaves the others waiting."""
    moe, parts = layer(top_k=top_k, favourite=3), tokens([5, 0, 8, 11], favoured=True)
    run = ml.launch(run_layer, moe, parts, ranks=4, **OPTIONS[options])
    check(run, moe, parts)
    check_bytes(run, 6, 4, OPTIONS[options])
    loads = [int(dispatch.load[3]) for _, dispatch in run.values]
    if "copies" in OPTIONS[options]:  # dealt one by one from each rank: at most one more for each sender
        assert sum(loads) == 24 and sum(load > 0 for load in loads) == 2 and max(loads) <= 12 + 2
    else:
        assert loads == [0, 0, 24, 0] or loads == [0, 24, 0, 0]


@pytest.mark.parametrize(("experts", "top_k"), [(3, 3), (6, 6), (7, 1), (2, 2)])
@pytest.mark.parametrize("mlp", [MLP, GatedMLP])
def test_other_sizes(experts: int, top_k: int, mlp: type[MLP]) -> None:
    """Would catch a fixed k or E, fewer experts than ranks, and a gated expert computed as a plain one."""
    moe, parts = layer(experts, top_k, mlp=mlp), tokens([4, 7, 1, 3])
    for once in (False, True):
        run = ml.launch(run_layer, moe, parts, ranks=4, once_per_rank=once)
        check(run, moe, parts)
        check_bytes(run, experts, 4, {"once_per_rank": once})


def test_once_per_rank_saves_where_experts_share_a_rank() -> None:
    """Would catch a token sent once per expert all the same: with all experts chosen, 6 vectors become 3."""
    moe, parts = layer(6, 6), tokens([4, 4, 4])
    each, once = (ml.launch(run_layer, moe, parts, ranks=3, once_per_rank=once) for once in (False, True))
    for rank in range(3):
        assert each.values[rank][1].rows_sent.tolist() == [8, 8, 8]
        assert once.values[rank][1].rows_sent.tolist() == [4, 4, 4]
        assert torch.equal(each.values[rank][1].sent, once.values[rank][1].sent)


def test_a_batch_and_a_sequence_are_tokens() -> None:
    """Would catch a batch above one taken for something else."""
    moe, x = layer(), torch.randn(2, 7, HIDDEN, generator=torch.Generator().manual_seed(2))

    def shards() -> torch.Tensor:
        out: torch.Tensor = ExpertParallelMoE.from_full(moe)(x.tensor_split(3, dim=1)[dist.get_rank()])
        return out

    found = torch.cat(ml.launch(shards, ranks=3).values, dim=1)
    right = one_card(moe, x.reshape(-1, HIDDEN)).view(2, 7, HIDDEN)
    assert found.shape == right.shape and float((found - right).abs().max()) <= CLOSE


@pytest.mark.parametrize("once", [False, True])
def test_a_broken_token_stays_alone_and_is_seen(once: bool) -> None:
    """Would catch a token of NaN that comes back as 0, or that spoils another one."""
    moe, parts = layer(), tokens([5, 8])
    parts[0][2] = torch.nan
    run = ml.launch(run_layer, moe, parts, ranks=2, once_per_rank=once)
    bad = [out.isnan().any(1).nonzero().flatten().tolist() for out, _ in run.values]
    assert bad == [[2], []]


def test_work_is_stated_where_it_is_done() -> None:
    """Would catch a load that replay cannot see: 4 h i FLOP a token of a rank's experts, and its routing."""
    moe, parts = layer(favourite=3), tokens([5, 0, 9], favoured=True)
    run = ml.launch(run_layer, moe, parts, ranks=3)
    for rank, (_, dispatch) in enumerate(run.values):
        stated = sum(work.flop for work in run.work if work.rank == rank)
        assert stated == 4 * HIDDEN * INNER * int(dispatch.load.sum()) + 2 * len(parts[rank]) * HIDDEN * 6
        # both layers of an expert that has rows: what goes in, what comes out, and its weights; all once
        work = sum(one.nbytes for one in run.work if one.rank == rank and one.what == "expert")
        rows, busy = int(dispatch.load.sum()), int((dispatch.load > 0).sum())
        assert work == 4 * (2 * rows * (HIDDEN + INNER) + busy * 2 * HIDDEN * INNER)


def test_the_full_layer_is_left_alone_and_not_kept() -> None:
    """Would catch parts that are views: they keep all experts in memory, or change with the full layer."""
    moe = layer()
    before = copy.deepcopy(moe.state_dict())

    def held() -> tuple[int, bool]:
        split = ExpertParallelMoE.from_full(moe)
        bytes_of = sum(part.untyped_storage().nbytes() for part in split.experts.parameters())
        moe.experts[2].up.weight.zero_()
        x = tokens([4, 4])[0]
        moved = float((split(x) - layer()(x)).abs().max())
        return bytes_of, moved <= CLOSE

    for nbytes, same in ml.launch(held, ranks=2).values:
        assert nbytes == 3 * 4 * (2 * HIDDEN * INNER + HIDDEN + INNER) and same
    assert all(torch.equal(tensor, before[name]) for name, tensor in moe.state_dict().items())


def test_refusals() -> None:
    """Would catch a wrong width taken for more tokens, copies or a factor that cannot be."""

    def call(what: str) -> None:
        moe, x = layer(), torch.ones(3, HIDDEN)
        calls = {
            "width": lambda: ExpertParallelMoE.from_full(moe)(x.t()),
            "copies": lambda: ExpertParallelMoE.from_full(moe, copies={0: 3}),
            "expert": lambda: ExpertParallelMoE.from_full(moe, copies={6: 2}),
            "factor": lambda: ExpertParallelMoE.from_full(moe, capacity_factor=-1),
        }
        calls[what]()

    words = {
        "width": r"x of shape \(10, 3\) does not fit: its last dim must be 10",
        "copies": "3 copies of expert 0 on 2 ranks: choose 1 to 2",
        "expert": "copies of expert 6: there are experts 0 to 5",
        "factor": "capacity_factor=-1: give a number above 0",
    }
    for what, match in words.items():
        with pytest.raises(ml.MindlabError, match=match):
            ml.launch(call, what, ranks=2)

    def stranger() -> None:
        group = dist.new_group([0, 1])
        if dist.get_rank() == 2:
            ExpertParallelMoE.from_full(layer(), group)

    with pytest.raises(ml.MindlabError, match="rank 2 is not in the group"):
        ml.launch(stranger, ranks=3)


def test_tokens_of_one_expert_travel_in_their_order() -> None:
    """Would catch a sort that is not stable: sums of rows in another order each time."""
    experts = torch.randint(0, 3, (3000, 2), generator=torch.Generator().manual_seed(3))
    copies = routes.dealt(experts, torch.ones(3000, 2).bool(), ((0,), (0, 1), (1,)), rank=0)
    for rank in range(2):
        for chosen in range(3):
            place = (copies.rank == rank) & (copies.expert == chosen)
            token, slot = copies.token[place], copies.slot[place]
            assert bool(((2 * token + slot).diff() > 0).all())
    assert bool(((copies.rank * 3 + copies.expert).diff() >= 0).all()) and len(copies.token) == 6000


@pytest.mark.parametrize("module", [expert, routes], ids=lambda module: module.__name__)
def test_examples(module: Any) -> None:
    """Would catch an example in a docstring that was right once."""
    scope = {**vars(module), "ml": ml, "dist": dist, "torch": torch}
    found = doctest.testmod(module, extraglobs=scope)
    assert found.failed == 0 and found.attempted


def test_what_is_near_equal_stays_apart() -> None:
    """Would catch weighted sums in bfloat16, a missing score taken for one, a view sent.

    Of 1,024 values 507 differ where the sum of eight experts is rounded after each; here 5 may, by the order.
    """

    def sums() -> tuple[int, Any, torch.Tensor]:
        torch.manual_seed(0)
        rounded = MoE(16, 16, 8, 8).bfloat16().requires_grad_(False)
        x = torch.randn(64, 16).bfloat16()
        once = ExpertParallelMoE.from_full(rounded, once_per_rank=True)
        differ = int((once(x) != rounded(x)).sum()) if dist.get_world_size() == 1 else 0
        sure = MoE(4, 4, 4, 2).requires_grad_(False)
        sure.router.weight.mul_(1e4)
        mine = ExpertParallelMoE.from_full(sure, once_per_rank=True)
        mine(torch.randn(9, 4))
        turned = torch.arange(4.0).view(2, 2).t()
        back = expert.swapped(turned, [1, 1], [1, 1]) if dist.get_world_size() == 2 else turned
        return differ, mine.last_dispatch, back

    assert ml.launch(sums, ranks=1).values[0][0] <= 5
    (_, first, back), (_, second, _) = ml.launch(sums, ranks=2).values
    assert torch.equal(first.sent[1], second.received[0])
    assert back.tolist() == [[0, 2], [0, 2]], "row 0 of both"
