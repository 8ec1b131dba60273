"""Exercise 08.1: a router that keeps a conversation where its cache is, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

NAMES = ("", "ann", "bo", "ann", "cy", "ann", "bo", "", "ann", "dee", "ann", "cy", "ann", "bo", "", "ann")


def my_route(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
    """The replica of each request, in order."""
    waiting = [0] * replicas
    home: dict[str, int] = {}
    chosen = []
    for amount, session in zip(tokens, sessions, strict=True):
        least = waiting.index(min(waiting))
        replica = home.get(session, least)
        if waiting[replica] > waiting[least] + slack:
            replica = least
        if session:
            home[session] = replica
        waiting[replica] += amount
        chosen.append(replica)
    return chosen


def by_looking_back(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
    """Right: nothing is kept but the choices; the rest is worked out each time."""
    chosen: list[int] = []
    for number, session in enumerate(sessions):
        waiting = [sum(t for t, to in zip(tokens, chosen, strict=False) if to == r) for r in range(replicas)]
        least = min(range(replicas), key=waiting.__getitem__)
        before = [chosen[i] for i in range(number) if session and sessions[i] == session]
        replica = before[-1] if before else least
        chosen.append(replica if waiting[replica] - waiting[least] <= slack else least)
    return chosen


def by_sorting(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
    """Right: one sorted choice among the least loaded and the home, if it is not too full."""
    load = torch.zeros(replicas, dtype=torch.int64)
    home: dict[str, int] = {}
    chosen = []
    for amount, session in zip(tokens, sessions, strict=True):
        fits = [r for r in range(replicas) if load[r] <= load.min() + slack]
        wanted = sorted(fits, key=lambda r: (session == "" or home.get(session) != r, int(load[r]), r))
        home[session] = wanted[0]
        load[wanted[0]] += amount
        chosen.append(wanted[0])
    return chosen


def in_turn(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
    """Wrong: round robin."""
    return [number % replicas for number in range(len(tokens))]


def _rule(tokens: Sequence[int], sessions: Sequence[str], replicas: int, slack: float, how: str) -> list[int]:
    """The right one, with one thing changed."""
    waiting, home, chosen = [0] * replicas, dict[str, int](), []
    for amount, session in zip(tokens, sessions, strict=True):
        least = waiting.index(min(waiting))
        if how == "last of equals":
            least = replicas - 1 - waiting[::-1].index(min(waiting))
        replica = home.get(session, least)
        limit = sum(waiting) / replicas if how == "mean" else waiting[least]
        full = waiting[replica] + (amount if how == "counts itself" else 0)
        if full > limit + slack or (how == "at the limit" and full == limit + slack):
            replica = least
        if how == "first home":
            home.setdefault(session, replica)
        elif session or how == "nobody is somebody":
            home[session] = replica
        if how == "nobody is somebody" or session:
            home[session] = home.get(session, replica)
        elif how == "first home":
            home.pop("", None)
        waiting[replica] += 1 if how == "requests" else amount
        chosen.append(replica)
    return chosen


def _changed(how: str, limit: float | None = None) -> Callable[..., list[int]]:
    def answer(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
        """Wrong by one thing."""
        return _rule(tokens, sessions, replicas, slack if limit is None else limit, how)

    return answer


def asks_the_others(tokens: list[int], sessions: list[str], replicas: int, slack: int) -> list[int]:
    """Wrong: right, but with a call that nobody needs."""
    dist.barrier()
    return my_route(tokens, sessions, replicas, slack)


def _given(seed: int, rank: int, trial: Trial) -> tuple[list[int], list[str], int, int]:
    draw = torch.Generator().manual_seed(100 + seed)
    tokens = torch.randint(1, 30, (len(NAMES),), generator=draw).tolist()
    tokens[: len(FIRST)] = FIRST
    return tokens, list(NAMES), trial["replicas"], trial["slack"]


FIRST = [20, 20, 10, 20, 10, 20]
"""The first requests stand at the limit, so that a wrong rule shows whatever the seed."""


def _one_card(given: list[tuple[list[int], list[str], int, int]]) -> list[list[int]]:
    return [by_looking_back(*mine) for mine in given]


def _first_difference(attempt: Attempt) -> str:
    """The first request that goes elsewhere, and what was waiting then."""
    tokens, sessions, replicas, slack = attempt.given[0]
    wanted, seen = attempt.wanted[0], attempt.values[0]
    if not isinstance(seen, list) or len(seen) != len(wanted) or seen == wanted:
        return ""
    at = next(i for i, (a, b) in enumerate(zip(seen, wanted, strict=True)) if a != b)
    waiting = [sum(t for t, to in zip(tokens, wanted[:at], strict=False) if to == r) for r in range(replicas)]
    whose = f"of {sessions[at]!r}" if sessions[at] else "of no session"
    return (
        f"Request {at} ({tokens[at]} tokens, {whose}) goes to replica {seen[at]!r}, and {wanted[at]} is "
        f"right: {waiting} tokens wait, the slack is {slack}."
    )


EXERCISE = Exercise(
    name="08.1",
    title="Affinity with a limit",
    statement="""
Write `my_route(tokens, sessions, replicas, slack)`. Request i has `tokens[i]` tokens of work and continues
the conversation `sessions[i]`; "" continues none. All arrive at once, so nothing is worked off meanwhile.

Return the list of replicas, one a request. A request goes to the replica that its session's last request
went to. But if more than `slack` tokens more wait there than at the least loaded replica, it goes to the
least loaded one, and the session has moved. A session that is new, and "", go to the least loaded. Of
equally loaded ones take the first.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_first_difference,
    trials=(
        Trial(2, sizes={"replicas": 4, "slack": 20}),
        Trial(2, sizes={"replicas": 3, "slack": 10}),
        Trial(2, sizes={"replicas": 2, "slack": 0}),
    ),
    hints=(
        "Two things are to be kept: how many tokens wait at each replica, and where each session was last.",
        "Draw the replicas as columns and put each request on top of one, as high as its tokens. A session "
        "returns to its column, unless this one stands out by more than the slack.",
        """
    waiting, home, chosen = [0] * replicas, {}, []
    for amount, session in zip(tokens, sessions):
        least = ...                       # the first of those with fewest tokens
        replica = home.get(..., least)
        if ...:                           # too full?
            replica = least
        ...                               # keep: where the session is, what waits, the choice
    return chosen
""",
    ),
    solution=my_route,
    explanation="""
Without a limit (`cache_affinity` of the package) a session that asks much fills its replica, and whoever is
at home there waits behind it. With slack 0 a session moves whenever its replica is not the emptiest, and
loses its cache almost every time. The slack is what a cache is worth: moving costs the prompt once more, so
let a request wait about as many tokens as the cache saves it.
""",
    right=(by_looking_back, by_sorting),
    wrong=(
        Wrong(in_turn, r"Request \d+ .* goes to replica \d, and \d is right"),
        Wrong(_changed("", limit=-1), r"Request \d+ .* the slack is"),
        Wrong(_changed("", limit=float("inf")), r"Request \d+ .* the slack is"),
        Wrong(_changed("at the limit"), r"Request \d+ .* the slack is"),
        Wrong(_changed("first home"), r"Request \d+ .* the slack is"),
        Wrong(_changed("nobody is somebody"), r"Request \d+ .*of no session"),
        Wrong(_changed("requests"), r"Request \d+ .* tokens wait"),
        Wrong(_changed("counts itself"), r"Request \d+ .* the slack is"),
        Wrong(_changed("last of equals"), r"Request 0 \(20 tokens, of no session\) goes to replica \d"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
