"""After an experiment: what the backend accepted in silence."""

from __future__ import annotations

from trace_rows import Script

from mindlab.trace.matching import review
from mindlab.trace.record import Record
from mindlab.trace.row import Row


def _record(script, arguments=None):
    record = Record(script.rank)
    for row, argument in zip(script.rows, arguments or [""] * len(script.rows), strict=True):
        values = tuple(getattr(row, name) for name in Row.__dataclass_fields__)
        record.calls.append((*values, "", "", argument, ()))
    return record


def test_review_finds_what_the_backend_accepted():
    """Would catch a run with wrong sums that ends as if all were well."""
    pair = [
        Script(0).call("all_reduce", nbytes=20, shape=(5,)),
        Script(1).call("all_reduce", nbytes=12, shape=(3,)),
    ]
    found = review([_record(script) for script in pair])
    assert [fault.kind for fault in found.faults] == ["mismatch"]
    right = [Script(r).call("all_reduce").call("barrier") for r in range(2)]
    assert review([_record(script) for script in right]) == type(found)([], [])


def test_review_finds_an_asynchronous_collective_that_one_rank_left_out():
    """Would catch a collective that nobody waited for and one rank never made."""
    found = review([_record(Script(0).call("all_reduce", asynchronous=True)), _record(Script(1))])
    assert "rank 1 has returned and never called it" in found.faults[0].message


def test_review_notes_a_message_that_nobody_took():
    """Would catch an isend without a receive: the next experiment would find the message."""
    found = review([_record(Script(0).call("isend", peer=1, asynchronous=True)), _record(Script(1))])
    assert found.faults == [] and "nobody received" in found.notes[0]


def test_review_notes_tensors_received_in_another_order():
    """Would catch k and v exchanged on the way: same sizes, no error, wrong numbers."""
    sender = Script(0).call("send", peer=1).call("send", peer=1)
    taker = Script(1).call("recv", peer=0).call("recv", peer=0)
    (note,) = review([_record(sender, ["k", "v"]), _record(taker, ["v", "k"])]).notes
    assert "carries k" in note and "into v" in note and "line 1" in note
    assert review([_record(sender, ["k", "v"]), _record(taker, ["k", "v"])]).notes == []
    assert review([_record(sender, ["x", "x"]), _record(taker, ["a", "b"])]).notes == []
