"""Runs made by hand for the drawing tests: events as the recorder writes them, without any process."""

from __future__ import annotations

import numpy as np

from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run
from mindlab.trace.wire import Wire

MS = 1e-3


def event(rank: int, index: int, op: str, ranks: int, nbytes: int, start: float, **more) -> Event:
    """One event over the group of all ranks, one millisecond long unless `end` says otherwise."""
    fields = {
        "group": tuple(range(ranks)),
        "dtype": "float32",
        "end": start + MS,
        "line": "cell 1, line 3",
        **more,
    }
    return Event(rank=rank, index=index, op=op, nbytes=nbytes, start=start, **fields)


def run_of(events: list[Event], ranks: int, **more) -> Run:
    """A Run with these events."""
    fields = {
        "values": [None] * ranks,
        "printed": [""] * ranks,
        "seconds": Measured(np.full(ranks, 0.01), unit="s", provenance="timed"),
        "events": sorted(events, key=lambda e: e.start),
        "backend": "gloo",
        "seed": 0,
        "name": "experiment",
        "versions": {"torch": "2.13.0"},
        "host": "x86_64, 2 cores",
        "date": "2026-01-31",
        "why_no_wire": "no counters on this host",
        **more,
    }
    return Run(**fields)


def wire_of(matrix: np.ndarray, framing: int = 144) -> Wire:
    """A Wire whose payload is the matrix."""
    apart = np.where(matrix > 0, framing, 0)
    made = [Measured(m, unit="B", provenance="wire") for m in (matrix + apart, apart, matrix)]
    return Wire(*made, source="TCP_INFO of gloo's sockets")


def ring_run(ranks: int = 4, nbytes: int = 1 << 20, labelled: bool = True) -> Run:
    """A ring all-reduce: 2(p-1) rounds of isend to the right and recv from the left."""
    events, chunk = [], nbytes // ranks
    for k in range(2 * (ranks - 1)):
        phase = "reduce-scatter" if k < ranks - 1 else "all-gather"
        label = f"{phase} {k % (ranks - 1) + 1}" if labelled else ""
        for rank in range(ranks):
            start = k * 2 * MS + rank * 0.05 * MS
            right, left = (rank + 1) % ranks, (rank - 1) % ranks
            send = {"peer": right, "sends": ((right, chunk),), "asynchronous": True, "label": label}
            receive = {"peer": left, "receives": ((left, chunk),), "label": label}
            events.append(event(rank, 2 * k, "isend", ranks, chunk, start, end=start + 1.6 * MS, **send))
            events.append(
                event(
                    rank, 2 * k + 1, "recv", ranks, chunk, start + 0.1 * MS, end=start + 1.5 * MS, **receive
                )
            )
    wire = np.zeros((ranks, ranks), dtype=np.int64)
    for rank in range(ranks):
        wire[rank, (rank + 1) % ranks] += 2 * (ranks - 1) * chunk
    return run_of(events, ranks, wire=wire_of(wire))


def all_to_all_run(ranks: int = 4, nbytes: int = 4096) -> Run:
    """One all_to_all_single, uneven: rank s sends (r + 1) KiB to rank r."""
    events = []
    for rank in range(ranks):
        sends = tuple((r, nbytes * (r + 1)) for r in range(ranks) if r != rank)
        receives = tuple((r, nbytes * (rank + 1)) for r in range(ranks) if r != rank)
        handed = nbytes * ranks * (ranks + 1) // 2
        events.append(
            event(
                rank, 0, "all_to_all_single", ranks, handed, 0.1 * MS * rank, sends=sends, receives=receives
            )
        )
    return run_of(events, ranks)


