"""Data parallel for inference: every rank, or group of ranks, is a whole replica and serves other requests.

Replicas say nothing to each other: no gradients, no activations. What is left to decide is which of them a
request goes to. A policy decides it from what a router knows when the request arrives; here every rank works
the same routing out for itself, so not even the requests travel.

One request gets no faster, and a model that does not fit one replica does not fit: only throughput grows.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

import torch.distributed as dist

from mindlab.parallel.linear import Group, place
from mindlab.trace import recorder


class Request(NamedTuple):
    """One request. `body` is what the model needs; the router looks at the rest."""

    tokens: int
    """Its work as the router knows it: prompt and new tokens."""
    arrival: float = 0.0
    """Seconds after serving begins."""
    session: str = ""
    """The conversation (or prefix) it continues, whose cache a replica may still hold; "" for none."""
    body: Any = None


class Load(NamedTuple):
    """What the router knows of one replica."""

    requests: int
    """How many it was given so far."""
    waiting: float
    """Tokens that it was given and, by the router's estimate, has not done yet."""
    sessions: frozenset[str]
    """The sessions of which it was given a request."""


class Served(NamedTuple):
    """One request as it was served. Times are seconds on the clock of `Run.events`."""

    request: int
    """Its index in the requests given."""
    replica: int
    tokens: int
    arrival: float
    start: float
    end: float
    hit: bool
    """Whether this replica had served the session before, so may still hold its cache."""
    result: Any = None

    @property
    def latency(self) -> float:
        """Seconds from arrival to the answer."""
        return self.end - self.arrival


Policy = Callable[[Request, Sequence[Load]], int]
"""policy(request, loads) -> the replica it goes to, by the loads of all replicas.

It must answer alike on every rank, which `serve` does not check: it sends nothing. Before serving,
`sameness.same_on_every_rank(torch.tensor(route(requests, replicas, policy)))` does.
"""


def round_robin(request: Request, loads: Sequence[Load]) -> int:
    """The next replica in turn, whatever the request and whatever they have to do.

    >>> route([Request(9), Request(1), Request(9), Request(1)], 2, round_robin)
    [0, 1, 0, 1]
    """
    return sum(load.requests for load in loads) % len(loads)


def least_loaded(request: Request, loads: Sequence[Load]) -> int:
    """The replica with fewest tokens waiting; of equals the first.

    >>> route([Request(9), Request(1), Request(9), Request(1)], 2, least_loaded)
    [0, 1, 1, 0]
    """
    return min(range(len(loads)), key=lambda replica: loads[replica].waiting)


def cache_affinity(request: Request, loads: Sequence[Load]) -> int:
    """The replica that served the session before; a new session goes to the least loaded.

    Saves the work that a cache holds. A session that asks much keeps its replica busy, and others wait there.

    >>> route([Request(9, session="a"), Request(1, session="b"), Request(9, session="a")], 2, cache_affinity)
    [0, 1, 0]
    """
    for replica, load in enumerate(loads):
        if request.session and request.session in load.sessions:
            return replica
    return least_loaded(request, loads)


def route(
    requests: Sequence[Request], replicas: int, policy: Policy, *, tokens_per_second: float | None = None
) -> list[int]:
    """The replica of each request, decided one by one as they arrive.

    `tokens_per_second` is the router's estimate of how fast a replica works off what waits; without it, as if
    all arrived at once. Raises ValueError for a number that cannot be, and for a policy that names no
    replica.

    >>> route([Request(9), Request(1), Request(1, arrival=2.0)], 2, least_loaded, tokens_per_second=4.0)
    [0, 1, 1]
    """
    _refuse(requests, replicas, tokens_per_second)
    loads = [Load(0, 0.0, frozenset()) for _ in range(replicas)]
    chosen, now = [0] * len(requests), 0.0
    for index in sorted(range(len(requests)), key=lambda index: requests[index].arrival):
        request = requests[index]
        done, now = (tokens_per_second or 0.0) * (request.arrival - now), request.arrival
        loads = [load._replace(waiting=max(0.0, load.waiting - done)) for load in loads]
        replica = chosen[index] = _named(policy, request, loads)
        old = loads[replica]
        known = old.sessions | {request.session} if request.session else old.sessions
        loads[replica] = Load(old.requests + 1, old.waiting + request.tokens, known)
    return chosen


