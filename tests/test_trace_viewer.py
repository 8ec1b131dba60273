"""The trace that Perfetto and MindStudio Insight open."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from mindlab.trace import viewer
from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run


def _event(rank, index, op, start, end, **given):
    return Event(rank, index, op, (0, 1), 8, "float32", start, end, **given)


@pytest.fixture
def run():
    events = [
        _event(
            0,
            0,
            "isend",
            0.001,
            0.004,
            peer=1,
            asynchronous=True,
            line="a.py, line 3",
            code="dist.isend(x, 1)",
        ),
        _event(0, 1, "isend", 0.002, 0.003, peer=1, asynchronous=True),
        _event(1, 0, "recv", 0.001, 0.005, peer=0, label="step 1"),
        _event(1, 1, "recv", 0.005, 0.006, peer=0),
        _event(0, 2, "all_reduce", 0.006, None, asynchronous=True),
        _event(1, 2, "send", 0.007, 0.008, peer=0, tag=9),
    ]
    return Run(
        [1, 2], ["", ""], Measured([1.0, 1.0], unit="s", provenance="timed"), events, "gloo", 0, name="f"
    )


def test_every_call_is_a_complete_event_of_its_rank(run, tmp_path):
    """Would catch seconds taken for microseconds, a rank that is no process, a call left out."""
    trace = json.loads(run.save(tmp_path / "a.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert Counter(event["pid"] for event in slices) == {0: 3, 1: 3}
    first = next(event for event in slices if event["args"].get("line") == "a.py, line 3")
    assert (first["ts"], first["dur"]) == (pytest.approx(1000), pytest.approx(3000))
    assert first["args"]["bytes"] == 8 and first["args"]["code"] == "dist.isend(x, 1)"
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    assert all({"ph", "pid", "tid", "name"} <= set(event) for event in trace["traceEvents"])
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X", "s", "f"}


def test_calls_at_the_same_time_do_not_share_a_row(run):
    """Would catch slices that overlap without nesting, which a viewer draws wrong or drops."""
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in viewer.trace(run)["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"])
            )
    assert len(rows) == 3
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(spans))


def test_each_message_has_one_arrow_that_binds_to_its_slices(run):
    """Would catch arrows between the wrong calls, or with a tail outside of every slice."""
    events = viewer.trace(run)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    tails = {event["id"]: event for event in events if event["ph"] == "s"}
    heads = {event["id"]: event for event in events if event["ph"] == "f"}
    assert tails.keys() == heads.keys() and len(tails) == 2, "the send that nobody received has none"
    for number, tail in tails.items():
        for spot in (tail, heads[number]):
            assert any(
                (s["pid"], s["tid"]) == (spot["pid"], spot["tid"])
                and s["ts"] <= spot["ts"] <= s["ts"] + s["dur"]
                for s in slices
            )
        assert (tail["pid"], heads[number]["pid"]) == (0, 1) and heads[number]["bp"] == "e"


def test_an_unknown_end_is_said(run):
    """Would catch a call that nobody waited for drawn as one that took no time."""
    slices = [event for event in viewer.trace(run)["traceEvents"] if event["ph"] == "X"]
    (open_one,) = [event for event in slices if event["name"] == "all_reduce"]
    assert open_one["dur"] == 0 and "nobody waited" in open_one["args"]["end"]
