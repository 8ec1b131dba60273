"""Expert parallel: drops over a capacity, copies of a hot expert, groups beside each other."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from expert_runs import OPTIONS, check, check_bytes, layer, run_layer, tokens

import mindlab as ml
from mindlab.parallel.expert import Dispatch, ExpertParallelMoE, swapped
from mindlab.predict.placement import expert_capacity


@pytest.mark.parametrize("favourite", [3, None])
@pytest.mark.parametrize("options", list(OPTIONS))
def test_a_capacity_drops_and_says_what(options: str, favourite: int | None) -> None:
    """Would catch drops unnoticed, second choices before first ones, weights made to add up to 1 again."""
    moe, parts = layer(top_k=2, favourite=favourite), tokens([6, 0, 12], favoured=favourite is not None)
    run = ml.launch(run_layer, moe, parts, ranks=3, capacity_factor=0.75, **OPTIONS[options])
    check(run, moe, parts)
    check_bytes(run, 6, 4, OPTIONS[options])
    for rank, part in enumerate(parts):
        dispatch = run.values[rank][1]
        assert dispatch.capacity == expert_capacity(len(part), 6, 2, 0.75) == [2, 0, 3][rank]
        assert dispatch.dropped == by_turns(dispatch.choices.tolist(), dispatch.capacity)
        assert len(dispatch.dropped) == int((~dispatch.kept).sum())
        assert int(dispatch.sent.sum(0).max()) <= dispatch.capacity
        lost = [t for t in range(len(part)) if not dispatch.routes[t]]
        assert dispatch.lost == lost and not run.values[rank][0][lost].any()
        if favourite == 3:
            assert [t for t, e in dispatch.dropped if e == 3] == list(range(len(part)))[dispatch.capacity :]


def by_turns(choices: list[list[int]], capacity: int) -> list[tuple[int, int]]:
    """The dropped pairs, by going through all first choices and then all second ones."""
    room, dropped = dict.fromkeys(range(6), capacity), []
    for slot in range(2):
        for token, chosen in enumerate(choices):
            room[chosen[slot]] -= 1
            if room[chosen[slot]] < 0:
                dropped.append((token, slot, chosen[slot]))
    return [(token, of) for token, _, of in sorted(dropped)]


def test_a_wide_capacity_drops_nothing() -> None:
    """Would catch a drop where there is room for all: factor E/k takes every token on one expert."""
    moe, parts = layer(), tokens([5, 8])
    for _, dispatch in ml.launch(run_layer, moe, parts, ranks=2, capacity_factor=3).values:
        assert dispatch.dropped == [] and dispatch.lost == []


def test_copies_share_a_hot_expert() -> None:
    """Would catch a copy that gets no token: the busiest rank's load falls by what the copies take."""
    moe, parts = layer(top_k=1, favourite=0), tokens([8, 8, 8, 8], favoured=True)
    loads = []
    for copies in ({}, {0: 2}, {0: 4}):
        run = ml.launch(run_layer, moe, parts, ranks=4, copies=copies)
        check(run, moe, parts)
        loads.append([int(dispatch.load.sum()) for _, dispatch in run.values])
    assert loads[0] == [32, 0, 0, 0] and sorted(loads[1]) == [0, 0, 16, 16] and loads[2] == [8, 8, 8, 8]


def test_groups_beside_each_other() -> None:
    """Would catch a global rank taken for a group's, in a group whose members are not in order from 0."""
    moe, parts = layer(), tokens([3, 5, 4, 6, 2])

    def in_groups() -> tuple[torch.Tensor, Dispatch]:
        groups = [dist.new_group([4, 1, 2]), dist.new_group([3, 0])]
        return run_layer(moe, parts, group=groups[dist.get_rank() in (0, 3)])

    check(ml.launch(in_groups, ranks=5), moe, parts)


@pytest.mark.parametrize("once", [False, True])
def test_experts_cut_by_tensor_parallel(once: bool) -> None:
    """Would catch an expert's bias added on every part, an exchange along the wrong axis of a 2 x 2 mesh."""
    moe, parts = layer(), tokens([5, 8])

    def mesh() -> tuple[torch.Tensor, Dispatch]:
        axes = {"expert": [[0, 2], [1, 3]], "tensor": [[0, 1], [2, 3]]}
        groups = {axis: [dist.new_group(ranks) for ranks in lists] for axis, lists in axes.items()}
        rank = dist.get_rank()
        split = ExpertParallelMoE.from_full(
            moe, groups["expert"][rank % 2], tensor_group=groups["tensor"][rank // 2], once_per_rank=once
        )
        assert sum(part.numel() for part in split.experts.parameters()) < sum(
            part.numel() for part in moe.experts[:3].parameters()
        )
        return split(parts[rank // 2]), split.last_dispatch

    run = ml.launch(mesh, ranks=4)
    check(run, moe, [parts[0], parts[0], parts[1], parts[1]])
    assert torch.equal(run.values[0][0], run.values[1][0])


def test_a_rank_counted_twice_computes_twice() -> None:
    """Would catch the belief that one group will do: two ranks with the same tokens double every load."""
    moe, parts = layer(), tokens([5, 8])

    def one_group() -> tuple[torch.Tensor, Dispatch]:
        return run_layer(moe, [parts[0], parts[0], parts[1], parts[1]])

    run = ml.launch(one_group, ranks=4)
    assert sum(int(dispatch.load.sum()) for _, dispatch in run.values) == 2 * 2 * 13


@pytest.mark.parametrize("ranks", [2, 4])
def test_rows_that_carry_their_sender(ranks: int) -> None:
    """Would catch split sizes swapped, or rows in another order: each row holds its sender and its number."""

    def ragged() -> list[list[int]]:
        rank = dist.get_rank()
        sent = [(rank + 2 * to) % 5 for to in range(ranks)]
        received = [(source + 2 * rank) % 5 for source in range(ranks)]
        rows = torch.tensor([[rank, to, n] for to, count in enumerate(sent) for n in range(count)])
        return swapped(rows.reshape(-1, 3), sent, received).tolist()

    for rank, rows in enumerate(ml.launch(ragged, ranks=ranks).values):
        right = [[source, rank, n] for source in range(ranks) for n in range((source + 2 * rank) % 5)]
        assert rows == right


def test_groups_that_are_no_mesh() -> None:
    """Would catch the tensor group given for both axes, or the expert axis forgotten: wrong values."""

    def same(both: bool) -> None:
        group = [dist.new_group([0, 1]), dist.new_group([2, 3])][dist.get_rank() // 2]
        ExpertParallelMoE.from_full(layer(), group if both else None, tensor_group=group)

    for both in (True, False):
        with pytest.raises(ml.MindlabError, match=r"share ranks \[0, 1\]"):
            ml.launch(same, both, ranks=4)