def reduction_run(ranks: int = 4, nbytes: int = 1 << 20, calls: int = 1) -> Run:
    """Nothing but all_reduce: the arguments do not say who sends what, the wire does."""
    events = [
        event(rank, k, "all_reduce", ranks, nbytes, 3 * MS * k + 0.1 * MS * rank, reduction="sum")
        for rank in range(ranks)
        for k in range(calls)
    ]
    wire = np.zeros((ranks, ranks), dtype=np.int64)
    for rank in range(ranks):
        wire[rank, (rank + 1) % ranks] = 2 * (ranks - 1) * (nbytes // ranks) * calls
    return run_of(events, ranks, wire=wire_of(wire))


def tree_run() -> Run:
    """A broadcast down a tree over 4 ranks, without labels: 0 to 2, then 0 to 1 beside 2 to 3."""
    moves = [(0, 2, 0.0), (0, 1, 2 * MS), (2, 3, 2.2 * MS)]
    counts = [0] * 4
    events = []
    for source, target, start in moves:
        for rank, op, peer, direction in (
            (source, "send", target, "sends"),
            (target, "recv", source, "receives"),
        ):
            begun = start if op == "send" else 0.0
            more = {"peer": peer, direction: ((peer, 4096),), "end": start + MS}
            events.append(event(rank, counts[rank], op, 4, 4096, begun, **more))
            counts[rank] += 1
    return run_of(events, 4)


def mesh_run() -> Run:
    """An all_reduce in each row of a 2 x 2 mesh, side by side."""
    groups = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    events = [
        event(rank, 0, "all_reduce", 4, 64, 0.01 * rank, end=1.0, group=group)
        for rank, group in groups.items()
    ]
    return run_of(events, 4)


def broadcast_run(ranks: int = 8, nbytes: int = 4096) -> Run:
    """A broadcast from rank 0, as its arguments tell it."""
    others = tuple((r, nbytes) for r in range(1, ranks))
    events = [event(0, 0, "broadcast", ranks, nbytes, 0.0, root=0, sends=others)]
    more = {"root": 0, "receives": ((0, nbytes),)}
    events += [event(r, 0, "broadcast", ranks, nbytes, 0.0, **more) for r in range(1, ranks)]
    return run_of(events, ranks)


def cut_product(ranks: int, rows: bool = True) -> tuple:
    """X, W and Y of a product cut over the ranks, unevenly: arrays by rank."""
    x, w = np.zeros((2, 3, 2 * ranks + 1)), np.zeros((2 * ranks + 1, 3 * ranks - 1))
    if rows:
        xs, ws = np.array_split(x, ranks, axis=-1), np.array_split(w, ranks, axis=0)
        return xs, ws, [a @ b for a, b in zip(xs, ws, strict=True)]
    ws = np.array_split(w, ranks, axis=1)
    return x, ws, [x @ one for one in ws]


def exchanged(ranks: int, positions: int = 0, heads: int = 0) -> tuple[list, list]:
    """Id-coded shards (1, positions, heads, 2) by rank: cut along the sequence, then by heads."""
    sizes = (positions or 2 * ranks + 1, heads or ranks)
    ids = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)[None]
    return np.array_split(ids, ranks, axis=1), np.array_split(ids, ranks, axis=2)


def paired(ranks: int) -> tuple:
    """X, A by columns, the middle, B by rows and the partial sums: arrays by rank, unevenly cut."""
    x, inner = np.zeros((2, 3, 4)), 3 * ranks - 1
    a = np.array_split(np.zeros((4, inner)), ranks, axis=1)
    b = np.array_split(np.zeros((inner, 5)), ranks, axis=0)
    middle = [x @ one for one in a]
    return x, a, middle, b, [z @ one for z, one in zip(middle, b, strict=True)]


def handed_over(ranks: int) -> list:
    """The stages of a block between sequence and tensor shards."""
    whole = [7 * ranks] * ranks
    norm, heads = ("norm", "sequence", [7] * ranks), ("attention", "heads", [2] * ranks)
    return [("input", "", whole), norm, "all-gather", heads, ("output", "sum", whole), "reduce-scatter", norm]


def pass_run(ranks: int = 4, nbytes: int = 4096, lengths: bool = False) -> Run:
    """Keys and values go round: p-1 times two messages to the right, waited for together."""
    events, counts = [], [0] * ranks
    sizes = [(8,)] * (ranks - 1) * lengths + [(nbytes, nbytes)] * (ranks - 1)
    for step, messages in enumerate(sizes):
        for rank in range(ranks):
            right, left = (rank + 1) % ranks, (rank - 1) % ranks
            span = {"end": (2 * step + 1) * MS, "asynchronous": True}
            for size in messages:
                for op, peer, way in (("isend", right, "sends"), ("irecv", left, "receives")):
                    more = {"peer": peer, way: ((peer, size),), **span}
                    events.append(event(rank, counts[rank], op, ranks, size, 2 * step * MS, **more))
                    counts[rank] += 1
    return run_of(events, ranks)
