"""alpha and beta of this machine: real messages of growing size, timed, and the line through them."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from mindlab.predict import units
from mindlab.predict.quantity import Quantity

if TYPE_CHECKING:
    import torch

    from mindlab.planning.topologies import Topology

SIZES = tuple(4**power for power in range(1, 12))  # 4 B to 4 MiB
_WARM_UP = 3
_FORMULA = r"\alpha + \beta\,n"
_SOURCE = "fitted to times of this machine; the model: Hockney, Parallel Computing 20 (1994)"


@dataclass(frozen=True)
class Calibration:
    """The line t(n) = alpha + beta n through timed messages; it holds for sizes within `.holds` only.

    A fit is a summary, not a law: `.residual` says how far the farthest point lies from it.
    """

    alpha: float
    """Seconds that it takes however short the message."""
    beta: float
    """Seconds a byte; 1 / beta is the bandwidth in B/s."""
    points: tuple[tuple[int, float], ...]
    """(bytes, median seconds), by size."""
    residual: float
    """The largest |fit - point| as a share of the point: 0.2 is 20 %."""
    op: str
    """What was timed."""
    ranks: int
    backend: str
    machine: str
    """Where and when: ranks, backend, versions, machine, date."""
    provenance: str = "timed"

    @property
    def holds(self) -> tuple[int, int]:
        """The smallest and the largest size that was timed, in bytes."""
        return self.points[0][0], self.points[-1][0]

    def seconds(self, nbytes: int) -> Quantity:
        """Seconds that the line gives for a size. Raises ValueError for a negative one.

        Outside `.holds` the number is a guess, and its source says so.
        """
        if nbytes < 0:
            raise ValueError(f"nbytes={nbytes!r}: give a size from 0 on")
        low, high = self.holds
        outside = "" if low <= nbytes <= high else f"; outside what was timed, {_range(self.holds)}"
        return Quantity(self.alpha + self.beta * nbytes, "s", _FORMULA, _SOURCE + outside, name=self.op)

    def topology(self, path: str | os.PathLike[str] | None = None, *, compute: bool = False) -> Topology:
        """This host as a Topology, for `ml.replay`: a switch with the timed seconds of each size.

        `compute` also times a matrix product and a copy on as many ranks. With a `path` (.yaml) it is
        written there, and `ml.topology(path)` reads it again. Raises ValueError for another ending.

        >>> fit = ml.calibrate(sizes=(1024, 65536), repeats=3)
        >>> fit.topology().cards
        2
        """
        from mindlab.planning import hosts

        if path is not None and not os.fspath(path).endswith((".yaml", ".yml")):
            raise ValueError(f"path={os.fspath(path)!r}: a topology's file ends in .yaml")
        rates = hosts.computing(self.ranks, backend=self.backend) if compute else None
        made = hosts.as_topology(self, rates=rates)
        if path is not None:
            hosts.write(made, Path(path))
        return made

    def __repr__(self) -> str:
        return "\n".join(f"{head}: {text}" for head, text in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(head)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for head, text in self._rows()
        )
        return f"<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        rate = units.rate(1 / self.beta) if self.beta else "no limit seen"
        return [
            ("timed", f"{self.op}, {self.machine}"),
            ("alpha", f"{units.duration(self.alpha)} each time"),
            ("beta", f"{self.beta:.3g} s a byte, or {rate}"),
            ("holds for", _range(self.holds)),
            ("farthest point", f"{units.number(round(100 * self.residual))} % off the line"),
        ]


def calibrate(
    ranks: int = 2,
    *,
    sizes: Sequence[int] | None = None,
    op: Callable[[torch.Tensor], Any] | None = None,
    repeats: int = 20,
    backend: str | None = None,
) -> Calibration:
    """The Calibration of this machine: messages of growing size between real ranks, and a line through them.

    `op` runs on every rank with a float32 tensor of each size: `ping_pong` (the default: pairs of neighbours
    send there and back, half the time counts), `ring_shift`, or a function of yours, such as a collective.
    `sizes` are in bytes, multiples of 4, at least two. A point is the median of `repeats` on all ranks.
    The line has the least squares of the relative errors: short messages count as much as long ones.
    Guards are off while it runs, and the machine should be idle. A few seconds at most.
    Raises ValueError for sizes, ranks or repeats that cannot be timed.

        >>> fit = ml.calibrate(sizes=(1024, 65536), repeats=3)
        >>> len(fit.points), fit.alpha != 0
        (2, True)
    """
    from mindlab.ranks.launcher import launch, timing

    chosen = _checked(ranks, sizes, repeats)
    timed = ping_pong if op is None else op
    with timing():
        run = launch(_times, timed, chosen, repeats, ranks=ranks, backend=backend, timeout=300)
    trips, resting = (2, ranks % 2) if timed is ping_pong else (1, 0)
    times = run.values[: ranks - resting]
    points = tuple((size, _middle(times, index) / trips) for index, size in enumerate(chosen))
    alpha, beta = fit(points)
    worst = max(abs(alpha + beta * size - seconds) / seconds for size, seconds in points)
    name = getattr(timed, "__name__", type(timed).__name__)
    return Calibration(alpha, beta, points, worst, name, ranks, run.backend, run.provenance)


def ping_pong(x: torch.Tensor) -> None:
    """Sends x to the neighbour and gets it back: ranks 0 and 1, 2 and 3, … at once; a last odd rank rests."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    partner = rank ^ 1
    if partner >= ranks:
        return
    if rank < partner:
        dist.send(x, partner)
        dist.recv(x, partner)
    else:
        dist.recv(x, partner)
        dist.send(x, partner)


