"""What a Run shows of itself."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run
from mindlab.trace.wire import Wire


def _matrix(values):
    return Measured(values, unit="B", provenance="wire", source="test")


def _run(ranks=2, **given):
    events = [
        Event(0, 0, "send", (0, 1), 2048, "float32", 0.0, 0.1, peer=1, sends=((1, 2048),)),
        Event(1, 0, "recv", (0, 1), 2048, "float32", 0.0, 0.1, peer=0, receives=((0, 2048),)),
        Event(1, 1, "all_reduce", (0, 1), 8, "float32", 0.1, 0.2),
    ]
    seconds = Measured([0.25] * ranks, unit="s", provenance="timed")
    return Run([None] * ranks, [""] * ranks, seconds, events, "gloo", 0, name="work", **given)


def test_traffic_says_what_is_not_in_it():
    """Would catch a sum of counted bytes that is read as everything, with a reduction in the run."""
    run = _run()
    assert run.traffic.tolist() == [[0, 2048], [0, 0]] and run.sent.tolist() == [2048, 0]
    assert "without all_reduce x1" in run.sent.note
    run.events = [Event(0, 0, "broadcast", (0,), 8, "float32", 0.0, 0.1, root=0)]
    assert run.sent.note == "", "a group of one moves nothing"


def test_the_text_shows_ranks_times_bytes_and_notes():
    """Would catch a Run that shows a page of fields instead of a table."""
    total = [[0, 2144], [48, 0]]
    wire = Wire(_matrix(total), _matrix([[0, 96], [48, 0]]), _matrix([[0, 2048], [0, 0]]), "test", "")
    shown = repr(_run(wire=wire, notes=["guards were off"]))
    lines = shown.splitlines()
    assert lines[0].startswith("work: 2 ranks · gloo") and lines[1].split()[:3] == ["rank", "timed", "calls"]
    assert lines[2].split() == ["0", "250", "ms", "1", "2", "KiB", "2", "KiB"]
    assert "note: guards were off" in lines and "note: without all_reduce x1" in shown
    assert "with framing" in repr(_run(wire=Wire(_matrix(total), None, None, "test", "pair unknown")))
    assert "note: no wire bytes: no counters" in repr(_run(why_no_wire="no counters"))


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.cells, self.links = [], 0, []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.cells += tag == "td"
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_html_is_whole_and_stands_alone():
    """Would catch unclosed tags, a note that injects markup, a fixed colour, a file from elsewhere."""
    html = _run(notes=["<script>alert(1)</script>"])._repr_html_()
    page = _Page()
    page.feed(html)
    assert page.open == [] and page.cells == 2 * 4 and page.links == []
    assert "<script" not in html and "url(" not in html
    assert "#" not in html and "rgb" not in html and "white" not in html


def test_many_ranks_and_notes_stay_short():
    """Would catch a page of rows for a large run; what is left out is said."""
    run = _run(ranks=40, notes=[f"note {number}" for number in range(50)])
    shown = repr(run)
    assert len(shown.splitlines()) < 35 and "24 more ranks" in shown and "more" in shown.splitlines()[-1]


def test_arithmetic_on_traffic_keeps_its_provenance():
    """Would catch a counted number that turns into a bare one on its way into a check."""
    half = _run().sent / 2
    assert half.provenance == "counted" and np.asarray(half).tolist() == [1024, 0]


def test_wire_sent_is_the_payload_or_none():
    """Would catch a chapter that crashes where no wire was seen, and framing counted as data."""
    payload = _matrix([[0, 2048], [0, 0]])
    run = _run(wire=Wire(_matrix([[0, 2144], [48, 0]]), _matrix([[0, 96], [48, 0]]), payload, "test"))
    assert run.wire_sent.tolist() == [2048, 0] and run.wire_received.tolist() == [0, 2048]
    assert _run().wire_sent is None and _run(why_no_wire="no counters").wire_received is None
