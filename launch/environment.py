""".venv itself: whether the one that lies there can be kept, and making it anew."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import stamp
import vendor
from console import Refusal, say

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")


def can_keep(old: stamp.Stamp | None, wanted: stamp.Stamp, image: dict[str, vendor.Package]) -> bool:
    """Whether the environment that lies there, if any, can be brought up to date instead of made anew."""
    if old is not None and (not old.complete or old.base != wanted.base):
        return False
    if old is None and image:
        return False  # made by hand: it may not see the image's packages
    return stamp.starts(VENV, f"import pip, sys; assert sys.version_info[:2] == {sys.version_info[:2]}")


def make(wanted: stamp.Stamp, image: dict[str, vendor.Package]) -> None:
    """Makes an empty .venv that sees the image's packages, if it has a torch, and nothing else."""
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        say(f"making {VENV} anew: it was left unfinished, or made for something else")
        shutil.rmtree(VENV)
    stamp.write(VENV, wanted)  # before anything else lies there: an interruption is noticed
    nested = sys.prefix != sys.base_prefix
    flags = ["--system-site-packages"] if image and not nested else []
    say(f"Python {platform.python_version()}, {platform.machine()}; {_describe(image)}")
    if subprocess.run([sys.executable, "-m", "venv", *flags, str(VENV)]).returncode:
        raise Refusal(f"`{sys.executable} -m venv` failed")
    if image and nested:
        _show_outer()


def _show_outer() -> None:
    """Lets .venv see what this Python's environment sees: of itself it would see only the system's."""
    (own,) = VENV.glob("lib/python*/site-packages")
    (own / "mindlab_image.pth").write_text("\n".join(outer_places(sys.path)) + "\n", encoding="utf-8")


def outer_places(path: list[str]) -> list[str]:
    """The entries of a Python's path that hold packages: not its standard library, not this folder.

    As plain lines of a .pth file pip's isolated builds leave them out, as they must.
    """
    packages = ("site-packages", "dist-packages")
    own = (sys.base_prefix, str(ROOT / "launch"))
    return [each for each in path if each.endswith(packages) or not each.startswith(own)]


def _describe(image: dict[str, vendor.Package]) -> str:
    if not image:
        return "no torch yet"
    kept = [f"{name} {image[name].version}" for name in ("torch", "torch-npu", "numpy") if name in image]
    return "kept as they are: " + ", ".join(kept)
