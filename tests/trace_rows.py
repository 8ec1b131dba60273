"""Rows of a rank as the recorder would write them, made by hand."""

from __future__ import annotations

from mindlab.trace.row import Row, State


class Script:
    """The rows of one rank, numbered as the recorder numbers them."""

    def __init__(self, rank, ranks=2):
        self.rank, self.ranks, self.rows, self.counts = rank, ranks, [], {}

    def call(self, op, *, inside=False, group=None, **given):
        group = tuple(range(self.ranks)) if group is None else group
        communicator = given.pop("communicator", str(group))
        key = (
            communicator,
            given.get("peer"),
            given.get("tag", 0),
            op in ("send", "isend", "send_object_list"),
        )
        key = key if "peer" in given else (communicator,)
        number = given.pop("number", self.counts.get(key, 0))
        self.counts[key] = number + 1
        index = len(self.rows)
        defaults = {
            "nbytes": 16,
            "dtype": "float32",
            "shape": (4,),
            "start": float(index),
            "lineno": index + 1,
        }
        if op in ("barrier", "new_group"):
            defaults |= {"nbytes": 0, "dtype": "", "shape": ()}
        end = None if inside or given.get("asynchronous") else index + 0.5
        values = {**defaults, "end": end, **given}
        row = Row(
            index=index, op=op, group=group, number=number, communicator=communicator, blocking=inside,
            file="/x/ring.py", **values,
        )  # fmt: skip
        self.rows.append(row)
        return self


def look(*scripts, phases=None, jobs=None):
    phases = phases or ["running"] * len(scripts)
    jobs = jobs or [1] * len(scripts)
    rows = [script.rows for script in scripts]
    states = [
        State(phase, 0.0, job, len(mine) - 1) for phase, job, mine in zip(phases, jobs, rows, strict=True)
    ]
    return rows, states
