"""Programs for the replay tests: written by hand as events, without any process; and what ranks run."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist

from mindlab.trace import recorder
from mindlab.trace.calls import transfers
from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run
from mindlab.trace.stated import Work

SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")


class Script:
    """The program of one rank, written step by step; `wait` closes an asynchronous call by its number."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.events, self.work, self.waits = [], [], {}

    def call(self, op, nbytes, peer=None, *, group=None, tag=0, root=None):
        group = tuple(range(self.ranks)) if group is None else tuple(group)
        share = (nbytes // len(group),) * len(group)
        sends, receives = transfers(
            op, group, self.rank, nbytes=nbytes, peer=peer, root=root, out_sizes=share, in_sizes=share
        )
        index = len(self.events)
        self.events.append(
            Event(
                self.rank, index, op, group, nbytes, "float32", 0.0, 0.0, peer=peer, root=root, tag=tag,
                shape=(nbytes // 4,), asynchronous=op.startswith("i"), sends=sends, receives=receives,
            )
        )  # fmt: skip
        return index

    def compute(self, flop, what="work"):
        self.work.append(Work(self.rank, len(self.events), flop, what=what))

    def wait(self, index):
        self.waits[index] = len(self.events) + len(self.work)


def run_of(*scripts, **more):
    """The Run of these programs. `more` replaces what every event has, such as its start."""
    from dataclasses import replace

    events = [
        replace(event, waited=script.waits.get(event.index), **more)
        for script in scripts
        for event in script.events
    ]
    ranks = len(scripts)
    return Run(
        values=[None] * ranks,
        printed=[""] * ranks,
        seconds=Measured(np.zeros(ranks), unit="s", provenance="timed"),
        events=events,
        backend="gloo",
        seed=0,
        work=[work for script in scripts for work in script.work],
    )


def scripts(ranks):
    """An empty program for each rank."""
    return [Script(rank, ranks) for rank in range(ranks)]


def attention_ring(overlap, flop, numel=1000):
    """On a rank: p blocks of work, and between them a block of K and V goes round; `overlap`: meanwhile."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    held, coming = torch.ones(numel), torch.empty(numel)
    for step in range(ranks):
        works = []
        if step < ranks - 1:
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % ranks)
            works = dist.batch_isend_irecv([receive, dist.P2POp(dist.isend, held, (rank + 1) % ranks)])
        if not overlap:
            for work in works:
                work.wait()
        recorder.compute(flop, what="attention")
        if overlap:
            for work in works:
                work.wait()
        held, coming = coming, held
