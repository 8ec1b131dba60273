"""`mindlab doctor`: what this host has, what is missing, and what to do about it.

Imports neither torch nor torch_npu: where CANN's libraries are missing, importing torch itself fails.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

OK, NOTE, PROBLEM = "ok", "note", "problem"
_GIB = 2**30
_CHAPTERS = ("ipykernel", "jupyterlab", "nbclient", "nbconvert", "papermill", "latex2mathml", "yaml")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `state` is "ok", "note" (works, but) or "problem" (the workbook cannot run)."""

    name: str
    state: str
    value: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def examine() -> list[Finding]:
    """Every finding, in the order in which a person would look."""
    parts: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _torch,
        _torch_npu,
        _backends,
        _packages,
        _kernel,
        _machine,
        _shared_memory,
        _files,
        _wire,
        _fonts,
        _chromium,
        _leftovers,
    )
    return [finding for part in parts for finding in part()]


def as_text(found: list[Finding]) -> str:
    """The findings for a terminal, one line each, a remedy below its line."""
    width = max(len(finding.name) for finding in found)
    marks = {OK: "ok  ", NOTE: "note", PROBLEM: "FAIL"}
    lines = []
    for finding in found:
        lines.append(f"{marks[finding.state]}  {finding.name:<{width}}  {finding.value}")
        if finding.remedy:
            lines.append(f"{'':<{width + 8}}-> {finding.remedy}")
    problems = sum(finding.state == PROBLEM for finding in found)
    words = {0: "Nothing keeps the workbook from running here.", 1: "1 problem."}
    return "\n".join([*lines, "", words.get(problems, f"{problems} problems.")])


def version(distribution: str) -> str:
    """The installed version, or ""."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _python() -> Iterator[Finding]:
    fine = sys.version_info >= (3, 10)
    remedy = "" if fine else "use Python 3.10 or newer: MINDLAB_PYTHON=/path/to/python3 bash launch/run.sh"
    yield Finding(
        "python", OK if fine else PROBLEM, f"{platform.python_version()} ({sys.executable})", remedy
    )


def _torch() -> Iterator[Finding]:
    found = version("torch")
    if not found:
        yield Finding("torch", PROBLEM, "not installed", "bash launch/run.sh installs a CPU build")
    elif tuple(int(part) for part in found.split("+")[0].split(".")[:2] if part.isdigit()) < (2, 7):
        yield Finding("torch", PROBLEM, found, "torch 2.7 or newer is needed")
    else:
        yield Finding("torch", OK, found)


def _torch_npu() -> Iterator[Finding]:
    """torch and torch_npu come as a pair, and torch_npu needs CANN's libraries before Python starts."""
    found, cards = version("torch_npu"), sorted(Path("/dev").glob("davinci[0-9]*"))
    if not found and not cards:
        return
    if not found:
        remedy = "install the torch_npu that belongs to this torch and CANN"
        yield Finding("torch_npu", NOTE, f"not installed, but {len(cards)} Ascend cards are here", remedy)
        return
    if found.split(".")[:2] != version("torch").split(".")[:2]:
        remedy = f"install torch {'.'.join(found.split('.')[:3])}: the two come as a pair"
        yield Finding("torch_npu", PROBLEM, f"{found} beside torch {version('torch')}", remedy)
    else:
        yield Finding("torch_npu", OK, f"{found}, {len(cards)} cards")
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    if home:
        yield Finding("CANN", OK, home)
    else:
        remedy = "source launch/npu_env.sh (or CANN's set_env.sh) before Python or Jupyter starts"
        yield Finding("CANN", PROBLEM if cards else NOTE, "its environment is not loaded", remedy)


def _backends() -> Iterator[Finding]:
    if importlib.util.find_spec("mindlab.ranks.backends") is None:
        yield Finding("backends", PROBLEM, "mindlab.ranks is missing", "this copy of mindlab is incomplete")
        return
    from mindlab.ranks.backends import backends

    for backend in backends():
        where = f"{backend.cards} {backend.device} cards" if backend.cards else "CPU"
        yield Finding(f"backend {backend.name}", NOTE if backend.missing else OK, backend.missing or where)


def _packages() -> Iterator[Finding]:
    missing = [name for name in _CHAPTERS if importlib.util.find_spec(name) is None]
    if missing:
        remedy = "bash launch/run.sh, or pip install -e '.[lab,docs]' in a copy of the project"
        yield Finding("packages", PROBLEM, f"missing: {', '.join(missing)}", remedy)
    else:
        yield Finding("packages", OK, "all that opens, executes and exports chapters")


