"""Runs as files: `run.save(path)` and `ml.load(path)`.

A `.run` file is a zip of `run.json` and the raw bytes of each tensor. Nothing in it is ever executed when it
is read: no pickle. What is neither a tensor, an array, a number, a string nor a container of such is kept as
its repr, and the notes say so.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from mindlab.errors import MindlabError
from mindlab.trace import sound, values, viewer
from mindlab.trace.events import Event
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run
from mindlab.trace.stated import Work
from mindlab.trace.wire import Wire

_FORMAT = "mindlab run"
_VERSION = 2
"""2: with the work that the code stated, and where a call was waited for. Format 1 has neither."""
_PLAIN = (
    "backend",
    "seed",
    "name",
    "code_hash",
    "why_no_wire",
    "notes",
    "versions",
    "host",
    "date",
    "printed",
)
_COLUMNS = tuple(entry.name for entry in fields(Event))
_PAIRS = ("sends", "receives")
_SUFFIXES = ".run (everything, for ml.load) or .json (the calls, for Perfetto and MindStudio Insight)"


def save(run: Run, path: str | os.PathLike[str]) -> Path:
    """The path of the written file: everything (`.run`), or a trace for a viewer (`.json`).

    Raises ValueError for another suffix. An old file is only replaced by a whole new one.
    """
    target = Path(path)
    if target.suffix == ".json":
        _write(target, json.dumps(viewer.trace(run)).encode())
    elif target.suffix == ".run":
        _write(target, _packed(run))
    else:
        raise ValueError(f"save({str(path)!r}): end the name with {_SUFFIXES}")
    return target


def load(path: str | os.PathLike[str]) -> Run:
    """The Run that was saved as a `.run` file. Never unpickles.

        >>> run = ml.launch(lambda: dist.get_rank() ** 2, ranks=3)
        >>> ml.load(run.save("squares.run")).values
        [0, 1, 4]

    Raises FileNotFoundError, ValueError for another kind of file, MindlabError for a broken or newer one.
    """
    source = Path(path)
    if source.suffix != ".run":
        raise ValueError(
            f"load({str(path)!r}): a run is loaded from a .run file; a .json file is for viewers"
        )
    with open(source, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                head = json.loads(archive.read("run.json"))
                _refuse_foreign(head, source)
                run = _unpacked(head, values.Reader(archive))
            sound.refuse_unsound(run)
        except MindlabError:
            raise
        except Exception as error:  # a damaged zip fails in zlib, in struct, in torch: no list holds them all
            why = str(error) or type(error).__name__
            raise MindlabError(f"{source} is not a whole .run file ({why}); save it again") from error
    return run


def _refuse_foreign(head: Any, source: Path) -> None:
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise MindlabError(f"{source} was not written by run.save")
    if head["version"] > _VERSION:
        raise MindlabError(
            f"{source} was written by a newer mindlab (format {head['version']}); "
            f"this one reads up to format {_VERSION}: update mindlab"
        )


def _packed(run: Run) -> bytes:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            writer = values.Writer(archive)
            head = {"format": _FORMAT, "version": _VERSION, "events": _events(run)}
            head |= {name: getattr(run, name) for name in _PLAIN}
            head["values"] = [
                writer.encode(value, f"the value of rank {rank}") for rank, value in enumerate(run.values)
            ]
            head["work"] = [list(asdict(work).values()) for work in run.work]
            head["seconds"] = _measured(run.seconds)
            head["wire"] = None if run.wire is None else _wire(run.wire)
            head["notes"] = list(dict.fromkeys([*run.notes, *writer.notes]))
            archive.writestr("run.json", json.dumps(head, allow_nan=False))
        file.seek(0)
        return file.read()


def _unpacked(head: dict[str, Any], reader: values.Reader) -> Run:
    return Run(
        values=[reader.decode(value) for value in head["values"]],
        seconds=_to_measured(head["seconds"]),
        events=[_to_event(head["events"]["columns"], row) for row in head["events"]["rows"]],
        wire=None if head["wire"] is None else _to_wire(head["wire"]),
        work=[Work(*row) for row in head.get("work", ())],
        **{name: head[name] for name in _PLAIN},
    )


def _events(run: Run) -> dict[str, Any]:
    rows = [[entry[name] for name in _COLUMNS] for entry in map(asdict, run.events)]
    return {"columns": list(_COLUMNS), "rows": rows}


def _to_event(columns: list[str], row: list[Any]) -> Event:
    given = dict(zip(columns, row, strict=True))
    given["group"], given["shape"] = tuple(given["group"]), tuple(given["shape"])
    for name in _PAIRS:
        given[name] = tuple((peer, nbytes) for peer, nbytes in given[name])
    return Event(**given)


def _measured(numbers: Measured) -> dict[str, Any]:
    attributes = {name: getattr(numbers, name) for name in ("unit", "provenance", "source", "note")}
    return {"values": numbers.tolist(), **attributes}


def _to_measured(given: dict[str, Any]) -> Measured:
    return Measured(given.pop("values"), **given)


def _wire(wire: Wire) -> dict[str, Any]:
    parts = {name: getattr(wire, name) for name in ("total", "framing", "payload")}
    matrices = {name: None if part is None else _measured(part) for name, part in parts.items()}
    return {**matrices, "source": wire.source, "note": wire.note}


def _to_wire(given: dict[str, Any]) -> Wire:
    matrices = {
        name: None if given[name] is None else _to_measured(given[name])
        for name in ("total", "framing", "payload")
    }
    return Wire(**matrices, source=given["source"], note=given["note"])  # type: ignore[arg-type]


def _write(target: Path, data: bytes) -> None:
    """Write beside the target, then put it in its place: no half a file is ever seen there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
