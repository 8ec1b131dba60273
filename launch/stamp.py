"""What .venv is known to hold, so that a second set-up takes no time and an interrupted one is noticed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import vendor

NAME = "mindlab-setup.json"


@dataclass(frozen=True)
class Stamp:
    """`base` decides whether .venv can be kept at all, `wanted` and `extras` whether it is up to date."""

    base: str
    wanted: str
    extras: tuple[str, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)
    complete: bool = False


def base_digest(root: Path, packages: Mapping[str, vendor.Package]) -> str:
    """A digest of what .venv is built on: the Python, the place of the checkout, the image's packages."""
    rows = [(each.name, each.version, each.place) for each in packages.values()]
    return _digest([sys.version, sys.base_prefix, sys.prefix, str(root), *map(str, rows)])


def wanted_digest(root: Path) -> str:
    """A digest of the files that say what to install."""
    return _digest(_text(root / name) for name in ("pyproject.toml", "constraints.txt"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def read(venv: Path) -> Stamp | None:
    """The stamp of an environment; None where it has none, or one that cannot be read."""
    try:
        fields = json.loads((venv / NAME).read_text(encoding="utf-8"))
        return Stamp(**{**fields, "extras": tuple(fields["extras"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(venv: Path, stamp: Stamp) -> None:
    """Writes the stamp, whole or not at all."""
    venv.mkdir(parents=True, exist_ok=True)
    draft = venv / (NAME + ".new")
    draft.write_text(json.dumps(asdict(stamp), indent=1), encoding="utf-8")
    draft.replace(venv / NAME)


def packages(venv: Path) -> dict[str, str]:
    """Name and version of everything in the environment's own folder, read from the folders' names alone."""
    stems = (path.name[: -len(".dist-info")] for path in venv.glob("lib/python*/site-packages/*.dist-info"))
    return dict(stem.rsplit("-", 1) for stem in stems if "-" in stem)


def finished(venv: Path, stamp: Stamp) -> Stamp:
    """The stamp with what lies there now, marked as complete."""
    return replace(stamp, packages=packages(venv), complete=True)


def is_current(venv: Path, stamp: Stamp | None, now: Stamp) -> bool:
    """Whether nothing is left to do: same base, same wishes, every package still there, and Python starts."""
    if stamp is None or not stamp.complete or (stamp.base, stamp.wanted) != (now.base, now.wanted):
        return False
    if not set(now.extras) <= set(stamp.extras) or not stamp.packages.items() <= packages(venv).items():
        return False
    return starts(venv, "import mindlab")


def starts(venv: Path, code: str) -> bool:
    """Whether the environment's Python runs `code`."""
    try:
        answer = subprocess.run([str(venv / "bin" / "python"), "-c", code], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0
