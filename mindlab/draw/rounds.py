"""From recorded calls to rounds: which transfers went on side by side, and which one after another.

A pure function of the events; it draws nothing. A round holds `moves` (one sender, one receiver, bytes) and
`joint` calls (collectives whose arguments do not say who sends what to whom).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from mindlab.trace.events import Event


@dataclass(frozen=True)
class Move:
    """One transfer: `nbytes` from rank `source` to rank `target`; `name` is what a picture writes on it."""

    source: int
    target: int
    nbytes: int = 0
    name: str = ""
    messages: int = 1
    """How many messages of a round it stands for (see `bundled`)."""
    owner: int | None = None
    """The rank whose colour the arrow has; None: its sender's."""


@dataclass(frozen=True)
class Joint:
    """One collective as a whole: `ranks` call `op` on `nbytes` each (the largest, if they differ)."""

    op: str
    ranks: tuple[int, ...]
    nbytes: int
    reduction: str = ""


@dataclass(frozen=True)
class Round:
    """What went on side by side. `ops` names the calls, `label` is the step's label or ""."""

    moves: tuple[Move, ...] = ()
    joint: tuple[Joint, ...] = ()
    label: str = ""
    ops: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of all moves together."""
        return sum(move.nbytes for move in self.moves)


@dataclass
class _Call:
    """One message, or one collective over all its ranks: the unit that is put into a round."""

    events: list[Event]
    depth: int = 0
    ready: dict[int, float | None] = field(default_factory=dict)
    """Rank -> when the call was over there."""

    @property
    def begun(self) -> float:
        return max(event.start for event in self.events)

    @property
    def label(self) -> str:
        return self.events[0].label

    def moves(self) -> list[Move]:
        return [Move(e.rank, peer, nbytes) for e in self.events for peer, nbytes in e.sends if peer != e.rank]

    def joint(self) -> list[Joint]:
        first = self.events[0]
        if first.is_point_to_point or any(e.sends or e.receives for e in self.events):
            return []
        nbytes = max(event.nbytes for event in self.events)
        return [Joint(first.op, first.group, nbytes, first.reduction)]


def in_rounds(events: Iterable[Event]) -> list[Round]:
    """The rounds of an experiment, in order.

    A step label (`ml.step`) makes one round, unless some pair of ranks talks twice under it. Without labels
    a transfer belongs one round after everything that its sender had finished before it began.
    """
    calls = _calls(list(events))
    _set_depths(calls)
    members: dict[str, list[_Call]] = defaultdict(list)
    for call in calls:
        members[call.label].append(call)
    groups: dict[tuple[str, int], list[_Call]] = defaultdict(list)
    for label, under in members.items():
        once = bool(label) and _each_pair_once(under)
        for call in under:
            groups[label, 0 if once else call.depth].append(call)
    return [_round(group) for group in sorted(groups.values(), key=lambda g: min(c.begun for c in g))]


def as_rounds(rounds: Sequence[Round | Sequence[Move | tuple[Any, ...]]]) -> list[Round]:
    """Rounds made by hand: each a Round, or a list of Move or (source, target[, nbytes[, name]])."""
    return [one if isinstance(one, Round) else Round(tuple(map(_as_move, one))) for one in rounds]


def _as_move(move: Move | tuple[Any, ...]) -> Move:
    return move if isinstance(move, Move) else Move(*move)


def fold(rounds: Sequence[Round], limit: int) -> list[Round]:
    """At most `limit` rounds: neighbours are put together, their moves between the same pair added up."""
    if len(rounds) <= limit:
        return list(rounds)
    cuts = [round(i * len(rounds) / limit) for i in range(limit + 1)]
    return [_merge(rounds[a:b]) for a, b in pairwise(cuts)]


def bundled(one: Round) -> Round:
    """The round with all messages of a pair of ranks as one move: keys and values, say, on one arrow."""
    pairs: dict[tuple[int, int], list[Move]] = defaultdict(list)
    for move in one.moves:
        pairs[move.source, move.target].append(move)
    if len(pairs) == len(one.moves):
        return one
    return replace(one, moves=tuple(_together(moves) for _, moves in sorted(pairs.items())))


def _together(moves: Sequence[Move]) -> Move:
    name = " ".join(dict.fromkeys(move.name for move in moves if move.name))
    total, messages = sum(move.nbytes for move in moves), sum(move.messages for move in moves)
    return replace(moves[0], nbytes=total, name=name, messages=messages)


def matched(events: Iterable[Event]) -> list[tuple[Event, Event | None]]:
    """Each send with the receive that took it (None: not recorded): k-th with k-th, by pair and tag."""
    ordered = sorted(events, key=lambda e: (e.rank, e.index))
    waiting: dict[tuple[int, int | None, int, tuple[int, ...]], list[Event]] = defaultdict(list)
    for event in reversed(ordered):
        if event.op in ("recv", "irecv"):
            waiting[event.rank, event.peer, event.tag, event.group].append(event)
    pairs: list[tuple[Event, Event | None]] = []
    for event in ordered:
        if event.op in ("send", "isend"):
            queue = waiting[event.peer if event.peer is not None else -1, event.rank, event.tag, event.group]
            pairs.append((event, queue.pop() if queue else None))
    return pairs


def _calls(events: list[Event]) -> list[_Call]:
    """Messages (a send with its receive) and collectives (the same call on all its ranks)."""
    calls = []
    for send, receive in matched(events):
        ready = {send.rank: send.end}
        if receive is not None:
            ready[receive.rank] = receive.end
        calls.append(_Call([send], ready=ready))
    joint: dict[tuple[tuple[int, ...], int], _Call] = {}
    turns: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for event in sorted(events, key=lambda e: (e.rank, e.index)):
        if event.is_point_to_point:
            continue
        turns[event.rank, event.group] += 1
        call = joint.setdefault((event.group, turns[event.rank, event.group]), _Call([]))
        call.events.append(event)
        call.ready[event.rank] = event.end
    return calls + list(joint.values())


def _set_depths(calls: list[_Call]) -> None:
    """Number the rounds: one more than the deepest call that was over before this one began."""
    settled: dict[int, int] = defaultdict(int)
    running: dict[int, list[_Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda c: c.begun):
        for event in call.events:
            still = []
            for earlier in running[event.rank]:
                end = earlier.ready[event.rank]
                if end is not None and end <= event.start:
                    settled[event.rank] = max(settled[event.rank], earlier.depth + 1)
                else:
                    still.append(earlier)
            running[event.rank] = still
            own = [c.depth for c in still if c.events[0].rank == event.rank]
            call.depth = max([call.depth, settled[event.rank], *own])
        for rank in call.ready:
            running[rank].append(call)


def _each_pair_once(calls: list[_Call]) -> bool:
    pairs = Counter((move.source, move.target) for call in calls for move in call.moves())
    groups = Counter(joint.ranks for call in calls for joint in call.joint())
    mixed = bool(pairs) and bool(groups)
    return not mixed and max([*pairs.values(), *groups.values(), 0]) <= 1


def _round(calls: list[_Call]) -> Round:
    moves = tuple(sorted((m for c in calls for m in c.moves()), key=lambda m: (m.source, m.target)))
    joint = tuple(sorted((j for c in calls for j in c.joint()), key=lambda j: j.ranks))
    ops = tuple(dict.fromkeys(event.op for call in calls for event in call.events))
    return Round(moves, joint, calls[0].label, ops)


def _merge(rounds: Sequence[Round]) -> Round:
    totals: dict[tuple[int, int], Move] = {}
    for move in (m for one in rounds for m in one.moves):
        known = totals.get((move.source, move.target))
        merged = replace(move, nbytes=move.nbytes + (known.nbytes if known else 0))
        totals[move.source, move.target] = replace(merged, name="")
    labels = list(dict.fromkeys(one.label for one in rounds if one.label))
    label = labels[0] if len(labels) <= 1 and labels else f"{labels[0]} … {labels[-1]}" if labels else ""
    ops = tuple(dict.fromkeys(op for one in rounds for op in one.ops))
    joint = tuple(j for one in rounds for j in one.joint)
    return Round(tuple(sorted(totals.values(), key=lambda m: (m.source, m.target))), joint, label, ops)
