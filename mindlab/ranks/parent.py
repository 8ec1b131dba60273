"""The parent of all ranks: a small process beside the notebook that starts ranks and reports how they end.

For CPU ranks it imports torch once and forks (a rank then costs milliseconds); it holds no device, no
thread and no process group. For ranks with cards it imports nothing and starts fresh interpreters, since
torch_npu refuses to be forked. It ends every rank, and itself, as soon as the notebook's process is gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mindlab.ranks.channel import Channel, Closed

CODE = "import sys; sys.path[0] = {root!r}\nfrom mindlab.ranks.{module} import main\nmain({argument!r})\n"


@dataclass
class Start:
    """What a new pool needs. Descriptors travel beside it: p control ends, p outputs, lifeline, board."""

    ranks: int
    fork: bool
    environment: list[dict[str, str]]
    """The variables of each rank, on top of the notebook's."""
    world: dict[str, Any]
    """What `worker.Rank` needs to join its group."""
    folder: str
    """The pool's private folder: removed when the notebook's process is gone."""


@dataclass
class Exit:
    """Rank `pid` ended; `status` is what os.waitpid gave."""

    pid: int
    status: int


def main(fd: int) -> None:
    """The parent's life: obey the notebook's process, reap, leave when it leaves."""
    channel = Channel(socket.socket(fileno=fd))
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    children: set[int] = set()
    folders: set[str] = set()
    try:
        while True:
            ready = select.select([channel.sock, wake], [], [])[0]
            if wake in ready:
                wake.recv(4096)
                _reap(channel, children)
            if channel.sock in ready:
                _obey(channel, children, folders, [channel.fileno(), wake.fileno(), waker.fileno()])
    except Closed:
        code = 0
    except BaseException:  # noqa: BLE001 - the last words: the notebook's process reads them
        traceback.print_exc()
        code = 70
    end(children)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stderr.flush()
    os._exit(code)


def end(pids: Iterable[int]) -> None:
    """SIGKILL to each of `pids` and to what it started (a rank leads its own process group)."""
    for pid in pids:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)


def _reap(channel: Channel, children: set[int]) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            children.discard(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # what it started in its group would outlive it
            channel.send(Exit(pid, status))


def _obey(channel: Channel, children: set[int], folders: set[str], own: list[int]) -> None:
    order, fds = channel.receive()
    if order == "preload":
        _preload()
    elif isinstance(order, Start):
        folders.add(order.folder)
        pids = [_start(order, rank, fds, own) for rank in range(order.ranks)]
        children.update(pids)
        for fd in fds:
            os.close(fd)
        channel.send(pids)
    else:  # ("end", pids, folder)
        _, pids, folder = order
        end(children.intersection(pids))
        shutil.rmtree(folder, ignore_errors=True)
        folders.discard(folder)


def _preload() -> None:
    """Import what ranks need, once, before the first fork; nothing here may start a thread."""
    import numpy
    import torch
    import torch.distributed as dist

    from mindlab.ranks import worker
    from mindlab.trace import recorder

    assert dist.is_available(), "this torch was built without torch.distributed"
    assert numpy and torch and worker
    recorder.install()
    gc.collect()
    gc.freeze()


def _start(order: Start, rank: int, fds: list[int], own: list[int]) -> int:
    """Start one rank; returns its pid."""
    control, output = fds[rank], fds[order.ranks + rank]
    lifeline, board = fds[2 * order.ranks], fds[2 * order.ranks + 1]
    seat = {"rank": rank, "control": control, "lifeline": lifeline, "board": board, **order.world}
    if not order.fork:
        return _spawn(order, rank, seat, output)
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for fd in own + [fd for fd in fds if fd not in (control, output, lifeline, board)]:
            os.close(fd)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.update(order.environment[rank])
        from mindlab.ranks import worker

        worker.main(seat)
    finally:
        os._exit(70)


def _spawn(order: Start, rank: int, seat: dict[str, Any], output: int) -> int:
    code = CODE.format(root=sys.path[0], module="worker", argument=seat)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **order.environment[rank]},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[seat["control"], seat["lifeline"], seat["board"]],
    )
    process.returncode = 0  # reaped by us: subprocess must not wait for it
    return process.pid
