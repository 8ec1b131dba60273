"""Do the ranks fit together: rows in, faults out; no processes."""

from __future__ import annotations

import dataclasses

import pytest
from trace_rows import Script, look

from mindlab.trace.matching import find_fault, where
from mindlab.trace.row import State


def _fault(*scripts, **given):
    return find_fault(*look(*scripts, **given))


@pytest.mark.parametrize(
    ("mine", "other", "words"),
    [
        ({"op": "all_reduce"}, {"op": "broadcast", "root": 0}, "different collectives"),
        ({"op": "all_reduce"}, {"op": "all_reduce", "nbytes": 20, "shape": (5,)}, "other shapes"),
        ({"op": "all_reduce", "shape": (2, 2)}, {"op": "all_reduce", "shape": (4,)}, "other shapes"),
        ({"op": "all_reduce"}, {"op": "all_reduce", "dtype": "int32"}, "other dtypes"),
        ({"op": "broadcast", "root": 0}, {"op": "broadcast", "root": 1}, "other roots"),
        ({"op": "all_reduce", "reduction": "sum"}, {"op": "all_reduce", "reduction": "max"}, "reduce by"),
        (
            {"op": "new_group", "created": (0,)},
            {"op": "new_group", "created": (1,)},
            "groups in another order",
        ),
        (
            {"op": "reduce_scatter", "out_sizes": (8, 8)},
            {"op": "reduce_scatter", "out_sizes": (12, 4)},
            "other shapes",
        ),
    ],
)
def test_one_call_made_differently_is_a_mismatch(mine, other, words):
    """Would catch a kind of difference that nobody compares; both ranks and lines must be named."""
    fault = _fault(Script(0).call(inside=True, **mine), Script(1).call(inside=True, **other))
    assert fault.kind == "mismatch" and fault.ranks == (0, 1)
    assert words in fault.message and fault.message.count("ring.py, line 1") == 2


def test_the_same_operation_under_two_names_is_none():
    """Would catch a false alarm when one rank uses the deprecated name; () and (1,) are the same data."""
    assert _fault(Script(0).call("all_gather_into_tensor"), Script(1).call("all_gather_single")) is None
    assert _fault(Script(0).call("all_reduce", shape=()), Script(1).call("all_reduce", shape=(1,))) is None


def test_all_to_all_compares_what_one_sends_with_what_the_other_expects():
    """Would catch a rule that wants equal splits on all ranks, which uneven ones rightly are not."""
    right = (
        Script(0).call("all_to_all_single", nbytes=12, out_sizes=(4, 8), in_sizes=(4, 16), shape=(3,)),
        Script(1).call("all_to_all_single", nbytes=20, out_sizes=(16, 4), in_sizes=(8, 4), shape=(5,)),
    )
    assert _fault(*right) is None
    wrong = Script(1).call("all_to_all_single", nbytes=20, out_sizes=(16, 4), in_sizes=(12, 4), shape=(5,))
    assert "rank 0 hands 8 B to rank 1, which expects 12 B" in _fault(right[0], wrong).message


def test_all_gather_of_uneven_parts_is_judged_by_the_lists():
    """Would catch a false alarm on parts that differ as every rank expects them to."""
    lists = {"in_sizes": (16, 8)}
    right = (
        Script(0).call("all_gather", nbytes=16, **lists),
        Script(1).call("all_gather", nbytes=8, shape=(2,), **lists),
    )
    assert _fault(*right) is None
    wrong = Script(1).call("all_gather", nbytes=16, **lists)
    assert "which expects 8 B" in _fault(right[0], wrong).message


def test_scatter_and_gather_hold_the_root_against_the_others():
    """Would catch sizes that only the root knows, and a false alarm because its own total is larger."""
    root = Script(0).call("scatter", root=0, nbytes=32, out_sizes=(16, 16), shape=(4,))
    assert _fault(root, Script(1).call("scatter", root=0)) is None
    assert "holds for rank 1 16 B" in _fault(root, Script(1).call("scatter", root=0, nbytes=8)).message
    root = Script(0).call("gather", root=0, in_sizes=(16, 8))
    assert "expects from rank 1 8 B" in _fault(root, Script(1).call("gather", root=0)).message


