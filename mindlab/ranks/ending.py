"""The one readable error of an experiment that ended early."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from mindlab.errors import (
    CannotTravel,
    ExperimentError,
    Interrupted,
    MindlabError,
    Mismatch,
    RankDied,
    RankFailed,
    Stuck,
    TimedOut,
)
from mindlab.ranks.job import Failure, Frame
from mindlab.trace.matching import Fault

_FRAMES = 6
_LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
_NOT_THEIRS = (*sysconfig.get_paths().values(), str(Path(__file__).resolve().parents[1]))
_CRASH_LINE = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')


def failed(rank: int, failure: Failure, others: Iterable[str], cells: dict[str, str]) -> MindlabError:
    """The error for a rank that raised: its traceback cut to the person's code, the others named."""
    if failure.travelling:
        return CannotTravel(
            f"rank {rank}: {failure.message}\n({failure.kind}) cannot go between the ranks and the notebook. "
            "Return tensors, numbers, strings, and lists or dicts of them."
        )
    others = tuple(others)
    place = "\n".join(_frame(frame, cells) for frame in failure.frames[-_FRAMES:])
    if failure.exit_code is not None:
        text = f"rank {rank} left by sys.exit({failure.exit_code})\n{place}{_listed(others)}"
        return RankDied(text, rank=rank, others=others)
    said = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    text = f"rank {rank} raised {said}\n{place}{_listed(others)}"
    return RankFailed(text, rank=rank, others=others, kind=failure.kind, traceback=place)


def died(rank: int, status: int, crash: str, others: Iterable[str], cells: dict[str, str]) -> RankDied:
    """The error for a rank whose process ended by itself; `crash` is what faulthandler wrote."""
    others = tuple(others)
    where = ""
    for file, line, function in _CRASH_LINE.findall(crash):
        if not file.startswith(_NOT_THEIRS):
            code = linecache.getline(file, int(line)).strip()
            where = "\n" + _frame(Frame(file, int(line), function, code), cells)
            break
    text = f"rank {rank} {describe_exit(status)}{where}{_listed(others)}"
    return RankDied(text, rank=rank, others=others)


def faulty(fault: Fault) -> ExperimentError:
    """The error for ranks that cannot go on together."""
    return (Stuck if fault.kind == "stuck" else Mismatch)(fault.message)


def timed_out(timeout: float, standing: Iterable[str]) -> TimedOut:
    """The error for an experiment that ran out of time."""
    standing = tuple(standing)
    text = f"not done after timeout={timeout:g} s. Where each rank stood:{_listed(standing, '')}"
    return TimedOut(text + "\nIf it needs longer: launch(..., timeout=…).", others=standing)


def interrupted(standing: Iterable[str]) -> Interrupted:
    """The error for an experiment that the person stopped."""
    standing = tuple(standing)
    return Interrupted(f"stopped by you. Where each rank stood:{_listed(standing, '')}", others=standing)


def describe_exit(status: int) -> str:
    """How a process ended, in words: "was killed by SIGKILL (…)", "exited with code 3"."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"
    reasons = {
        "SIGKILL": "the system ends a process so when memory runs out, or somebody did",
        "SIGSEGV": "a crash in native code",
        "SIGABRT": "native code gave up; its last words stand in the output above",
    }
    hint = f" ({reasons[name]})" if name in reasons else ""
    return f"was killed by {name}{hint}"


def lost_a_peer(failure: Failure) -> bool:
    """Whether this exception only says that another rank is gone."""
    return any(words in failure.message for words in _LOST_PEER)


def _frame(frame: Frame, cells: dict[str, str]) -> str:
    place = cells.get(frame.file, Path(frame.file).name)
    code = f"\n        {frame.code}" if frame.code else ""
    return f"    {place}, line {frame.line}, in {frame.function}{code}"


def _listed(lines: Iterable[str], title: str = "\nThe other ranks:") -> str:
    lines = list(lines)
    return (title + "".join(f"\n    {line}" for line in lines)) if lines else ""
