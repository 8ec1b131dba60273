"""One rank: joins the group, serves jobs, leaves when the notebook leaves."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import linecache
import os
import socket
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from mindlab.ranks import payload, state
from mindlab.ranks.channel import Channel, Closed
from mindlab.ranks.job import Failure, Frame, Job, Outcome
from mindlab.trace import recorder, sockets
from mindlab.trace.board import Board
from mindlab.trace.places import plain_code

_HERE = str(Path(__file__).resolve().parents[1])
_LESSONS = str(Path(_HERE) / "teach" / "lessons")  # their programs stand for the person's own code
_TORCH = str(Path(torch.__file__).resolve().parent)
_FOREVER = timedelta(days=30)  # the notebook's own deadline ends a stuck rank, not gloo's
GONE = 86
"""The exit code of a rank whose notebook is gone."""

inside = False
"""Whether this process is a rank."""


def main(seat: dict[str, Any]) -> None:
    """The life of a rank; never returns."""
    global inside
    inside = True
    with contextlib.suppress(PermissionError):  # a fresh interpreter may already lead its group
        os.setsid()
    if seat["device"] != "cpu":
        _take_card(seat)
    recorder.install()  # after torch_npu, which puts functions of its own in place
    _follow(seat["lifeline"])
    channel = Channel(socket.socket(fileno=seat["control"]))
    try:
        Rank(seat, channel).serve()
    except Closed:
        pass
    except BaseException:  # noqa: BLE001 - the last words of a rank that cannot report
        traceback.print_exc()
        sys.stdout.flush()
        os._exit(70)
    os._exit(0)


def _take_card(seat: dict[str, Any]) -> None:
    """The card first, before anything allocates: else every rank opens a context on card 0."""
    if seat["device"] == "npu":
        importlib.import_module("torch_npu")
    getattr(torch, seat["device"]).set_device(seat["rank"])


def _follow(lifeline: int) -> None:
    """Die at once when the notebook's process is gone: only it holds the pipe's other end."""

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(GONE)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


class Rank:
    """This process as a member of its pool."""

    def __init__(self, seat: dict[str, Any], channel: Channel) -> None:
        self.rank, self.ranks = int(seat["rank"]), int(seat["ranks"])
        self.channel, self.pid = channel, os.getpid()
        self.slot = Board.attach(seat["board"], self.ranks).slot(self.rank)
        self.crash = open(Path(seat["folder"]) / f"crash.{self.rank}", "w")  # noqa: SIM115
        faulthandler.enable(self.crash, all_threads=False)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self._join(seat)
        self.state = state.State(seat["device"])
        self.over: list[Any] = []
        """Groups of the last experiment: they go when the next begins, since their sockets are counted."""
        self.channel.send("ready")

    def _join(self, seat: dict[str, Any]) -> None:
        store = dist.FileStore(  # type: ignore[attr-defined]
            str(Path(seat["folder"]) / "world"), self.ranks
        )
        dist.init_process_group(
            seat["group"], store=store, rank=self.rank, world_size=self.ranks, timeout=_FOREVER
        )
        _keep_world()

    def serve(self) -> None:
        """Serve jobs until the other end closes."""
        while True:
            message, fds = self.channel.receive()
            if isinstance(message, Job):
                outcome = self._run(message, fds)
                self.channel.send(outcome, outcome.packed.fds() if outcome.packed else ())
                if outcome.packed:
                    outcome.packed.close()
                self._clean(message.keep)
            else:
                self.channel.send(sockets.read_counters())

    def _run(self, job: Job, fds: list[int]) -> Outcome:
        outcome = Outcome(job.number)
        state.leave_groups(self.over)
        self.over, self.before = [], state.groups()
        self.slot.begin(job.number)
        self._prepare(job)
        try:
            function, args, kwargs = payload.unpack(job.packed, fds)
        except Exception as error:  # noqa: BLE001 - whatever an import in the person's module raises
            outcome.failure = _failure(error, travelling=True)
            self.slot.phase("failed")
            return outcome
        outcome.before = sockets.read_counters()
        recorder.begin(self.slot, self.rank, job.origin, guarded=job.guarded)
        start, value = time.perf_counter(), None
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - also sys.exit
            outcome.failure = _failure(error)
        outcome.seconds = time.perf_counter() - start
        if os.getpid() != self.pid:  # a fork that came back from the person's function is no rank
            os._exit(0)
        self.slot.phase("failed" if outcome.failure else "done")
        outcome.record = recorder.end()
        outcome.after = sockets.read_counters()
        self._report(outcome, value)
        return outcome

    def _prepare(self, job: Job) -> None:
        sys.path[:] = job.path
        with contextlib.suppress(OSError):  # the notebook's folder may be gone; its ranks can still compute
            os.chdir(job.folder)
        for name, (label, text) in job.sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            recorder.cells[name] = label
        self.state.refresh_modules()
        if not job.keep:
            self.state.seed(job.seed)

    def _report(self, outcome: Outcome, value: Any) -> None:
        with contextlib.suppress(ValueError, OSError):  # the function may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        outcome.dirty = self.state.leftovers()
        self.state.refresh_modules()  # before the notebook can go on and edit one
        if outcome.failure is None:
            try:
                outcome.packed = payload.pack(value)
            except Exception as error:  # noqa: BLE001 - TypeError, PicklingError, RecursionError …
                part = payload.culprit(value, "the returned value")
                outcome.failure = _failure(error, travelling=True)
                outcome.failure.message = f"{part}: {error}"

    def _clean(self, keep: bool) -> None:
        if not keep:
            self.over = [group for group in state.groups() if group not in self.before]
            self.state.restore()


def _failure(error: BaseException, travelling: bool = False) -> Failure:
    frames = [
        Frame(frame.filename, frame.lineno or 0, frame.name, plain_code(frame.line or "").strip())
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    theirs = [
        frame
        for frame in frames
        if frame.file.startswith(_LESSONS) or not frame.file.startswith((_HERE, _TORCH))
    ]
    lines = "".join(traceback.format_exception_only(type(error), error)).strip()
    kind = type(error).__name__
    code = error.code if isinstance(error, SystemExit) else None
    number = (
        code if isinstance(code, int) else (None if not isinstance(error, SystemExit) else int(bool(code)))
    )
    message = lines.removeprefix(f"{type(error).__module__}.").removeprefix(kind).removeprefix(": ")
    if error.__cause__ is not None:
        reason = traceback.format_exception_only(error.__cause__)[-1].strip()
        message += f"\n    because of {reason}"
    return Failure(kind, message, theirs or frames[-1:], time.monotonic(), travelling, number)


def _keep_world() -> None:
    """A script's own init and destroy of the world become no-ops: the pool made it and keeps it."""

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        wanted = kwargs.get("backend") or (args[0] if args else None)
        present = dist.get_backend()
        if wanted and present not in str(wanted):
            recorder.note(
                f"init_process_group({wanted!r}) was skipped: these ranks are already joined by {present}"
            )

    whole_destroy = dist.destroy_process_group

    def destroy_process_group(group: Any = None) -> None:
        if group is not None and group is not dist.group.WORLD:
            whole_destroy(group)

    for module in (dist, dist.distributed_c10d):
        module.init_process_group = init_process_group  # type: ignore[attr-defined]
        module.destroy_process_group = destroy_process_group  # type: ignore[attr-defined]