def test_objects_have_no_sizes_to_differ():
    """Would catch a false alarm on objects that are pickled to other lengths."""
    mine = Script(0).call("all_gather_object", nbytes=5, dtype="object", shape=())
    assert _fault(mine, Script(1).call("all_gather_object", nbytes=99, dtype="object", shape=())) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nbytes": 20, "shape": (5,)}, "has room for 20 B"),
        ({"nbytes": 8, "shape": (2,)}, "too little"),
        ({"dtype": "int32"}, "sends float32, rank 1 receives int32"),
        ({"dtype": "object", "op": "recv_object_list"}, "send_object_list and recv_object_list"),
    ],
)
def test_both_ends_of_a_message_must_agree(given, words):
    """Would catch gloo's stale tail after a short message and its abort after a long one."""
    op = given.pop("op", "recv")
    fault = _fault(Script(0).call("send", peer=1), Script(1).call(op, peer=0, **given))
    assert fault.kind == "mismatch" and words in fault.message


def test_the_shapes_of_a_message_may_differ():
    """Would catch a false alarm on a flat send into a shaped buffer of the same bytes."""
    sent, taken = Script(0).call("send", peer=1), Script(1).call("recv", peer=0, shape=(2, 2))
    assert _fault(sent, taken) is None


def test_messages_are_paired_by_their_number_and_tag():
    """Would catch pairing by time: the second send belongs to the second receive of its own tag."""
    sender = Script(0).call("send", peer=1, tag=1, nbytes=4).call("send", peer=1, tag=2, nbytes=8)
    taker = Script(1).call("recv", peer=0, tag=2, nbytes=8).call("recv", peer=0, tag=1, nbytes=4)
    assert _fault(sender, taker) is None


def test_a_rank_that_returned_is_not_waited_for():
    """Would catch a timeout of a minute where one look says that nobody will come."""
    waiting = Script(0, 3).call("all_reduce", inside=True)
    fault = _fault(waiting, Script(1, 3).call("all_reduce", inside=True), Script(2, 3), phases=_done(2, 3))
    assert (
        fault.kind == "mismatch"
        and 2 in fault.ranks
        and "rank 2 has returned and never called it" in fault.message
    )
    assert "rank 1 waits in all_reduce" in fault.message
    fault = _fault(Script(0).call("recv", peer=1, inside=True), Script(1), phases=_done(1, 2))
    assert "never sent it" in fault.message
    fault = _fault(Script(0).call("send", peer=1, inside=True), Script(1), phases=_done(1, 2))
    assert "never received it" in fault.message
    fault = _fault(Script(0).call("recv", peer=None, inside=True), Script(1), phases=_done(1, 2))
    assert "never sent it" in fault.message


def _done(rank, ranks):
    return ["done" if other == rank else "running" for other in range(ranks)]


def test_a_snapshot_that_is_torn_is_no_fault():
    """Would catch an alarm from rows that were read before the state said "done"."""
    rows, states = look(Script(0).call("barrier", inside=True), Script(1), phases=_done(1, 2))
    states[1] = dataclasses.replace(states[1], last_index=0)
    assert find_fault(rows, states) is None


def test_rows_that_left_the_board_are_not_called_missing():
    """Would catch an alarm after a few hundred calls: the partner's row is only out of sight."""
    late = dataclasses.replace(Script(1).call("send", peer=0, nbytes=4).rows[0], index=900, number=900)
    rows = [Script(0).call("barrier", inside=True).rows, [late]]
    states = [State("running", 0.0, 1, 0), State("done", 0.0, 1, 900)]
    assert find_fault(rows, states) is None


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_ring_of_blocking_sends_is_stuck(ranks):
    """Would catch a ring that waits for its timeout: each rank sends, none receives."""
    scripts = [Script(r, ranks).call("send", peer=(r + 1) % ranks, inside=True) for r in range(ranks)]
    fault = _fault(*scripts)
    assert fault.kind == "stuck" and fault.ranks == tuple(range(ranks))
    assert "isend" in fault.message and f"rank 0 waits in send to rank {1 % ranks}" in fault.message


