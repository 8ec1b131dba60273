"""Replicas: every request served once, where the policy says, nothing sent; numbers from what was served."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.layers import MLP
from mindlab.parallel import replicas
from mindlab.parallel.replicas import (
    Load,
    Policy,
    Request,
    Served,
    cache_affinity,
    latency,
    least_loaded,
    round_robin,
    route,
    serve,
    throughput,
)
from mindlab.parallel.sameness import same_on_every_rank
from mindlab.parallel.tensor import ParallelMLP

POLICIES: dict[str, Policy] = {
    "round robin": round_robin,
    "least loaded": least_loaded,
    "affinity": cache_affinity,
}


def stream() -> list[Request]:
    """Eleven requests of uneven length, of four sessions and of none; inputs for a model that differ."""
    draw = torch.Generator().manual_seed(4)
    sessions = ["a", "b", "", "a", "c", "d", "a", "b", "", "a", "c"]
    return [
        Request(1 + index**2 % 17, session=session, body=torch.randn(2, 6, generator=draw))
        for index, session in enumerate(sessions)
    ]


def model() -> MLP:
    """The same weights on every rank."""
    torch.manual_seed(1)
    return MLP(6, 10).requires_grad_(False)


@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_each_request_once_and_nothing_sent(ranks: int, policy: str) -> None:
    """Would catch a request lost or served twice, a result of another one, and a byte between replicas."""

    def replica() -> list[Served]:
        made = model()
        return serve(stream(), lambda request: made(request.body), POLICIES[policy])

    run = ml.launch(replica, ranks=ranks)
    routes = route(stream(), ranks, POLICIES[policy])
    served = [one for part in run.values for one in part]
    assert sorted(one.request for one in served) == list(range(11))
    for one in served:
        right = model()(stream()[one.request].body)
        assert torch.allclose(one.result, right, atol=1e-6)  # another number of threads
        assert one.replica == routes[one.request] and one.tokens == stream()[one.request].tokens
        assert one.arrival <= one.start <= one.end and one.latency == one.end - one.arrival
    assert all([one.replica for one in part] == [rank] * len(part) for rank, part in enumerate(run.values))
    assert run.sent.tolist() == [0] * ranks
    assert [event.op for event in run.events] == ["barrier"] * ranks
    if run.wire is not None and run.wire.sent is not None:
        assert run.wire.sent.tolist() == [0] * ranks


def test_a_hit_is_a_session_that_was_here_before() -> None:
    """Would catch hits of sessions served elsewhere, or of requests without one."""

    def hits(policy: Policy) -> int:
        def replica() -> list[Served]:
            return serve(stream(), lambda request: None, policy)

        served = [one for part in ml.launch(replica, ranks=2).values for one in part]
        by_request = {one.request: one for one in served}
        for one in served:
            before = [
                other for other in range(one.request)
                if stream()[other].session == stream()[one.request].session != ""
                and by_request[other].replica == one.replica
            ]  # fmt: skip
            assert one.hit == bool(before)
        return sum(one.hit for one in served)

    assert hits(cache_affinity) == 5 and hits(round_robin) < 5  # 9 requests of 4 sessions


def test_a_request_waits_for_its_arrival_and_for_those_before() -> None:
    """Would catch an answer before the request is there, a replica that works on two at once, input order."""
    requests = [Request(1, arrival=0.2), Request(1, arrival=0.0), Request(1, arrival=0.1), Request(1)]

    def replica() -> list[Served]:
        return serve(requests, lambda request: None)

    for part in ml.launch(replica, ranks=2).values:
        assert [one.arrival for one in part] == sorted(one.arrival for one in part)
        assert all(one.start >= one.arrival for one in part)
        assert all(before.end <= after.start for before, after in pairwise(part))
    assert route(requests, 2, round_robin) == [1, 0, 0, 1]  # by arrival: 1, 3, 2, 0


def test_replicas_of_several_ranks() -> None:
    """Would catch collectives across replicas: three replicas of two tensor-parallel ranks each."""

    def replica() -> list[Served]:
        mine = dist.new_subgroups(2)[0]
        made = ParallelMLP.from_full(model(), mine)
        return serve(stream(), lambda request: made(request.body), least_loaded, ranks_per_replica=2)

    run = ml.launch(replica, ranks=6)
    routes = route(stream(), 3, least_loaded)
    for rank, part in enumerate(run.values):
        assert [one.request for one in part] == [i for i, to in enumerate(routes) if to == rank // 2]
        for one in part:
            assert torch.allclose(one.result, model()(stream()[one.request].body), atol=1e-5)


def test_least_loaded_evens_out_what_round_robin_does_not() -> None:
    """Would catch a load of requests in place of tokens: long and short ones in turn."""
    requests = [Request(100 if index % 2 == 0 else 1) for index in range(12)]
    sums = {}
    for name, policy in POLICIES.items():
        routes = route(requests, 2, policy)
        sums[name] = [
            sum(r.tokens for r, to in zip(requests, routes, strict=True) if to == n) for n in (0, 1)
        ]
    assert sums["round robin"] == [600, 6]
    assert sums["least loaded"] == sums["affinity"] and max(sums["least loaded"]) < 310


def test_a_router_s_estimate_works_off_the_load() -> None:
    """Would catch a load that never falls, one below 0, or one that falls by another replica's."""
    requests = [
        Request(10),
        Request(2),
        Request(1, arrival=1.0),
        Request(1, arrival=20.0),
        Request(1, arrival=20.0),
    ]
    assert route(requests, 2, least_loaded) == [0, 1, 1, 1, 1]
    assert route(requests, 2, least_loaded, tokens_per_second=1.0) == [0, 1, 1, 0, 1]
    seen: list[list[float]] = []

    def watch(request: Request, loads: Any) -> int:
        seen.append([load.waiting for load in loads])
        return 0

    route(requests[:1] + requests[2:4], 2, watch, tokens_per_second=4.0)
    assert seen == [[0, 0], [6, 0], [0, 0]]


