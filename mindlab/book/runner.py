"""`mindlab run`: execute chapters, go on after a failed one, and write one report."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindlab.book import catalog, executed, junit, notebook_file, report, report_page
from mindlab.book.editions import Edition
from mindlab.book.ended import Ended, signals
from mindlab.book.folder_lock import locked
from mindlab.book.parameters import fit, parse_assignment
from mindlab.book.progress import Progress
from mindlab.book.summary import summary
from mindlab.book.task import Outcome, Task
from mindlab.book.workers import Pool
from mindlab.errors import MindlabError


@dataclass(frozen=True)
class Wanted:
    """What a person asks of a run; `parameters` are "name=value" as typed."""

    out: Path
    chapters: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    language: str = "en"
    edition: str = "solutions"
    jobs: int = 1
    backend: str = ""
    cell_timeout: float = 120.0
    timeout: float = 600.0


def run(root: Path, wanted: Wanted) -> int:
    """The exit code: 0 all passed, 1 a chapter failed, 3 a deadline passed, 4 a kernel died, 128+n signal n.

    Raises MindlabError for wrong use, before anything is executed.
    """
    edition = Edition(wanted.language, wanted.edition)
    entries = catalog.entries(root, edition, wanted.chapters)
    values = _values(wanted, entries)
    backend = _backend(wanted.backend)
    if wanted.jobs < 1:
        raise MindlabError(f"--jobs {wanted.jobs}: at least 1")
    for entry in entries:
        if reason := catalog.stale(root, entry, edition):
            print(f"note: {entry.name}: {reason}", file=sys.stderr)
    with locked(wanted.out):
        return _Run(wanted, entries, values, backend).go()


def _values(wanted: Wanted, entries: Sequence[catalog.Entry]) -> dict[str, dict[str, Any]]:
    """The parameters of each chapter, typed; --backend also sets a parameter of that name."""
    given = dict(parse_assignment(text) for text in wanted.parameters)
    if wanted.backend and any(p.name == "backend" for entry in entries for p in entry.parameters):
        given.setdefault("backend", wanted.backend)
    return fit(given, {entry.name: entry.parameters for entry in entries})


class _Run:
    """One run, from its tasks to its reports."""

    def __init__(
        self,
        wanted: Wanted,
        entries: Sequence[catalog.Entry],
        values: dict[str, dict[str, Any]],
        backend: str,
    ) -> None:
        self.wanted, self.entries, self.values = wanted, entries, values
        self.backend = backend
        self.progress = Progress(len(entries))
        self.outcomes: dict[str, Outcome] = {}

    def go(self) -> int:
        """Executes and reports; the exit code."""
        for entry in self.entries:  # a result of an earlier run must not pass for one of this run
            self._output(entry).unlink(missing_ok=True)
            self._partial(entry.name).unlink(missing_ok=True)
        self._write()
        pool = Pool(self._environment(), self.wanted.out / "run.log", self.progress.news, self._ended)
        try:
            with signals():
                pool.run([self._task(entry) for entry in self.entries], self.wanted.jobs)
        except Ended as end:
            self._interrupted()
            return 128 + end.number
        outcomes = self._write()
        print(summary(outcomes, self.wanted.out / "report.html"))
        return report.exit_code(outcomes)

    def _task(self, entry: catalog.Entry) -> Task:
        return Task(
            chapter=entry.name,
            notebook=str(entry.path.resolve()),
            output=str(self._output(entry).resolve()),
            parameters=self.values[entry.name],
            cell_timeout=self.wanted.cell_timeout,
            timeout=self.wanted.timeout,
            skip_tags=() if self.backend == "hccl" else ("npu",),
            mark=f"{entry.name}-{uuid.uuid4().hex}",
        )

    def _output(self, entry: catalog.Entry) -> Path:
        return self.wanted.out / f"{entry.name}.ipynb"

    def _partial(self, name: str) -> Path:
        return self.wanted.out / f"{name}.part.ipynb"

    def _environment(self) -> dict[str, str]:
        added = {
            "MINDLAB_BULK": "1",
            "MINDLAB_LANGUAGE": self.wanted.language,
            # A person's start-up files and history must not change what a chapter shows.
            "IPYTHONDIR": str((self.wanted.out / ".ipython").resolve()),
            "PYTHONUNBUFFERED": "1",
            # An answer that is wrong is an event in class and a fault in the solutions.
            "MINDLAB_STRICT": "1" if self.wanted.edition == "solutions" else "0",
        }
        if self.wanted.backend:
            added["MINDLAB_BACKEND"] = self.wanted.backend
        return {**os.environ, **added}

    def _ended(self, outcome: Outcome) -> None:
        partial = self._partial(outcome.chapter)
        if partial.exists():  # its worker is gone or was ended; what is there is kept
            outcome = self._rescued(outcome, partial)
        self.outcomes[outcome.chapter] = outcome
        self.progress.ended(outcome)
        self._write()  # after each chapter, so that a run that is killed leaves what it knows

    def _rescued(self, outcome: Outcome, partial: Path) -> Outcome:
        notebook = notebook_file.read(partial)
        error = executed.note_end(notebook, executed.running(notebook), outcome.error or outcome.ending)
        checks = tuple(executed.checks(notebook))
        executed.clean(notebook)
        notebook_file.write(notebook, self.wanted.out / f"{outcome.chapter}.ipynb")
        partial.unlink()
        return replace(outcome, error=error, checks=checks)

    def _interrupted(self) -> None:
        for entry in self.entries:
            if entry.name not in self.outcomes:
                began = entry.name in self.progress.running
                text = "the run was ended while it ran" if began else "the run was ended before it began"
                self._ended(Outcome(entry.name, "interrupted", 0.0, text))

    def _write(self) -> list[Outcome]:
        """Writes the reports. A chapter that has not ended counts as failed: a run may be killed any time."""
        outcomes = [
            self.outcomes.get(entry.name, Outcome(entry.name, "interrupted", 0.0, "the run did not end it"))
            for entry in self.entries
        ]
        made = report.make(
            outcomes,
            language=self.wanted.language,
            edition=self.wanted.edition,
            backend=self.backend,
            ranks=self._ranks(),
        )
        report.write_text(self.wanted.out / "report.json", report.as_json(made))
        report.write_text(self.wanted.out / "report.html", report_page.as_html(made))
        report.write_text(self.wanted.out / "junit.xml", junit.as_junit(made))
        return outcomes

    def _ranks(self) -> int | None:
        """The parameter `ranks` of the chapters; the largest, if they differ."""
        said = [
            {p.name: p.value for p in entry.parameters} | self.values[entry.name] for entry in self.entries
        ]
        ranks = [values["ranks"] for values in said if isinstance(values.get("ranks"), int)]
        return max(ranks, default=None)


def _backend(name: str) -> str:
    """The backend asked for, or the host's best; raises BackendUnavailable before anything runs."""
    from mindlab.ranks.backends import choose

    return choose(name or None, 1).name
