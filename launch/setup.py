"""Makes .venv ready: `python3 launch/setup.py [extra...] [--wheels DIR]`. Standard library only.

An image's own torch is used as it is; a host without torch gets a CPU build, unless it has a card.
The set-up is complete when its stamp says so; what was interrupted is made anew.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import environment
import packages
import stamp
import torch_build
import vendor
from console import Refusal, say
from environment import PYTHON, ROOT, VENV

LOCK_WAIT = 1800.0
ROOM_WITH_TORCH, ROOM_WITHOUT = 3 << 30, 1 << 30


def main(arguments: list[str]) -> int:
    """The exit code: 0 where .venv is ready."""
    reader = argparse.ArgumentParser(prog="launch/setup.py", description=__doc__)
    reader.add_argument("extras", nargs="*", default=["lab", "docs"], help="extras of pyproject.toml")
    wheels = os.environ.get("MINDLAB_WHEELS")
    reader.add_argument("--wheels", default=wheels, help="install from this folder alone")
    options = reader.parse_args(arguments)
    leave_own_environment()
    try:
        with exclusive(ROOT / "build" / "setup.lock") as lock:
            prepare(options.extras, Path(options.wheels).resolve() if options.wheels else None, lock)
    except (Refusal, vendor.Unpackaged) as refusal:
        print(f"set-up: {refusal}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; the next one starts afresh", file=sys.stderr, flush=True)
        return 130
    return 0


def leave_own_environment() -> None:
    """Started by .venv's own Python, goes on in the Python below it: .venv may have to be made anew."""
    if Path(sys.prefix).resolve() == VENV.resolve() and sys.prefix != sys.base_prefix:
        base: str = getattr(sys, "_base_executable")  # noqa: B009  (the stubs do not know it)
        os.execv(base, [base, *sys.argv])


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """The lock's file descriptor, once no other set-up of this checkout runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline, told = time.monotonic() + LOCK_WAIT, False
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refusal(f"another set-up holds {path} for {LOCK_WAIT / 60:.0f} minutes") from None
                if not told:
                    say("another set-up runs in this checkout; waiting for it")
                told = True
                time.sleep(0.2)
        yield file.fileno()


def prepare(extras: list[str], wheels: Path | None, lock: int) -> None:
    """Brings .venv to what is wanted; returns at once where it is."""
    image = vendor.family(files=False)
    old = stamp.read(VENV)
    known = {*extras, *(old.extras if old else ())}
    wanted = stamp.Stamp(stamp.base_digest(ROOT, image), stamp.wanted_digest(ROOT), tuple(sorted(known)))
    if stamp.is_current(VENV, old, wanted) and not image.keys() & own_names():
        return
    before = vendor.family()
    check_host(before, wheels)
    if not environment.can_keep(old, wanted, before):
        environment.make(wanted, before)
    stamp.write(VENV, wanted)
    packages.install(sorted(known), wheels, before, lock)
    verify(before)
    write_kernel()
    stamp.write(VENV, stamp.finished(VENV, wanted))
    say(f"ready: {VENV}")


def own_names() -> set[str]:
    """The names of what lies in .venv's own folder."""
    return {vendor.canonical(name) for name in stamp.packages(VENV)}


def check_host(image: dict[str, vendor.Package], wheels: Path | None) -> None:
    """Refuses what would fail later: an old torch, no venv module, no room, no such folder."""
    if image and packages.is_older(image["torch"].version):
        raise Refusal(
            f"the image's torch {image['torch'].version} is too old: {packages.torch_requirement()} needed"
        )
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Refusal(
            f"this Python has no venv module; on Debian, Ubuntu: apt-get install python{version}-venv"
        )
    need = ROOM_WITHOUT if image else ROOM_WITH_TORCH
    if not VENV.exists() and shutil.disk_usage(ROOT).free < need:
        raise Refusal(f"{need >> 30} GiB of free disk are needed at {ROOT}")
    if wheels is not None and not any(wheels.glob("*.whl")):
        raise Refusal(f"no wheels in {wheels}")


def verify(image: dict[str, vendor.Package]) -> None:
    """Refuses an environment where the image's packages are not what they were, or CUDA's came along."""
    if image:
        command = [PYTHON, str(ROOT / "launch" / "vendor.py")]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        if changed := vendor.changes(image, vendor.read(answer.stdout)):
            raise Refusal("the image's packages did not stay what they were:\n  " + "\n  ".join(changed))
        return
    host = torch_build.this_host()
    unwanted = torch_build.cuda_packages(sorted(own_names()))
    if unwanted and not torch_build.accepts_cuda(host, os.environ):
        raise Refusal(
            f"CUDA's packages came along and no card is here: {', '.join(unwanted)}. Remove {VENV}."
        )
    if not stamp.starts(VENV, "import torch"):
        raise Refusal(f"torch was installed but cannot be imported: {PYTHON} -c 'import torch'")


def write_kernel() -> None:
    """The kernel that notebooks start: named python3 as everywhere, and with the NPU's environment."""
    folder = VENV / "share" / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    kernel = {
        "argv": ["bash", str(ROOT / "launch" / "kernel.sh"), "{connection_file}"],
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "metadata": {"debugger": True},
    }
    (folder / "kernel.json").write_text(json.dumps(kernel, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