def test_affinity_keeps_a_hot_session_together() -> None:
    """Would catch a session that is split, and a new one that follows a full replica."""
    requests = [Request(50, session="hot")] * 3 + [Request(1, session="new"), Request(50, session="hot")]
    assert route(requests, 3, cache_affinity) == [0, 0, 0, 1, 0]
    load = Load(1, 5.0, frozenset({"hot"}))
    assert cache_affinity(Request(1), [load, Load(0, 0.0, frozenset())]) == 1  # no session is no hit


def test_percentiles_and_throughput() -> None:
    """Would catch an interpolated percentile, the mean for the tail, and time counted from 0."""
    served = [Served(i, i % 2, 3, 10.0, 10.0, 10.0 + t, False) for i, t in enumerate([4, 1, 3, 2, 100])]
    assert [latency(served, percent) for percent in (20, 50, 80, 81, 99)] == [1, 3, 4, 100, 100]
    assert throughput(served) == 15 / 100
    for call, words in (
        (lambda: latency([], 50), "nothing was served"),
        (lambda: throughput([]), "nothing was served"),
        (lambda: latency(served, 0), "percent=0"),
        (lambda: latency(served, 101), "percent=101"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_refusals() -> None:
    """Would catch a request sent to a replica that is none, and left there; ranks left out."""
    two = [Request(1), Request(1)]
    for call, words in (
        (lambda: route(two, 0, round_robin), "replicas=0: give 1 or more"),
        (lambda: route(two, 2, lambda request, loads: 2), "the policy names replica 2: there are 0 to 1"),
        (lambda: route(two, 2, lambda request, loads: None), "names replica None"),  # type: ignore[arg-type]
        (lambda: route(two, 2, round_robin, tokens_per_second=0), "tokens_per_second=0"),
        (lambda: route([Request(-1)], 2, round_robin), "request 0 has tokens=-1"),
        (lambda: route([Request(1, arrival=-2)], 2, round_robin), "arrival=-2"),
    ):
        with pytest.raises(ValueError, match=words):
            call()

    def uneven() -> None:
        serve(two, lambda request: None, ranks_per_replica=2)

    with pytest.raises(ml.MindlabError, match="3 ranks are no replicas of 2: choose one of 1, 3"):
        ml.launch(uneven, ranks=3)


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    found = doctest.testmod(replicas, extraglobs={**vars(replicas), "ml": ml})
    assert found.failed == 0 and found.attempted


def test_exact_percentiles_and_requests_once() -> None:
    """Would catch a percentile rounded up by floats, a request counted by each rank of its replica."""
    served = [Served(i, 0, 1, 0.0, 0.0, float(i + 1), False) for i in range(100)]
    assert [latency(served, percent) for percent in range(1, 101)] == list(range(1, 101))
    assert throughput([Served(0, 0, 6, 1.0, 3.0, 4.0, False)]) == 2.0
    with pytest.raises(ValueError, match="request 0 is here more than once"):
        throughput([served[0], served[0]])
    with pytest.raises(ValueError, match="took no time"):
        throughput([Served(0, 0, 6, 1.0, 1.0, 1.0, False)])


def test_groups_side_by_side_and_arrivals() -> None:
    """Would catch a group that counts or waits for the world's ranks, requests begun before they arrive."""

    def odd() -> list[int] | None:
        group = [dist.new_group([0, 2]), dist.new_group([1, 3])][dist.get_rank() % 2]
        if dist.get_rank() % 2 == 0:
            return None
        return [one.request for one in serve([Request(1)] * 3, lambda _: None, group=group)]

    assert ml.launch(odd, ranks=4, timeout=20).values == [None, [0, 2], None, [1]]
    later = [Request(1), Request(1, arrival=0.2)]
    first, second = ml.launch(lambda: serve(later, lambda _: None), ranks=1).values[0]
    assert second.arrival - first.arrival == pytest.approx(0.2) and second.start >= second.arrival


def test_a_request_without_a_session_is_not_remembered() -> None:
    """Would catch "" among the sessions that a replica holds: the router would send all such there."""
    seen: list[list[set[str]]] = []

    def watching(request: Request, loads: Sequence[Load]) -> int:
        seen.append([set(load.sessions) for load in loads])
        return round_robin(request, loads)

    route([Request(1), Request(1, session="a"), Request(1), Request(1)], 2, watching)
    assert seen[-1] == [set(), {"a"}]


def test_a_policy_that_differs_by_rank_is_found_by_its_routes() -> None:
    """Would catch the remedy in the docstring gone stale: requests served twice, or by nobody, in silence."""

    def agree(policy: Policy) -> None:
        same_on_every_rank(torch.tensor(route(stream(), 2, policy)))

    def own(request: Request, loads: Sequence[Load]) -> int:
        return dist.get_rank()

    ml.launch(agree, round_robin, ranks=2)
    with pytest.raises(ml.MindlabError, match="the tensor on rank 1 is not that of rank 0"):
        ml.launch(agree, own, ranks=2)


def test_a_policy_may_use_numpy() -> None:
    """Would catch an argmin that is refused, because it is no int of Python."""

    def emptiest(_: Request, loads: Any) -> Any:
        return np.argmin([load.requests for load in loads])

    assert route([Request(1)] * 2, 2, emptiest) == [0, 1]
