"""What a learner has done: one JSON file on this machine, or nothing at all.

`MINDLAB_PROGRESS=off` keeps nothing, `MINDLAB_PROGRESS=/some/file.json` keeps it there; else it lies in the
user's own data folder. Bulk runs (MINDLAB_BULK=1) never read or write it. What happens in this process is
remembered in any case, so that hints go on.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mindlab.teach.verdict import FAILED, NOT_ANSWERED, PASSED
from mindlab.teach.words import say

_EMPTY: dict[str, Any] = {"version": 1, "exercises": {}, "cases": {}, "quizzes": {}, "guesses": {}}
_PATIENCE = 2.0  # seconds that another notebook may hold the file


class Journal:
    """The entries, by kind and name. Failing to write never stops a lesson; `note` then says why."""

    def __init__(self) -> None:
        self.data = _blank()
        self.note = ""
        self.path = where()
        if self.path is not None:
            self.data = self._read(self.path)

    def entry(self, kind: str, name: str) -> dict[str, Any]:
        """The entry of a thing, {} where there is none."""
        found = self.data[kind].get(name, {})
        return dict(found) if isinstance(found, dict) else {}

    def tried(self, kind: str, name: str, verdict: str) -> None:
        """An answer was judged. What has passed once stays passed."""
        if verdict not in (PASSED, FAILED):
            return

        def note(entry: dict[str, Any]) -> None:
            entry["tries"] = entry.get("tries", 0) + 1
            if entry.get("state") != PASSED:
                entry["state"] = verdict
                if verdict == PASSED:
                    entry["passed_on"] = datetime.date.today().isoformat()

        self._change(kind, name, note)

    def set(self, kind: str, name: str, **values: Any) -> None:
        """Keeps these values in the entry."""
        self._change(kind, name, lambda entry: entry.update(values))

    def _change(self, kind: str, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        path = where()
        self.path = path
        if path is None:
            change(self.data[kind].setdefault(name, {}))
            return
        try:
            with _held(path):
                self.data = self._read(path)  # another notebook may have written since
                change(self.data[kind].setdefault(name, {}))
                _write(path, self.data)
        except OSError as error:
            self.note = say("progress_unwritable", why=error.strerror or str(error))
            change(self.data[kind].setdefault(name, {}))

    def _read(self, path: Path) -> dict[str, Any]:
        """What the file holds. A damaged one is moved aside, never overwritten."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(found, dict) and all(isinstance(found.get(key, {}), dict) for key in _KINDS):
                return {**_blank(), **found}
        except FileNotFoundError:
            return _blank()
        except OSError as error:
            self.note = say("progress_unwritable", why=error.strerror or str(error))
            return _blank()
        except ValueError:  # no JSON, or no text
            pass
        self.note = say("progress_damaged", path=_moved_aside(path))
        return _blank()


_KINDS = ("exercises", "cases", "quizzes", "guesses")


@functools.lru_cache(maxsize=1)
def _journal(place: str) -> Journal:
    return Journal()


def journal() -> Journal:
    """The journal of this process; a new one where MINDLAB_PROGRESS or MINDLAB_BULK changed."""
    return _journal(str(where()))


def where() -> Path | None:
    """The path of the file; None where nothing is kept."""
    wanted = os.environ.get("MINDLAB_PROGRESS", "")
    if wanted == "off" or os.environ.get("MINDLAB_BULK"):
        return None
    if wanted:
        return Path(wanted).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "mindlab" / "progress.json"


def state_of(entry: dict[str, Any]) -> str:
    """The verdict word of an entry."""
    state = entry.get("state")
    return state if state in (PASSED, FAILED) else NOT_ANSWERED


def _blank() -> dict[str, Any]:
    return json.loads(json.dumps(_EMPTY))  # type: ignore[no-any-return]


def _write(path: Path, data: dict[str, Any]) -> None:
    """Whole or not at all: the new file takes the old one's place in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1, sort_keys=True, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """The file for this process alone; raises OSError where another one holds it for long."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _PATIENCE
    with open(path.with_name(path.name + ".lock"), "a", encoding="utf-8") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        yield


def _moved_aside(path: Path) -> Path:
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            with contextlib.suppress(OSError):
                os.replace(path, aside)
            return aside
    return path
