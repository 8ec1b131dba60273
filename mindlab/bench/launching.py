"""`mindlab bench launch`: launching from a real kernel, beside every peer that is installed."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import Any

import nbformat
from nbclient import NotebookClient

from mindlab.bench.peers import MINDLAB, WORK, Peer, present

_CELL_SECONDS = 120

_MEMORY = """
import psutil, os
family = psutil.Process().children(recursive=True)
def pss(process):
    try: return process.memory_full_info().pss
    except psutil.Error: return 0
memory = sum(map(pss, family))
"""


@dataclass
class Timing:
    """One way to launch, measured in one kernel. Seconds; bytes."""

    name: str
    cold: float = 0.0
    warm: list[float] = field(default_factory=list)
    memory: int = 0
    error: str = ""

    @property
    def median(self) -> float:
        """The median of the warm cells."""
        return statistics.median(self.warm) if self.warm else float("nan")


def measure(peer: Peer, ranks: int, repeats: int) -> Timing:
    """`peer` in a fresh kernel: imports, then one cold cell, then `repeats` warm ones."""
    call = peer.call.format(ranks=ranks)
    timed = f"began = time.perf_counter()\n{call}\nspent.append(time.perf_counter() - began)"
    cells = [
        f"import time, json\nspent = []\nWORK_TEXT = {WORK!r}\n{peer.ready.format(ranks=ranks)}\n{WORK}",
        *[timed] * (1 + repeats),
        _MEMORY + "print(json.dumps(dict(spent=spent, memory=memory, values=len(values))))",
        peer.end or "pass",
    ]
    try:
        answer = run_cells(cells)[-2]
    except Exception as error:  # noqa: BLE001 - a peer that fails is a row of the table, not the end of it
        return Timing(peer.name, error=f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:90]}")
    return Timing(peer.name, answer["spent"][0], answer["spent"][1:], answer["memory"])


def run_cells(cells: list[str]) -> list[Any]:
    """The JSON that each cell printed last (None where it printed none), from one fresh kernel."""
    notebook = _notebook(cells)
    NotebookClient(notebook, timeout=_CELL_SECONDS, kernel_name="python3").execute()
    return [_printed(cell) for cell in notebook.cells]


def _notebook(cells: list[str]) -> Any:
    v4: Any = nbformat.v4
    return v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])


def _printed(cell: Any) -> Any:
    lines = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream").splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith(("{", "[")) else None


def first_launch(ranks: int) -> float:
    """Seconds from the start of `import mindlab` to the end of the first launch, torch not yet imported."""
    cell = (
        "import time, json\nbegan = time.perf_counter()\nimport mindlab as ml\n"
        f"ml.launch(lambda: None, ranks={ranks})\nprint(json.dumps([time.perf_counter() - began]))"
    )
    return float(run_cells([cell])[0][0])


def empty_launches(ranks: int, repeats: int) -> list[float]:
    """Seconds of warm launches of an empty function, recording on."""
    cell = (
        "import time, json, mindlab as ml\ndef empty(): pass\nspent = []\n"
        f"for _ in range({repeats + 3}):\n"
        f"    began = time.perf_counter()\n    ml.launch(empty, ranks={ranks})\n"
        "    spent.append(time.perf_counter() - began)\nprint(json.dumps(spent[3:]))"
    )
    return list(run_cells([cell])[0])


def report(ranks: int, repeats: int) -> dict[str, Any]:
    """Everything that `mindlab bench launch` prints, as one dictionary."""
    timings = [measure(peer, ranks, repeats) for peer in present()]
    ours, peers = timings[0], [t for t in timings[1:] if not t.error]
    assert ours.name == MINDLAB.name
    best = min((t.median for t in peers), default=None)
    return {
        "ranks": ranks,
        "first launch after import, s": first_launch(ranks),
        "empty launch, median s": {p: statistics.median(empty_launches(p, 50)) for p in (ranks, 2 * ranks)},
        "rows": [vars(t) | {"median": t.median} for t in timings],
        "ours / fastest peer, warm": None if best is None else ours.median / best,
    }