def test_stuck_needs_every_living_rank_and_no_way_out():
    """Would catch a standstill declared while one rank still computes, or one call can still end."""
    sender = Script(0).call("send", peer=1, inside=True)
    assert _fault(sender, Script(1)) is None  # rank 1 runs its own code
    assert _fault(sender, Script(1).call("recv", peer=0, inside=True)) is None  # the two will meet
    assert _fault(sender, Script(1).call("recv", peer=None, inside=True)) is None  # from anyone
    assert _fault(sender, Script(1).call("send", peer=0, inside=True), jobs=[2, 1]) is None  # has not begun
    behind = Script(1).call("irecv", peer=0, asynchronous=True).call("send", peer=0, inside=True)
    assert _fault(sender, behind) is None  # the receive is posted


def test_waits_on_asynchronous_work_can_be_stuck_too():
    """Would catch a look at blocking calls only: all ranks stand in wait() of receives that nobody sends."""
    scripts = [Script(r).call("irecv", peer=1 - r, asynchronous=True, inside=True) for r in range(2)]
    fault = _fault(*scripts)
    assert fault.kind == "stuck" and "wait() of irecv" in fault.message


def test_different_order_of_collectives_and_messages_is_stuck():
    """Would catch the classic: one rank is in a barrier, the other one waits for its message first."""
    fault = _fault(Script(0).call("barrier", inside=True), Script(1).call("recv", peer=0, inside=True))
    assert fault.kind == "stuck" and "for rank 1 to join" in fault.message


def test_two_groups_in_another_order_are_stuck():
    """Would catch a standstill over sub-groups: each rank waits in another group's collective."""
    a, b = {"communicator": "a"}, {"communicator": "b"}
    fault = _fault(
        Script(0).call("all_reduce", inside=True, **a), Script(1).call("all_reduce", inside=True, **b)
    )
    assert fault.kind == "stuck"


def test_a_tree_may_end_for_some_before_others_come():
    """Would catch "stuck" for a broadcast whose root and one child can finish without the third rank."""
    root = Script(0, 3).call("broadcast", root=0, inside=True)
    child = Script(1, 3).call("broadcast", root=0, inside=True)
    other = Script(2, 3).call("recv", peer=1, inside=True)
    assert _fault(root, child, other) is None
    alone = Script(1, 3).call("recv", peer=2, inside=True)
    assert _fault(root, alone, Script(2, 3).call("recv", peer=0, inside=True)).kind == "stuck"


def test_nothing_is_said_before_or_after_an_experiment():
    """Would catch the last job's rows judged as this one's."""
    wrong = (Script(0).call("all_reduce"), Script(1).call("all_reduce", dtype="int8"))
    assert _fault(*wrong, phases=["done", "done"]) is None
    assert _fault(*wrong) is not None


def test_a_call_that_raised_counts_for_nothing():
    """Would catch a refused call that shifts the numbers of all later ones."""
    script = Script(0).call("all_reduce", dtype="int8")
    script.rows[0] = dataclasses.replace(script.rows[0], failed=True)
    assert _fault(script, Script(1).call("all_reduce")) is None


def test_where_says_one_line_a_rank():
    """Would catch a rank that the report forgets, or a call without its line."""
    scripts = (
        Script(0, 5).call("recv", peer=1, inside=True),
        Script(1, 5).call("all_reduce"),
        Script(2, 5),
        Script(3, 5),
        Script(4, 5),
    )
    phases = ["running", "running", "done", "failed", "running"]
    lines = where(*look(*scripts, phases=phases, jobs=[2, 2, 2, 2, 1]))
    assert lines[0].startswith("rank 0 waits in recv from rank 1 (its call 0; ring.py, line 1) for ")
    assert lines[1] == "rank 1 is running its own code, last call all_reduce (call 0, ring.py, line 1)"
    assert lines[2:] == ["rank 2 has returned", "rank 3 has failed", "rank 4 has not started"]
