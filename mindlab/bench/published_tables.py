"""The published tables that the planner is held against, as the data files have them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.planning.layouts import AXES, Layout

_DATA = Path(__file__).parent / "published"


@dataclass(frozen=True)
class Series:
    """One column of a table: a model on a machine, row by row; the rows are layouts, or sizes in bytes."""

    table: str
    source: str
    name: str
    topology: str
    rows: dict[Any, float]
    """Seconds, or what `unit` says."""
    model: str = ""
    shape: dict[str, Any] = field(default_factory=dict)
    """The model's shape, where it is not a shipped one."""
    work: dict[str, Any] = field(default_factory=dict)
    unit: str = "s"
    op: str = ""
    algorithm: str = ""
    cards: int = 0
    fit: dict[str, Any] = field(default_factory=dict)
    """Which constant is taken from which row."""
    carry: str = ""
    """The series whose constants are taken."""
    left_out: dict[str, str] = field(default_factory=dict)


def tables() -> list[Series]:
    """Every series of every file, in order."""
    found = []
    for path in (_DATA / f"{name}.yaml" for name in ("diffusion", "decoding", "collectives")):
        for table in yaml.safe_load(path.read_text(encoding="utf-8")):
            found += [Series(table["table"], table["source"], **one) for one in table["series"]]
    return found


def without_series() -> list[dict[str, str]]:
    """The tables that are not held against the model: id, title and why."""
    listed: list[dict[str, str]] = yaml.safe_load((_DATA / "others.yaml").read_text(encoding="utf-8"))
    return listed


def layout(name: str) -> Layout:
    """The Layout of a row: "cfg 2 x ulysses 4", "one card".

    >>> layout("cfg 2 x ulysses 4").ranks
    8
    """
    if name == "one card":
        return Layout()
    sizes: dict[str, Any] = {}
    for part in name.split(" x "):
        found = re.fullmatch(r"(\w+) (\d+)", part)
        if found is None or found[1] not in (*AXES, "expert"):
            raise ValueError(f"{name!r} is no layout: write such as 'cfg 2 x ulysses 4'")
        sizes[found[1]] = int(found[2])
    return Layout(**sizes)
