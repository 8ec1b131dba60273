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
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import installer
import stamp
import torch_build
import vendor

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
LOCK_WAIT = 1800.0
ROOM_WITH_TORCH, ROOM_WITHOUT = 2 << 30, 1 << 30


class Refusal(Exception):
    """Why the set-up ends, and what to do about it."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", flush=True)


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
    if not can_keep(old, wanted, before):
        make(wanted, before)
    stamp.write(VENV, wanted)
    install(sorted(known), wheels, before, lock)
    verify(before)
    write_kernel()
    stamp.write(VENV, stamp.finished(VENV, wanted))
    say(f"ready: {VENV}")


def own_names() -> set[str]:
    """The names of what lies in .venv's own folder."""
    return {vendor.canonical(name) for name in stamp.packages(VENV)}


def check_host(image: dict[str, vendor.Package], wheels: Path | None) -> None:
    """Refuses what would fail later: an old torch, no venv module, no room, no such folder."""
    if image and release(image["torch"].version) < release(torch_requirement().split(">=")[1]):
        raise Refusal(f"the image's torch {image['torch'].version} is too old: {torch_requirement()} needed")
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


def torch_requirement() -> str:
    """What pyproject.toml asks of torch."""
    found = re.search(r'^torch = \["(torch[^"]*)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found, 'pyproject.toml has no line: torch = ["torch>=…"]'
    return found[1]


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare: 2.13 comes after 2.7."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


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
    flags = ["--system-site-packages"] if image and (not nested or _sees_system()) else []
    say(f"Python {platform.python_version()}, {platform.machine()}; {_describe(image)}")
    if subprocess.run([sys.executable, "-m", "venv", *flags, str(VENV)]).returncode:
        raise Refusal(f"`{sys.executable} -m venv` failed")
    if image and nested:
        _show_outer()


def _sees_system() -> bool:
    configuration = Path(sys.prefix, "pyvenv.cfg").read_text().lower()
    return "include-system-site-packages = true" in configuration


def _show_outer() -> None:
    """Lets .venv see the environment that this Python runs in: of itself it would see only the system's."""
    outer = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (own,) = VENV.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in outer if path.startswith(sys.prefix)]
    (own / "mindlab_image.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _describe(image: dict[str, vendor.Package]) -> str:
    if not image:
        return "no torch yet"
    kept = [f"{name} {image[name].version}" for name in ("torch", "torch-npu", "numpy") if name in image]
    return "kept as they are: " + ", ".join(kept)


def install(extras: list[str], wheels: Path | None, image: dict[str, vendor.Package], lock: int) -> None:
    """Installs torch, if the image has none, and this project with the given extras."""
    pip = installer.Installer(PYTHON, ROOT, keep_open=(lock,))
    pip = installer.from_folder(pip, wheels) if wheels else installer.from_here(pip)
    pins = VENV / "mindlab-pins.txt"
    pins.write_text(vendor.constraints(image) if image else f"torch=={install_torch(pip)}\n")
    lock_file = () if image else ("-c", "constraints.txt")  # the lock would ask for its own numpy
    wanted = extras if image else ["torch", *extras]
    say("installing the project and what it needs")
    leftover = ROOT / "mindlab_workbook.egg-info"
    ours = not leftover.exists()
    if not pip.install("-c", str(pins), *lock_file, "-e", f".[{','.join(wanted)}]"):
        raise Refusal(_why_failed(pip, image))
    if ours:
        shutil.rmtree(leftover, ignore_errors=True)  # by-product of the editable install, not used


def install_torch(pip: installer.Installer) -> str:
    """The version of torch that .venv now has, from the first source that serves."""
    host = torch_build.this_host()
    present = torch_build.installed(PYTHON)
    if present:
        return present[0]
    requirement = torch_requirement()
    for source in torch_build.sources(host, requirement, offline=pip.offline, environment=os.environ):
        say(f"torch: {source.name}")
        arguments = ("--no-deps", *source.arguments, source.requirement)
        if not pip.install(*arguments, environment=source.environment):
            continue
        version, names = torch_build.installed(PYTHON) or ("", [])
        unwanted = torch_build.cuda_packages(names)
        if not unwanted or torch_build.accepts_cuda(host, os.environ):
            return version
        say(
            f"torch {version} from there is a CUDA build: it wants {unwanted[0]} and {len(unwanted) - 1} more"
        )
        pip.uninstall("torch")
    raise Refusal(
        "no CPU build of torch was found. Either set MINDLAB_TORCH_INDEX to an index that has one, or put its "
        "wheel into a folder and set PIP_FIND_LINKS to it; MINDLAB_TORCH=any takes a CUDA build (gigabytes)."
    )


def _why_failed(pip: installer.Installer, image: dict[str, vendor.Package]) -> str:
    if pip.offline:
        return (
            "a package is missing on this disk (above). docs/install.md, 'Without network', makes a folder of "
            "wheels on another machine; then set MINDLAB_WHEELS to it."
        )
    if image:
        return f"see pip's message above. The image's packages are pinned ({VENV / 'mindlab-pins.txt'}), unchanged."
    return "see pip's message above, and build/setup.log."


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
