"""pip inside .venv: how it is called, whether an index answers, and what to use where none does.

Wheels are fetched first and stay in build/wheels: a set-up that was interrupted, or is repeated without
network, takes them from there, and the folder serves a host of the same kind that has no network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import wheelhouse

# Settings that would install elsewhere, or over what is there. All others (index, proxy, cache) are honoured.
OVERRIDDEN = {"PIP_USER": "0", "PIP_IGNORE_INSTALLED": "0", "PIP_UPGRADE": "0", "PIP_FORCE_REINSTALL": "0"}
LONGEST = 3600.0  # seconds for one call of pip: gigabytes over a slow line
DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIREMENT")


@dataclass(frozen=True)
class Installer:
    """pip of one environment. `sources` are the arguments that say where packages come from."""

    python: str
    root: Path
    sources: tuple[str, ...] = ()
    offline: bool = False
    keep_open: tuple[int, ...] = ()

    @property
    def wheels(self) -> Path:
        """The folder of the wheels that were fetched."""
        return self.root / "build" / "wheels"

    def fetch(
        self, *arguments: str, environment: Mapping[str, str] | None = None, may_fail: bool = False
    ) -> bool:
        """Whether the wheels asked for, and what they need unless --no-deps, are now in `wheels`."""
        self.wheels.mkdir(parents=True, exist_ok=True)
        here = ("--wheel-dir", str(self.wheels), "--find-links", str(self.wheels))
        return self._act("wheel", *here, *arguments, environment=environment, may_fail=may_fail)

    def install(self, *arguments: str) -> bool:
        """Whether `pip install` did what was asked, leaving alone what is there and good enough."""
        return self._act("install", "--upgrade-strategy", "only-if-needed", *arguments)

    def _act(
        self, *arguments: str, environment: Mapping[str, str] | None = None, may_fail: bool = False
    ) -> bool:
        """Shows pip at work on a terminal; else logs its words, and shows the last ones if it fails."""
        command = (*arguments, "--no-input", *self.sources)
        if sys.stdout.isatty():
            return self._run(command, environment or {}).returncode == 0
        answer = self._run(command, environment or {}, capture=True)
        with (self.root / "build" / "setup.log").open("a", encoding="utf-8") as log:
            print("pip", *command, answer.stdout, answer.stderr, sep="\n", file=log)
        if answer.returncode and not may_fail:
            kept = [line for line in answer.stderr.splitlines() if not line.startswith("WARNING: Location")]
            print(*kept[-20:], sep="\n", file=sys.stderr, flush=True)
        return answer.returncode == 0

    def ask(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str | None:
        """What a pip command prints; None if it failed."""
        answer = self._run(arguments, environment or {}, capture=True)
        return answer.stdout if answer.returncode == 0 else None

    def _run(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], *, capture: bool = False
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        return subprocess.run(
            [self.python, "-m", "pip", "--disable-pip-version-check", *arguments],
            cwd=self.root,
            env={**kept, **OVERRIDDEN, **environment},
            pass_fds=self.keep_open,  # an orphaned pip goes on holding the set-up's lock
            capture_output=capture,
            text=True,
            timeout=LONGEST,
        )


def from_folder(pip: Installer, wheels: Path) -> Installer:
    """pip that takes everything from a folder of wheels."""
    arguments = ("--no-index", "--find-links", str(wheels))
    return Installer(pip.python, pip.root, arguments, True, pip.keep_open)


def from_here(pip: Installer) -> Installer:
    """pip as it is configured; where no index answers, pip with what lies on this disk."""
    known = wheelhouse.indexes(pip.ask("config", "list") or "")
    if os.environ.get("PIP_NO_INDEX", "0") in ("", "0", "false") and any(
        _answers(pip, index) for index in known if not wheelhouse.is_local(index)
    ):
        return pip
    cache = (pip.ask("cache", "dir") or "").strip()
    folder = pip.root / "build" / "wheels-from-cache"
    count = wheelhouse.link_cached(Path(cache), folder) if cache else 0
    print(f"set-up: no package index answers; {count} wheels lie in pip's cache on this disk", flush=True)
    return Installer(pip.python, pip.root, _local(known, folder), True, pip.keep_open)


def _local(known: list[str], folder: Path) -> tuple[str, ...]:
    """pip's arguments for the indexes that lie on this disk and a folder of wheels."""
    near = [index for index in known if wheelhouse.is_local(index)]
    if not near:
        return ("--no-index", "--find-links", str(folder))
    more = [part for index in near[1:] for part in ("--extra-index-url", index)]
    return ("--index-url", near[0], *more, "--find-links", str(folder))


def _answers(pip: Installer, index: str) -> bool:
    """Whether this index, alone, knows a package that all have. Asked by pip: its proxy, its certificates."""
    with tempfile.TemporaryDirectory() as empty:
        alone = {"PIP_EXTRA_INDEX_URL": index, "PIP_FIND_LINKS": empty, "PIP_DEFAULT_TIMEOUT": "15"}
        question = ("index", "versions", "setuptools", "--index-url", index, "--retries", "0")
        return pip.ask(*question, environment=alone) is not None