def serve(
    requests: Sequence[Request],
    answer: Callable[[Request], Any],
    policy: Policy = round_robin,
    *,
    group: Group = None,
    ranks_per_replica: int = 1,
    tokens_per_second: float | None = None,
) -> list[Served]:
    """The requests that this rank's replica served, in order of arrival, one after the other.

    Every rank calls it with the same requests and policy; `answer(request)` is the model's, with the state of
    this replica. It is not called before the request's arrival. With `ranks_per_replica` r each r neighbours
    of the group are one replica, and call `answer` together; each of them gives the list. Nothing is sent but
    a barrier, from which arrivals count. Raises ValueError as `route` does, and for ranks that are no
    multiple of `ranks_per_replica`.

    >>> def two_replicas():
    ...     served = serve([Request(4), Request(2), Request(4)], lambda request: request.tokens * 10)
    ...     return [(one.request, one.result) for one in served]
    >>> ml.launch(two_replicas, ranks=2).values
    [[(0, 40), (2, 40)], [(1, 20)]]
    """
    rank, ranks = place(group)
    if ranks_per_replica < 1 or ranks % ranks_per_replica:
        fitting = ", ".join(str(part) for part in range(1, ranks + 1) if ranks % part == 0)
        raise ValueError(f"{ranks} ranks are no replicas of {ranks_per_replica}: choose one of {fitting}")
    replicas, mine = ranks // ranks_per_replica, rank // ranks_per_replica
    routes = route(requests, replicas, policy, tokens_per_second=tokens_per_second)
    own = sorted((i for i, to in enumerate(routes) if to == mine), key=lambda i: requests[i].arrival)
    dist.barrier(group)
    begin, seen = recorder.now(), set[str]()
    served = []
    for index in own:
        served.append(_one(requests[index], answer, index, mine, begin, seen))
    return served


def throughput(served: Sequence[Served]) -> float:
    """Tokens a second of all replicas together, from the first arrival to the last answer.

    >>> throughput([Served(0, 0, 6, 0.0, 0.0, 2.0, False), Served(1, 1, 2, 1.0, 1.0, 4.0, False)])
    2.0
    """
    _refuse_none(served)
    seconds = max(one.end for one in served) - min(one.arrival for one in served)
    if seconds <= 0:
        raise ValueError("the requests took no time: give ones that were served")
    return sum(one.tokens for one in served) / seconds


def latency(served: Sequence[Served], percent: float) -> float:
    """The seconds within which `percent` of the requests were answered: the nearest rank, no interpolation.

    >>> some = [Served(i, 0, 1, 0.0, 0.0, float(i + 1), False) for i in range(10)]
    >>> latency(some, 50), latency(some, 95), latency(some, 100)
    (5.0, 10.0, 10.0)
    """
    _refuse_none(served)
    if not 0 < percent <= 100:
        raise ValueError(f"percent={percent!r}: give a number above 0, up to 100")
    ordered = sorted(one.latency for one in served)
    return ordered[math.ceil(Fraction(str(percent)) * len(ordered) / 100) - 1]


def _one(
    request: Request, answer: Callable[[Request], Any], index: int, replica: int, begin: float, seen: set[str]
) -> Served:
    """One request served, not before it arrives."""
    arrival = begin + request.arrival
    time.sleep(max(0.0, arrival - recorder.now()))
    start = recorder.now()
    result = answer(request)
    hit = request.session in seen
    seen.update({request.session} - {""})
    return Served(index, replica, request.tokens, arrival, start, recorder.now(), hit, result)


def _named(policy: Policy, request: Request, loads: Sequence[Load]) -> int:
    replica = policy(request, loads)
    if isinstance(replica, bool) or not isinstance(replica, Integral) or not 0 <= replica < len(loads):
        raise ValueError(f"the policy names replica {replica!r}: there are 0 to {len(loads) - 1}")
    return int(replica)


def _refuse(requests: Sequence[Request], replicas: int, tokens_per_second: float | None) -> None:
    if replicas < 1:
        raise ValueError(f"replicas={replicas!r}: give 1 or more")
    if tokens_per_second is not None and not 0 < tokens_per_second < math.inf:
        raise ValueError(f"tokens_per_second={tokens_per_second!r}: give a number above 0, or None")
    for index, request in enumerate(requests):
        if not 0 <= request.tokens < math.inf or not 0 <= request.arrival < math.inf:
            raise ValueError(
                f"request {index} has tokens={request.tokens!r}, arrival={request.arrival!r}: "
                "give both from 0 on"
            )


def _refuse_none(served: Sequence[Served]) -> None:
    if not served:
        raise ValueError("nothing was served: give the lists of all replicas, joined")
    twice = [index for index, count in Counter(one.request for one in served).items() if count > 1]
    if twice:
        raise ValueError(
            f"request {twice[0]} is here more than once: give the list of one rank of each replica of one run"
        )
