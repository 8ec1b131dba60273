"""Each experiment starts from the same state: what a rank restores between two jobs."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import sysconfig
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class Settings:
    """What the interpreter and torch let anybody change for the whole process, as it was at birth."""

    def __init__(self) -> None:
        self.streams = (sys.stdout, sys.stderr)
        self.pipe = os.dup(1)
        self.handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self.recursion, self.collecting = sys.getrecursionlimit(), gc.isenabled()
        self.switching, self.umask = sys.getswitchinterval(), os.umask(0o022)
        os.umask(self.umask)
        root = logging.getLogger()
        self.logging = (root.level, list(root.handlers))
        self.precision = torch.get_float32_matmul_precision()
        self.numpy: Any = sys.modules["numpy"].geterr() if "numpy" in sys.modules else None

    def restore(self) -> None:
        """Set all of it back."""
        self._restore_streams()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self.handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        sys.setrecursionlimit(self.recursion)
        sys.setswitchinterval(self.switching)
        os.umask(self.umask)
        (gc.enable if self.collecting else gc.disable)()
        root = logging.getLogger()
        if (root.level, root.handlers) != self.logging:
            root.setLevel(self.logging[0])
            root.handlers[:] = self.logging[1]
        torch.set_float32_matmul_precision(self.precision)
        torch.autograd.set_detect_anomaly(False)
        if self.numpy is not None:
            sys.modules["numpy"].seterr(**self.numpy)

    def _restore_streams(self) -> None:
        for fd in (1, 2):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(self.pipe, fd)
        sys.stdout, sys.stderr = self.streams
        if sys.stdout.closed:
            sys.stdout = open(os.dup(self.pipe), "w", buffering=1)  # noqa: SIM115 - the process's own
        if sys.stderr.closed:
            sys.stderr = open(os.dup(self.pipe), "w", buffering=1)  # noqa: SIM115 - the process's own
        self.streams = (sys.stdout, sys.stderr)


class State:
    """A rank's state as it was when the rank was born: settings, random numbers, modules, groups."""

    def __init__(self, device: str) -> None:
        # torch.manual_seed also looks for every kind of card, which costs a tenth of a millisecond.
        self.seed_torch = torch.default_generator.manual_seed if device == "cpu" else torch.manual_seed
        self.settings = Settings()
        self.environment = dict(os.environ)
        self.dtype = torch.get_default_dtype()
        self.threads = torch.get_num_threads()
        self.alive = threading.active_count()
        self.filters: list[Any] = list(warnings.filters)
        self.modules = set(sys.modules)
        self.known = len(self.modules)
        self.stamps: dict[str, float] = {}

    def restore(self) -> None:
        """Undo what an experiment may have changed in this process."""
        self.settings.restore()
        if dict(os.environ) != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
            time.tzset()
        torch.set_default_dtype(self.dtype)
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        torch.set_grad_enabled(True)
        if torch.are_deterministic_algorithms_enabled():  # asking first: setting it loads torch's compiler
            torch.use_deterministic_algorithms(False)
        torch.set_printoptions(profile="default")  # type: ignore[no-untyped-call]
        if torch.get_default_device().type != "cpu":
            torch.set_default_device(None)
        filters: Any = warnings.filters
        filters[:] = self.filters

    def seed(self, seed: int) -> None:
        """The same random numbers on every rank: split one tensor, do not draw one a rank."""
        random.seed(seed)
        self.seed_torch(seed)
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    def refresh_modules(self) -> None:
        """Forget the person's own modules if one of their files changed, so that an edit is seen."""
        if not self.stamps and len(sys.modules) == self.known:
            return  # the usual case, and this runs before and after every experiment
        stamps = {name: stamp for name in set(sys.modules) - self.modules if (stamp := _stamp(name))}
        if any(self.stamps.get(name, stamp) != stamp for name, stamp in stamps.items()):
            for name in stamps:
                del sys.modules[name]
            stamps = {}
        self.stamps, self.known = stamps, len(sys.modules)

    def leftovers(self) -> str:
        """What the experiment left running, in words; "" if nothing."""
        if threading.active_count() > self.alive:
            names = ", ".join(thread.name for thread in threading.enumerate()[self.alive :])
            return f"a thread still runs ({names})"
        return ""


def _stamp(module: str) -> float:
    """The time of the file of a module that is not installed; 0 for all others."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or file.startswith(_INSTALLED):
        return 0.0
    try:
        return Path(file).stat().st_mtime
    except OSError:
        return 0.0


def groups() -> list[Any]:
    """All process groups of this rank, the world too."""
    return list(dist.distributed_c10d._world.pg_map)


def leave_groups(over: list[Any]) -> None:
    """Destroy these groups, as far as they are still there."""
    for group in groups():
        if group in over:
            dist.destroy_process_group(group)
