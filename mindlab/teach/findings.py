"""What is wrong with an answer, in one sentence: the first finding of a list that goes from plain to subtle.

A finding says what was seen, never what to write. Each is a pure function of an Attempt: sentence or "".
"""

from __future__ import annotations

from collections.abc import Callable

from mindlab.predict import units
from mindlab.teach import pattern
from mindlab.teach.attempt import Attempt
from mindlab.teach.calls import is_named
from mindlab.teach.spending import over_budget
from mindlab.teach.values import kind, wrong_value
from mindlab.teach.words import ranks_named, say, trial_words

_FRAMES = 144
"""What a message costs at most beside its payload, in bytes: 96 at its sender and 48 for the answer."""

Finding = Callable[[Attempt], str]


def find(attempt: Attempt, before: Attempt | None) -> str:
    """The first finding, or "" for a right answer. `before`: an attempt with as many ranks that was right."""
    own = attempt.exercise.look
    for finding in (_library, *([own] if own else []), _silent, kind, wrong_value, _strangers, _record):
        sentence = finding(attempt)
        if sentence:
            if finding is not wrong_value:
                return sentence
            return sentence + _unwaited(attempt) + ("" if before is None else _was_right(attempt, before))
    return over_budget(attempt)


def _unwaited(attempt: Attempt) -> str:
    """What the run says of a message that nobody waited for: wrong values then come and go."""
    note = next((note for note in attempt.run.notes if "nobody waited" in note), "")
    return say("unwaited", note=note) if note else ""


def _library(attempt: Attempt) -> str:
    allowed = attempt.exercise.calls
    used = sorted({event.op for event in attempt.run.events})
    if attempt.exercise.pure:
        return say("not_pure", ops=", ".join(used)) if used else ""
    foreign = [op for op in used if not any(is_named(op, name) for name in allowed)]
    if not allowed or not foreign:
        return ""
    return say("forbidden", ops=", ".join(foreign), allowed=", ".join(allowed))


def _silent(attempt: Attempt) -> str:
    needless = attempt.exercise.pure or attempt.trial.ranks == 1
    return "" if attempt.run.events or needless else say("silent")


def _strangers(attempt: Attempt) -> str:
    edges = attempt.exercise.edges
    if edges is None:
        return ""
    allowed = set(edges(attempt.trial.ranks))
    found = pattern.strangers(attempt.run, allowed)
    if not found:
        return ""
    source, target, nbytes = found[0]
    targets = sorted(to for one, to in allowed if one == source)
    if not targets:
        return say("stranger_to_all", source=source, target=target, size=units.size(nbytes))
    return say(
        "strangers", source=source, target=target, size=units.size(nbytes), allowed=ranks_named(targets)
    )


def _record(attempt: Attempt) -> str:
    """Bytes on the wire that no recorded call accounts for: the answer found a way around the record."""
    wire = attempt.run.wire
    if wire is None or not attempt.exercise.calls:
        return ""
    if not all(event.is_point_to_point for event in attempt.run.events):
        # A collective's bytes take the backend's way. The run says whether its calls explain them.
        note = next((note for note in wire.note.split("; ") if "explain" in note), "")
        return say("unexplained", note=note) if note and wire.payload is None else ""
    counted = attempt.run.traffic.tolist()
    # Without a payload the recorded calls do not explain the bytes: then all that went over the wire speaks.
    exact = wire.payload is not None
    moved = wire.payload if wire.payload is not None else wire.total
    for source, row in enumerate(moved.tolist()):
        for target, seen in enumerate(row):
            said = counted[source][target]
            if seen != said if exact else seen > said + _FRAMES * (1 + len(attempt.run.events)):
                return say(
                    "off_the_record", seen=units.size(seen), source=source, target=target,
                    counted=units.size(said),
                )  # fmt: skip
    return ""


def _was_right(attempt: Attempt, before: Attempt) -> str:
    """What the ranks could do in an earlier trial; "" where they had the same sizes."""
    if attempt.trial.sizes:
        return say("was_right_with", trial=trial_words(before.trial))
    if before.trial.numel % before.trial.ranks or not attempt.trial.numel % attempt.trial.ranks:
        return ""
    return say("was_right", numel=f"{before.trial.numel:,}", ranks=attempt.trial.ranks)
