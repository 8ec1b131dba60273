"""MindLab: run a cell's function on real ranks, see what moved, hold the formula against it.

    import mindlab as ml

    def experiment():
        x = torch.ones(4) * dist.get_rank()
        dist.all_reduce(x)
        return x

    run = ml.launch(experiment, ranks=4)

Importing mindlab imports neither torch nor numpy: every public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that holds it (or is it: see _MODULES).
_HOMES: dict[str, str] = {
    "launch": "mindlab.ranks.launcher",
    "shutdown": "mindlab.ranks.launcher",
    "timing": "mindlab.ranks.launcher",
    "device": "mindlab.ranks.backends",
    "backends": "mindlab.ranks.backends",
    "step": "mindlab.trace.recorder",
    "ExtraMemory": "mindlab.trace.memory",
    "Run": "mindlab.trace.run",
    "load": "mindlab.trace.storage",
    "check": "mindlab.teach.checks",
    "check_close": "mindlab.teach.checks",
    "expect_error": "mindlab.teach.checks",
    "guess": "mindlab.teach.guessing",
    "exercise": "mindlab.teach.exercises",
    "hint": "mindlab.teach.hints",
    "solution": "mindlab.teach.hints",
    "case": "mindlab.teach.cases",
    "quiz": "mindlab.teach.quizzes",
    "progress": "mindlab.teach.record",
    "calibrate": "mindlab.planning.calibration",
    "topology": "mindlab.planning.topologies",
    "architecture": "mindlab.predict.architectures",
    "plan": "mindlab.planning.planner",
    "replay": "mindlab.planning.timeline",
    "play": "mindlab.draw.player",
    "explore": "mindlab.draw.explorer",
    "volume": "mindlab.predict.volume",
    "seconds": "mindlab.predict.seconds",
    "memory": "mindlab.predict.memory",
    "flops": "mindlab.predict.flops",
    "draw": "mindlab.draw",
    "collectives": "mindlab.collectives",
    "MindlabError": "mindlab.errors",
    "CheckFailed": "mindlab.errors",
}
_MODULES = {"volume", "seconds", "memory", "flops", "draw", "collectives"}

if TYPE_CHECKING:
    from mindlab import collectives as collectives
    from mindlab import draw as draw
    from mindlab.draw.explorer import explore as explore
    from mindlab.draw.player import play as play
    from mindlab.errors import CheckFailed as CheckFailed
    from mindlab.errors import MindlabError as MindlabError
    from mindlab.planning.calibration import calibrate as calibrate
    from mindlab.planning.planner import plan as plan
    from mindlab.planning.timeline import replay as replay
    from mindlab.planning.topologies import topology as topology
    from mindlab.predict import flops as flops
    from mindlab.predict import memory as memory
    from mindlab.predict import seconds as seconds
    from mindlab.predict import volume as volume
    from mindlab.predict.architectures import architecture as architecture
    from mindlab.ranks.backends import backends as backends
    from mindlab.ranks.backends import device as device
    from mindlab.ranks.launcher import launch as launch
    from mindlab.ranks.launcher import shutdown as shutdown
    from mindlab.ranks.launcher import timing as timing
    from mindlab.teach.cases import case as case
    from mindlab.teach.checks import check as check
    from mindlab.teach.checks import check_close as check_close
    from mindlab.teach.checks import expect_error as expect_error
    from mindlab.teach.exercises import exercise as exercise
    from mindlab.teach.guessing import guess as guess
    from mindlab.teach.hints import hint as hint
    from mindlab.teach.hints import solution as solution
    from mindlab.teach.quizzes import quiz as quiz
    from mindlab.teach.record import progress as progress
    from mindlab.trace.memory import ExtraMemory as ExtraMemory
    from mindlab.trace.recorder import step as step
    from mindlab.trace.run import Run as Run
    from mindlab.trace.storage import load as load

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"mindlab has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    module = importlib.import_module(_HOMES[name])
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _enter_notebook() -> None:
    """In a Jupyter kernel: make %%ranks known, and let torch load beside the first cells.

    MINDLAB_PRESTART=0 leaves the second part out; the first launch then takes two seconds longer.
    """
    from mindlab import notebook

    if notebook.shell() is None or "mindlab.ranks.worker" in sys.modules:
        return
    from mindlab.ranks import magic

    magic.register(notebook.shell())
    if not notebook.is_kernel():
        return
    if "torch" not in sys.modules:
        # The notebook's process must not touch a card; and torch_npu without CANN breaks `import torch`.
        os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    if os.environ.get("MINDLAB_PRESTART") != "0":
        from mindlab.ranks import supervisor

        supervisor.supervisor().preload()


_enter_notebook()
