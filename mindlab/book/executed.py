"""What an executed notebook says: its checks, its faults (also the silent ones), and its clean form."""

from __future__ import annotations

import re
from typing import Any

from nbformat import NotebookNode

from mindlab.book import notebook_file
from mindlab.book.capped import left_out
from mindlab.book.editions import KERNELSPEC, cell_id

CHECK_MIME = "application/vnd.mindlab.check+json"
CHECK_KEYS = ("claim", "predicted", "measured", "unit", "provenance", "within", "passed", "verdict")
SKIPPED = "skip-execution"
"""The tag by which nbclient and papermill leave a cell out."""

TEXT_LIMIT = 200_000
OUTPUT_LIMIT = 2_000_000
"""Bytes that a cell may print, and that it may leave in all: more is a mistake, and nobody reads it."""

_INJECTED = "injected-parameters"
_BANNERS = {"papermill-error-cell-tag", "papermill-error-in-cell-tag"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def is_executable(cell: NotebookNode) -> bool:
    """True for a code cell that a run executes: not empty, not skipped."""
    return cell.cell_type == "code" and bool(cell.source.strip()) and SKIPPED not in tags(cell)


def tags(cell: NotebookNode) -> list[str]:
    """The cell's tags."""
    return list(cell.metadata.get("tags", []))


def checks(notebook: NotebookNode) -> list[dict[str, Any]]:
    """The rows of every check, in their order, with the keys of CHECK_KEYS.

    A check that fails as the chapter means it to leaves no row.
    """
    rows: list[dict[str, Any]] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            found = output.get("data", {}).get(CHECK_MIME)
            rows += found if isinstance(found, list) else [found] if found else []
    return [{key: row.get(key) for key in CHECK_KEYS} for row in rows]


def faults(notebook: NotebookNode) -> list[str]:
    """Why this run cannot count as passed; empty if it can.

    Finds what papermill reports, and what ends with exit code 0: a cell that never ran (after
    sys.exit(0)), a failed check that raised nothing, a missing glyph, a flood of output.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    raised = [fault for cell in cells for fault in _raised(notebook, cell)]
    found = raised or _unfinished(notebook, cells)
    for cell in cells:
        found += [f"{place(notebook, cell)}: {text}" for text in _silent(cell)]
    failed = [row for row in checks(notebook) if row["passed"] is False]
    if failed and not raised:
        found += [f"the check failed: {row['claim']}" for row in failed]
    return found


def place(notebook: NotebookNode, cell: NotebookNode) -> str:
    """Where a cell is, for a person: "code cell 3 (`x = 1 / 0`)". Cells that papermill added do not count."""
    if _INJECTED in tags(cell):
        return "the given parameters"
    own = [other for other in notebook.cells if other.cell_type == "code" and not _added(other)]
    first = next((line for line in cell.source.splitlines() if line.strip()), "").strip()
    number = next((k for k, other in enumerate(own, 1) if other is cell), 0)
    return f"code cell {number} (`{first if len(first) < 80 else first[:77] + '...'}`)"


def note_end(notebook: NotebookNode, index: int, reason: str) -> str:
    """Leaves an error in the cell where a run ended from outside; returns where and why, for the report."""
    cell = notebook.cells[min(index, len(notebook.cells) - 1)]
    text = f"{place(notebook, cell)}: {reason}{_last_lines(cell)}"
    if cell.cell_type == "code":
        error = {"output_type": "error", "ename": "RunEnded", "evalue": reason, "traceback": [reason]}
        cell.outputs.append(notebook_file.node(error))
    return text


def running(notebook: NotebookNode) -> int:
    """The index of the cell that ran when papermill last wrote the notebook; else of the last cell."""
    states = [cell.metadata.get("papermill", {}).get("status") for cell in notebook.cells]
    return states.index("running") if "running" in states else len(states) - 1


def clean(notebook: NotebookNode) -> None:
    """Takes out all that two equal runs do not share: times, versions, banners, random ids."""
    notebook.cells = [cell for cell in notebook.cells if not _BANNERS & set(tags(cell))]
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        kept = [tag for tag in tags(cell) if tag not in _BANNERS]
        if kept:
            cell.metadata["tags"] = kept
        else:
            cell.metadata.pop("tags", None)
        if _INJECTED in kept:
            cell["id"] = cell_id("code", cell.source, seen)
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = dict(KERNELSPEC)
    notebook.metadata["language_info"] = {"name": "python"}


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs whose neighbouring streams are one, with only the last state of a line that was rewritten.

    nbclient can do this too (coalesce_streams), in a time that grows with the square of a line's length.
    """
    joined: list[NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else None
        if output.output_type == "stream" and before and before.get("name") == output.name:
            before.text += output.text
        else:
            joined.append(output)
    for output in joined:
        if output.output_type == "stream":
            lines = output.text.replace("\r\n", "\n").split("\n")
            output.text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return joined


def _added(cell: NotebookNode) -> bool:
    return bool({_INJECTED, *_BANNERS} & set(tags(cell)))


def _raised(notebook: NotebookNode, cell: NotebookNode) -> list[str]:
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            said = _ANSI.sub("", f"{output.ename}: {output.evalue}".removesuffix(": "))
            if output.ename == "SystemExit":  # IPython prints advice for people at a prompt
                return [f"{place(notebook, cell)}: it ended the run ({said})"]
            return [f"{place(notebook, cell)}: {said}{_last_lines(cell)}"]
    return []


def _unfinished(notebook: NotebookNode, cells: list[NotebookNode]) -> list[str]:
    """The first cell that did not run, and the flag that papermill leaves after sys.exit(0)."""
    missing = [cell for cell in cells if is_executable(cell) and cell.execution_count is None]
    if missing:
        return [f"{place(notebook, missing[0])}: did not run, nor did {len(missing) - 1} after it"]
    if notebook.metadata.get("papermill", {}).get("exception"):
        return ["a cell ended the run early (sys.exit?)"]
    return []


def _silent(cell: NotebookNode) -> list[str]:
    printed = "".join(o.text for o in cell.get("outputs", []) if o.output_type == "stream")
    length = len(printed) + left_out(printed)
    size = len(str(cell.get("outputs", [])))
    found = []
    if re.search(r"Glyph \d+ .*missing", printed):
        found.append("a picture lacks a glyph (no font has it)")
    if length > TEXT_LIMIT:
        found.append(f"prints {length // 1000:,} kB; the limit is {TEXT_LIMIT // 1000} kB")
    elif size > OUTPUT_LIMIT:
        found.append(f"leaves {size // 1000} kB of output; the limit is {OUTPUT_LIMIT // 1000} kB")
    return found


def _last_lines(cell: NotebookNode, count: int = 5) -> str:
    """What the cell printed last, indented: there the ranks' own words stand."""
    printed = "".join(o.text for o in cell.get("outputs", []) if o.output_type == "stream")
    lines = [line for line in _ANSI.sub("", printed).splitlines() if line.strip()]
    return "".join(f"\n    {line[:200]}" for line in lines[-count:])
