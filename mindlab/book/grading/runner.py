"""`mindlab grade`: every submission through a worker, the tables written after each."""

from __future__ import annotations

import datetime
import json
import os
import random
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindlab.book import report
from mindlab.book.ended import Ended, signals
from mindlab.book.folder_lock import locked
from mindlab.book.grading import asked, page, submissions, table
from mindlab.book.grading.asked import Chapter
from mindlab.book.grading.sitting import Sitting
from mindlab.book.grading.submissions import Submission
from mindlab.book.progress import Progress
from mindlab.book.task import Outcome
from mindlab.book.workers import Pool
from mindlab.errors import MindlabError

EXECUTED = "executed"
"""The folder, below the output's, of the executed notebooks."""


@dataclass(frozen=True)
class Wanted:
    """What an instructor asks for. `seed` None: the one of the last grading into `out`, else a new one."""

    folder: Path
    out: Path
    chapter: str = ""
    seed: int | None = None
    jobs: int = 1
    backend: str = ""
    deadline: float = 600.0
    cell_deadline: float = 60.0
    check_deadline: float = 120.0
    again: bool = False


def grade(root: Path, wanted: Wanted) -> int:
    """The exit code: 0 all graded, 1 something could not be run, 128 + n ended by signal n.

    Raises MindlabError for wrong use, before anything runs.
    """
    _refuse(wanted)
    known = asked.chapters(root)
    only = asked.choose(known, wanted.chapter) if wanted.chapter else None
    found = submissions.find(wanted.folder, [chapter.name for chapter in known])
    with locked(wanted.out):
        return _Grading(wanted, known, only, found).go()


def _refuse(wanted: Wanted) -> None:
    """Raises MindlabError for values that cannot be meant."""
    if wanted.jobs < 1:
        raise MindlabError(f"--jobs {wanted.jobs}: at least 1")
    if wanted.seed is not None and not 0 <= wanted.seed < 2**31:
        raise MindlabError(f"--seed {wanted.seed}: a whole number from 0 to {2**31 - 1}")
    limits = {"": wanted.deadline, "cell-": wanted.cell_deadline, "check-": wanted.check_deadline}
    for name, seconds in limits.items():
        if not 0 < seconds < float("inf"):
            raise MindlabError(f"--{name}deadline {seconds:g}: a number of seconds greater than 0")
    out, folder = wanted.out.resolve(), wanted.folder.resolve()
    if out == folder or folder in out.parents or out / EXECUTED in (folder, *folder.parents):
        raise MindlabError(f"--out {wanted.out}: it must not touch {wanted.folder}, which stays as it is")
    if wanted.backend:
        from mindlab.ranks.backends import choose

        choose(wanted.backend, 1)