def _kernel() -> Iterator[Finding]:
    """JupyterLab starts the kernel named python3 of the home folder, whatever environment it runs in."""
    if importlib.util.find_spec("jupyter_core") is None:
        return
    from jupyter_core.paths import jupyter_data_dir

    spec = Path(jupyter_data_dir()) / "kernels" / "python3" / "kernel.json"
    try:
        command = json.loads(spec.read_text(encoding="utf-8"))["argv"][0]
    except (OSError, ValueError, KeyError, IndexError):
        return
    here = Path(sys.executable).parent
    if "/" in command and Path(command).parent != here:
        remedy = f"start it with bash launch/lab.sh, or remove {spec.parent}"
        yield Finding("Jupyter kernel", NOTE, f"python3 means {command}, not this Python", remedy)


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    remedy = "" if cores >= 2 else "it works, slowly; two cores are what the chapters are made for"
    yield Finding("cores", OK if cores >= 2 else NOTE, f"{cores} ({platform.machine()})", remedy)
    memory = available_memory()
    if memory is not None:
        small = memory < 2 * _GIB
        remedy = "4 ranks need about 0.5 GB, a chapter about 1 GB" if small else ""
        yield Finding("memory", NOTE if small else OK, f"{memory / _GIB:.1f} GiB available", remedy)


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that this process may still use: the host's, or its container's if less. None: unknown."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (group / "memory.max").read_text(), (group / "memory.current").read_text()
        return min(free, int(limit) - int(used))
    except (OSError, ValueError):
        return free


def _shared_memory() -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        return
    place = Path("/dev/shm")
    if not os.access(place, os.W_OK):
        yield Finding(
            "/dev/shm", NOTE, "not writable: tensors come back through files", "mount a tmpfs there"
        )
        return
    usage = shutil.disk_usage(place)
    small = usage.free < _GIB // 4
    remedy = "give the container more: docker run --shm-size=2g (or --ipc=host)" if small else ""
    text = f"{usage.free / _GIB:.2f} of {usage.total / _GIB:.2f} GiB free"
    yield Finding("/dev/shm", NOTE if small else OK, text, remedy)


def _files() -> Iterator[Finding]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY and soft < 1024
    remedy = f"ulimit -n {min(4096, hard) if hard > 0 else 4096}" if few else ""
    yield Finding("open files", NOTE if few else OK, f"limit {soft}", remedy)
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    tight = free < _GIB
    remedy = "free some, or set TMPDIR to a larger disk" if tight else ""
    yield Finding("temporary folder", NOTE if tight else OK, f"{place}, {free / _GIB:.1f} GiB free", remedy)


def _wire() -> Iterator[Finding]:
    if sys.platform.startswith("linux"):
        yield Finding("wire counters", OK, "the kernel counts each socket's bytes (TCP_INFO)")
    else:
        yield Finding("wire counters", NOTE, f"not on {platform.system()}: run.wire is None there")


def _fonts() -> Iterator[Finding]:
    lister = shutil.which("fc-list")
    if lister:
        done = subprocess.run(
            [lister, ":lang=zh", "family"], capture_output=True, text=True, timeout=20, check=False
        )
        names = sorted({line.split(",")[0].strip() for line in done.stdout.splitlines() if line.strip()})
    else:
        files = [
            path.name
            for path in Path("/usr/share/fonts").rglob("*")
            if path.suffix in (".ttc", ".otf", ".ttf")
        ]
        names = sorted(name for name in files if any(key in name.lower() for key in ("cjk", "wqy", "han")))
    if names:
        yield Finding("Chinese font", OK, ", ".join(names[:2]))
    elif sys.platform == "darwin":
        yield Finding("Chinese font", OK, "macOS has some")
    else:
        remedy = "apt-get install fonts-wqy-microhei (for Chinese labels and PDF)"
        yield Finding("Chinese font", NOTE, "none", remedy)


def _chromium() -> Iterator[Finding]:
    from mindlab.book.printing import REMEDY, chromium

    found = chromium()
    yield Finding("chromium", OK if found else NOTE, found or "none: no PDF export", "" if found else REMEDY)


def _leftovers() -> Iterator[Finding]:
    """Ranks that outlived their notebook. They should not: each ends when its notebook does."""
    left = orphans()
    if left:
        remedy = f"end them: kill {' '.join(map(str, left))}; and please report it"
        yield Finding("leftovers", NOTE, f"{len(left)} processes of former experiments", remedy)
    else:
        yield Finding("leftovers", OK, "none")


def orphans(proc: Path = Path("/proc")) -> list[int]:
    """Process ids of this user's ranks whose parent is gone."""
    found = []
    for folder in proc.glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            mine = folder.stat().st_uid == os.getuid()
        except (OSError, IndexError):
            continue
        if mine and parent == "1" and b"mindlab.ranks" in command:
            found.append(int(folder.name))
    return sorted(found)
