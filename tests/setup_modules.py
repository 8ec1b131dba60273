"""The modules of launch/, for the tests: they are scripts, not a package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "launch"

sys.path.insert(0, str(LAUNCH))
try:
    import environment
    import installer
    import packages
    import pyproject
    import stamp
    import torch_build
    import vendor
    import wheelhouse
    from console import Refusal
finally:
    sys.path.remove(str(LAUNCH))

__all__ = [
    "LAUNCH",
    "ROOT",
    "Refusal",
    "environment",
    "installer",
    "packages",
    "pyproject",
    "stamp",
    "torch_build",
    "vendor",
    "wheelhouse",
]