def ring_shift(x: torch.Tensor) -> None:
    """Sends x to the right neighbour while another one comes from the left, on all ranks at once."""
    import torch
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(x)
    receive = dist.P2POp(dist.irecv, arriving, (rank - 1) % ranks)
    send = dist.P2POp(dist.isend, x, (rank + 1) % ranks)
    for work in dist.batch_isend_irecv([receive, send]):
        work.wait()


def fit(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """alpha and beta, neither below 0, with the least squares of the relative errors of alpha + beta n."""
    sizes = np.array([size for size, _ in points], dtype=float)
    seconds = np.array([value for _, value in points], dtype=float)
    rows, ones = np.stack([1 / seconds, sizes / seconds], axis=1), np.ones(len(points))
    alpha, beta = (float(value) for value in np.linalg.lstsq(rows, ones, rcond=None)[0])
    if beta < 0:
        return _one_term(rows[:, 0]), 0.0
    return (alpha, beta) if alpha >= 0 else (0.0, _one_term(rows[:, 1]))


def _one_term(column: np.ndarray[Any, Any]) -> float:
    return float(column.sum() / (column @ column))


def _times(op: Callable[[torch.Tensor], Any], sizes: Sequence[int], repeats: int) -> list[list[float]]:
    """On a rank: the seconds of each repetition, by size.

    All sizes take turns, so that what else the machine does falls on all of them.
    """
    import torch
    import torch.distributed as dist

    from mindlab.ranks.backends import device

    tensors = [torch.ones(size // 4, device=device()) for size in sizes]
    by_size: list[list[float]] = [[] for _ in sizes]
    dist.barrier()
    for _ in range(_WARM_UP + repeats):
        for x, times in zip(tensors, by_size, strict=True):
            _finish(x)
            start = time.perf_counter()
            op(x)
            _finish(x)
            times.append(time.perf_counter() - start)
    return [times[_WARM_UP:] for times in by_size]


def _finish(x: torch.Tensor) -> None:
    """Waits until a card has done what was asked of it; a CPU already has."""
    if x.device.type != "cpu":
        x[:1].cpu()


def _middle(times: Sequence[Sequence[Sequence[float]]], index: int) -> float:
    """The median of all repetitions of one size on all the ranks given."""
    return max(float(median(one for rank in times for one in rank[index])), 1e-9)


def _checked(ranks: int, sizes: Sequence[int] | None, repeats: int) -> tuple[int, ...]:
    if ranks < 2:
        raise ValueError(f"ranks={ranks!r}: one rank has nobody to send to, take 2 or more")
    if repeats < 1:
        raise ValueError(f"repeats={repeats!r}: take 1 or more")
    chosen = SIZES if sizes is None else tuple(sorted(set(sizes)))
    wrong = [size for size in chosen if size < 4 or size % 4]
    if wrong:
        raise ValueError(f"size {wrong[0]!r}: give bytes of whole float32 numbers, such as 4 or 4096")
    if len(chosen) < 2:
        raise ValueError(f"sizes={list(chosen)}: a line needs two sizes or more")
    return chosen


def _range(holds: tuple[int, int]) -> str:
    return f"{units.size(holds[0])} to {units.size(holds[1])}"
