"""Case 04-c: a buffer that is filled again while it is still being sent."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ring import merge_lse
from mindlab.teach.lesson import Case, Choice, Wrong
from mindlab.teach.lessons.chapter_04 import by_hand, by_shards

Tensor = torch.Tensor


def ring_with_two_buffers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This rank's part of the attention over the whole sequence."""
    rank, p = dist.get_rank(), dist.get_world_size()
    buffers = [torch.stack([k, v]), torch.empty(2, *k.shape)]
    parts, leaving = [], []
    for step in range(p):
        block, room = buffers[step % 2], buffers[1 - step % 2]
        if step < p - 1:
            leaving.append(dist.isend(block, (rank + 1) % p))
            coming = dist.irecv(room, (rank - 1) % p)
        parts.append(attention_with_lse(q, block[0], block[1]))
        if step < p - 1:
            coming.wait()
    while leaving:
        leaving.pop().wait()
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def repaired(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same; a buffer is free when it has left."""
    rank, p = dist.get_rank(), dist.get_world_size()
    buffers = [torch.stack([k, v]), torch.empty(2, *k.shape)]
    parts = []
    for step in range(p):
        block, room = buffers[step % 2], buffers[1 - step % 2]
        if step < p - 1:
            sending = dist.isend(block, (rank + 1) % p)
            coming = dist.irecv(room, (rank - 1) % p)
        parts.append(attention_with_lse(q, block[0], block[1]))
        if step < p - 1:
            coming.wait()
            sending.wait()
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def new_room_each_time(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right, with more memory: nothing is ever filled twice."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block, parts, leaving = torch.stack([k, v]), [attention_with_lse(q, k, v)], []
    for _ in range(p - 1):
        room = torch.empty_like(block)
        leaving.append(dist.isend(block, (rank + 1) % p))
        dist.recv(room, (rank - 1) % p)
        block = room
        parts.append(attention_with_lse(q, block[0], block[1]))
    for sending in leaving:
        sending.wait()
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def one_buffer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: what comes lands where what leaves still lies."""
    rank, p = dist.get_rank(), dist.get_world_size()
    block, parts = torch.stack([k, v]), [attention_with_lse(q, k, v)]
    for _ in range(p - 1):
        sending = dist.isend(block, (rank + 1) % p)
        dist.recv(block, (rank - 1) % p)
        sending.wait()
        parts.append(attention_with_lse(q, block[0], block[1]))
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


def wrong_buffer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Wrong: it waits, but computes with the buffer that has just left, so the last block is never used."""
    rank, p = dist.get_rank(), dist.get_world_size()
    buffers = [torch.stack([k, v]), torch.stack([k, v])]
    parts = [attention_with_lse(q, k, v)]
    for step in range(p - 1):
        block, room = buffers[step % 2], buffers[1 - step % 2]
        sending = dist.isend(block, (rank + 1) % p)
        dist.recv(room, (rank - 1) % p)
        sending.wait()
        if step:
            parts.append(attention_with_lse(q, block[0], block[1]))
    return merge_lse([out for out, _ in parts], [lse for _, lse in parts])[0]


_EQUAL = partial(partial, by_shards.of_equal_lengths)

REPAIR = replace(
    by_shards.REPAIR,
    name="04-c",
    trials=by_shards.REPAIR.trials[::-1],  # with 3 ranks the guard is sure to see it on every rank
    title="Right, unless somebody is late",
    hints=(
        "When may a buffer that was given to `isend` be written again? What in the program says that this "
        "moment has come?",
        "Draw the two buffers as two rows, and time to the right. Mark from when to when each is being "
        "sent, and when something is received into it. In which step do two marks meet?",
        """
        if step < p - 1:
            coming.wait()                 # the next block is here
            ...                           # and before this buffer is filled again?
""",
    ),
    explanation="""
In step 1 the next block is received into the buffer from which step 0's block is sent. That send is finished
only when the right neighbour has taken it. A neighbour that is late then gets what has been written over it.
Waiting for both, the arrival and the departure, before the buffers change places costs nothing that the ring
does not need anyway: two buffers are enough.
""",
    solution=repaired,
    right=(new_room_each_time, *by_shards.REPAIR.right),
    wrong=(
        Wrong(ring_with_two_buffers, r"raised UnsafeCall: isend .* its tensor was changed before wait"),
        Wrong(one_buffer, r"raised UnsafeCall: isend .* its tensor was changed before wait"),
        Wrong(wrong_buffer, r"Rank 0: element"),
        Wrong(by_shards.polite, r"wait for each other"),
        Wrong(_EQUAL(answer=partial(by_hand.ring, how="sum")), r"the sum of the results"),
        Wrong(_EQUAL(answer=partial(by_hand.ring, more=1)), r"1\.5 times the allowed"),
    ),
)

CASE = Case(
    name="04-c",
    title="Right, unless somebody is late",
    story="""
A ring that sends while it computes, with two buffers that take turns: while one is used and passed on, the
next block arrives in the other. It was right in every test. On a busy cluster, now and then, a result is
wrong, and a second run is right again.
""",
    program=ring_with_two_buffers,
    causes=(
        Choice(
            "Two messages overtake each other on the way.",
            "Messages from one rank to another arrive in the order in which they were sent.",
            holds=False,
        ),
        Choice(
            "A block is used before it has arrived.",
            "`coming.wait()` stands before the buffers change places.",
            holds=False,
        ),
        Choice(
            "A buffer is received into before what was in it has left.",
            "Nobody waits for the sends until the end. In step 1 the arriving block lands in the buffer that "
            "step 0 sends from; a late neighbour gets the new content.",
            holds=True,
        ),
        Choice(
            "The merge depends on the order in which blocks arrive.",
            "It does not, but for rounding. And each rank meets the blocks in an order that is always the "
            "same.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a classic of asynchronous sending (the MPI standard forbids it: MPI 4.1, section 3.7); "
    "rewritten for a ring of keys and values",
)