class _Grading:
    """One grading, from the files to the tables."""

    def __init__(
        self, wanted: Wanted, known: Sequence[Chapter], only: Chapter | None, found: Sequence[Submission]
    ) -> None:
        self.wanted, self.known, self.only = wanted, known, only
        self.found = {one.key: one for one in found}
        before = _read(wanted.out / "grades.json")
        self.seed = _seed(wanted, before)
        self.graded: dict[str, table.Graded] = {}
        self.left_out: dict[str, str] = {}
        self.tasks: list[Sitting] = []
        self.kept = 0
        for one in found:
            self._plan(one, {} if wanted.again else before)
        self.progress = Progress(len(self.tasks), what="submissions")

    def go(self) -> int:
        """Grades and writes; the exit code."""
        self._tell()
        self._write()
        environment = {
            **os.environ,
            "MINDLAB_BULK": "1",
            "MINDLAB_PROGRESS": "off",
            "PYTHONUNBUFFERED": "1",
        }
        module = "mindlab.book.grading.worker"
        pool = Pool(environment, self.wanted.out / "grade.log", self.progress.news, self._ended, module)
        try:
            with signals():
                pool.run(self.tasks, self.wanted.jobs)
        except Ended as end:
            left = len(self.tasks) - self.progress.done
            print(f"\nended; {left} submissions not graded yet: the same command goes on", file=sys.stderr)
            return 128 + end.number
        self._write()
        print(self._summary())
        return 1 if table.not_run(self.graded.values()) else 0

    def _plan(self, one: Submission, before: dict[str, Any]) -> None:
        """Decides what becomes of a submission: kept from before, left out, graded now, or unreadable."""
        fingerprint = one.fingerprint()
        try:
            notebook, _ = submissions.read(one.path)
        except submissions.Unreadable as error:
            self._note(one, fingerprint, str(error))
            return
        chapter = asked.belongs(notebook, self.known, self.only)
        if chapter is None:
            names = ", ".join(known.name for known in self.known)
            self._note(one, fingerprint, f"belongs to no chapter (known: {names}); give --chapter")
            return
        if self.only and chapter != self.only:
            self.left_out[one.key] = f"belongs to {chapter.name}, not to {self.only.name}"
            return
        kept = self._kept(one, chapter, fingerprint, before)
        if kept:
            self.graded[one.key] = kept
            self.kept += 1
            return
        self.graded[one.key] = self._blank(one, fingerprint, chapter.name)
        self.tasks.append(self._task(one, chapter))

    def _kept(
        self, one: Submission, chapter: Chapter, fingerprint: str, before: dict[str, Any]
    ) -> table.Graded | None:
        """What an earlier grading found, if nothing has changed since and everything could be run."""
        said = [graded for graded in before.get("submissions", []) if graded["key"] == one.key]
        if not said or before.get("seed") != self.seed or before.get("versions") != report.versions():
            return None
        graded: table.Graded = said[0]
        names = [row["exercise"] for row in graded["rows"]]
        is_same = graded["fingerprint"] == fingerprint and names == [a.exercise for a in chapter.asked]
        return graded if is_same and not table.not_run([graded]) else None

    def _task(self, one: Submission, chapter: Chapter) -> Sitting:
        target = self._executed(one)
        target.parent.mkdir(parents=True, exist_ok=True)
        return Sitting(
            chapter=one.key,
            notebook=str(one.path.resolve()),
            output=str(target.resolve()),
            cell_timeout=self.wanted.cell_deadline,
            timeout=self.wanted.deadline,
            mark=f"grade-{uuid.uuid4().hex}",
            asked=tuple((a.exercise, a.function) for a in chapter.asked),
            seed=self.seed,
            backend=self.wanted.backend,
            check_timeout=self.wanted.check_deadline,
            along="/" in one.key,
        )

    def _executed(self, one: Submission) -> Path:
        return self.wanted.out / EXECUTED / one.key

    def _blank(self, one: Submission, fingerprint: str, chapter: str, note: str = "") -> table.Graded:
        return {
            "key": one.key,
            "learner": one.learner,
            "chapter": chapter,
            "fingerprint": fingerprint,
            "seconds": 0.0,
            "notes": [note or "not graded yet"],
            "rows": [],
            "executed": "",
        }

    def _note(self, one: Submission, fingerprint: str, why: str) -> None:
        """A submission that cannot be run at all: with --chapter, its exercises say so."""
        graded = self._blank(one, fingerprint, self.only.name if self.only else "", why)
        graded["rows"] = [
            {"exercise": a.exercise, "function": a.function, "state": "did not run", "says": why}
            for a in (self.only.asked if self.only else ())
        ]
        self.graded[one.key] = graded

    def _ended(self, outcome: Outcome) -> None:
        """A submission is done: its marks are on the disk before the next one's."""
        one = self.found[outcome.chapter]
        graded = self.graded[one.key]
        executed = self._executed(one)
        graded |= {
            "seconds": outcome.seconds,
            "notes": outcome.error.splitlines() if outcome.error else [],
            "rows": list(outcome.checks) or self._lost(one, outcome),
            "executed": executed.relative_to(self.wanted.out).as_posix() if executed.exists() else "",
        }
        states = [f"{row['exercise']} {row['state']}" for row in graded["rows"]]
        self.progress.line(outcome.chapter, f"{one.key}: {', '.join(states)} ({outcome.seconds:.0f} s)")
        self._write()

    def _lost(self, one: Submission, outcome: Outcome) -> list[dict[str, Any]]:
        task = next(task for task in self.tasks if task.chapter == one.key)
        return [
            {"exercise": name, "function": function, "state": "did not run", "says": outcome.error or ""}
            for name, function in task.asked
        ]

    def _about(self) -> dict[str, Any]:
        return {
            "date": datetime.date.today().isoformat(),
            "seed": self.seed,
            "chapter": self.only.name if self.only else None,
            "backend": self.wanted.backend or None,
            "versions": report.versions(),
            "left_out": self.left_out,
        }

    def _write(self) -> None:
        done = list(self.graded.values())
        report.write_text(self.wanted.out / "grades.json", table.as_json(self._about(), done))
        report.write_text(self.wanted.out / "grades.csv", table.as_csv(done))
        report.write_text(self.wanted.out / "grades.html", page.as_html(self._about(), done))

    def _tell(self) -> None:
        parts = [f"{len(self.found)} submissions", f"seed {self.seed}"]
        if self.kept:
            parts.append(f"{self.kept} graded before and unchanged: kept (--again grades them anew)")
        print("; ".join(parts))
        for key, why in self.left_out.items():
            print(f"left out: {key} {why}")

    def _summary(self) -> str:
        done = list(self.graded.values())
        lost = table.not_run(done)
        lines = [f"could not be run: {one['key']}: {_why(one)}" for one in lost]
        counted = ", ".join(f"{count} {state}" for state, count in table.tally(done).items())
        graded = f"{len(done) - len(lost)} of {len(done)} submissions graded"
        lines.append(f"{graded}; exercises: {counted or 'none'}")
        return "\n".join([*lines, f"tables: {self.wanted.out / 'grades.html'} (also .csv, .json)"])


def _why(graded: table.Graded) -> str:
    says = [row["says"] for row in graded["rows"] if row["state"] == "did not run" and row["says"]]
    return str((says or graded["notes"] or ["unknown"])[0])


def _read(path: Path) -> dict[str, Any]:
    """What an earlier grading wrote; nothing where there is none or another program wrote over it."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) and isinstance(read.get("submissions"), list) else {}


def _seed(wanted: Wanted, before: dict[str, Any]) -> int:
    if wanted.seed is not None:
        return wanted.seed
    said = before.get("seed")
    return said if isinstance(said, int) and not wanted.again else random.SystemRandom().randrange(2**31)
