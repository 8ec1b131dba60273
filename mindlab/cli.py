"""The command line: one sub-command a function, each importing what it needs when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mindlab import __version__
from mindlab.errors import MindlabError

OK, FAILED, WRONG_USE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 all is well, 1 something is not, 2 wrong use (3 and 4: see `mindlab run`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["bench"]:
            return bench(given[1:])
        options = _parse(given)
        return int(options.command(options))
    except MindlabError as error:
        print(f"mindlab {given[0]}: {error}", file=sys.stderr)
        return WRONG_USE
    except BrokenPipeError:
        return FAILED


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """The options. Chapters may stand behind options too, which argparse refuses: `run 00 -p a=1 01`."""
    top = parser()
    options, rest = top.parse_known_args(given)
    if rest and (options.name != "run" or any(word.startswith("-") for word in rest)):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.chapters += rest
    return options


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="mindlab", description="A workbook on multi-card parallel inference.")
    top.add_argument("--version", action="version", version=f"mindlab {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="name")
    for add in (_add_build, _add_run, _add_grade, _add_export, _add_figures, _add_doctor, _add_bench):
        add(commands)
    return top


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def _add_build(commands: _Commands) -> None:
    this = commands.add_parser("build", help="make the notebooks from notebooks/src")
    this.add_argument("--check", action="store_true", help="write nothing; list what is stale or broken")
    this.add_argument("--force", action="store_true", help="overwrite notebooks that were changed by hand")
    _root(this)
    this.set_defaults(command=build)


def _root(this: argparse.ArgumentParser) -> None:
    this.add_argument("--root", type=Path, help="the project's folder (default: found from here upwards)")


def build(options: argparse.Namespace) -> int:
    """`mindlab build [--check]`."""
    from mindlab.book import builder

    root = options.root or builder.find_root()
    written: list[Path] = []
    if options.check:
        found = builder.check(root)
    else:
        written, found = builder.build(root, force=options.force)
    for path in written:
        print(f"built {path.relative_to(root)}")
    for line in found:
        print(line, file=sys.stderr)
    if not written and not found:
        print("every notebook is as its source says")
    return FAILED if found else OK


def _add_run(commands: _Commands) -> None:
    this = commands.add_parser("run", help="execute chapters and write one report")
    this.add_argument("chapters", nargs="*", metavar="CHAPTER", help='"01" or "01_collectives"; none: all')
    this.add_argument("-p", action="append", default=[], metavar="NAME=VALUE", help="set a parameter")
    this.add_argument("--language", choices=("en", "zh"), default="en")
    this.add_argument("--edition", choices=("solutions", "exercises"), default="solutions")
    this.add_argument("--out", type=Path, help="where everything goes (default: build/run)")
    this.add_argument("--jobs", type=int, default=1, help="chapters at a time (default: 1)")
    this.add_argument("--backend", help="run on this backend: gloo, nccl or hccl (default: the host's best)")
    this.add_argument("--cell-timeout", type=float, default=120, help="seconds for a cell (default: 120)")
    this.add_argument("--timeout", type=float, default=600, help="seconds for a chapter (default: 600)")
    _root(this)
    this.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """`mindlab run`: 0 all passed, 1 a chapter failed, 2 wrong use, 3 a deadline passed, 4 a kernel died."""
    from mindlab.book import builder, runner

    root = options.root or builder.find_root()
    wanted = runner.Wanted(
        chapters=tuple(options.chapters),
        parameters=tuple(options.p),
        language=options.language,
        edition=options.edition,
        out=options.out or root / "build" / "run",
        jobs=options.jobs,
        backend=options.backend or "",
        cell_timeout=options.cell_timeout,
        timeout=options.timeout,
    )
    return runner.run(root, wanted)


def _add_grade(commands: _Commands) -> None:
    this = commands.add_parser("grade", help="judge the notebooks that learners handed in")
    this.add_argument("submissions", type=Path, metavar="FOLDER", help="a file or a folder for each learner")
    this.add_argument("--out", type=Path, required=True, help="where tables and executed notebooks go")
    this.add_argument("--chapter", default="", help="this one alone; also for notebooks that name none")
    this.add_argument("--seed", type=int, help="chooses the checks' data (default: a new one, then kept)")
    this.add_argument("--jobs", type=int, default=1, help="submissions at a time (default: 1)")
    this.add_argument("--deadline", type=float, default=600, help="seconds for a notebook (default: 600)")
    this.add_argument("--cell-deadline", type=float, default=60, help="seconds for a cell (default: 60)")
    this.add_argument("--check-deadline", type=float, default=120, help="seconds for a check (default: 120)")
    this.add_argument("--backend", help="check on this backend (default: the host's best)")
    this.add_argument("--again", action="store_true", help="grade anew what was graded before")
    _root(this)
    this.set_defaults(command=grade)


def grade(options: argparse.Namespace) -> int:
    """`mindlab grade`: 0 all graded, 1 something could not be run, 2 wrong use."""
    from mindlab.book import builder, grading

    wanted = grading.Wanted(
        folder=options.submissions,
        out=options.out,
        chapter=options.chapter,
        seed=options.seed,
        jobs=options.jobs,
        backend=options.backend or "",
        deadline=options.deadline,
        cell_deadline=options.cell_deadline,
        check_deadline=options.check_deadline,
        again=options.again,
    )
    return grading.grade(options.root or builder.find_root(), wanted)


def _add_export(commands: _Commands) -> None:
    this = commands.add_parser("export", help="make pages from executed notebooks")
    this.add_argument("--to", choices=("site", "html", "markdown", "pdf"), default="site")
    this.add_argument("--from", dest="source", type=Path, help="a run's folder (default: build/run)")
    this.add_argument(
        "--out", type=Path, help="where they go (default: build/site, build/html, build/markdown, build/pdf)"
    )
    _root(this)
    this.set_defaults(command=export)


def export(options: argparse.Namespace) -> int:
    """`mindlab export`: 0, or 1 with what is wrong in which page."""
    from mindlab.book import builder, exporter

    root = options.root or builder.find_root()
    source = options.source or root / "build" / "run"
    out = options.out or root / "build" / options.to
    pages, found = exporter.export(root, source, out, options.to)
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(pages)} pages in {out}; begin with {pages[0]}" if pages else f"no page in {out}")
    return FAILED if found else OK


def _add_figures(commands: _Commands) -> None:
    this = commands.add_parser("figures", help="draw figures/*.py into figures/*.svg")
    this.add_argument("names", nargs="*", metavar="NAME", help="none: all")
    this.add_argument("--check", action="store_true", help="write nothing; list the figures that are stale")
    _root(this)
    this.set_defaults(command=figures)


def figures(options: argparse.Namespace) -> int:
    """`mindlab figures [--check]`."""
    from mindlab.book import builder
    from mindlab.book.figures import refresh

    root = options.root or builder.find_root()
    written, found = refresh(root / "figures", options.names, check=options.check)
    for path in written:
        print(f"drew {path.relative_to(root)}")
    for line in found:
        print(line, file=sys.stderr)
    return FAILED if found else OK


def _add_doctor(commands: _Commands) -> None:
    this = commands.add_parser("doctor", help="say what this host has, what is missing and what to do")
    this.add_argument("--json", action="store_true", help="the findings as JSON")
    this.set_defaults(command=doctor)
    topics = this.add_subparsers(metavar="TOPIC", dest="topic")
    words = "name the known failure in a log or a pasted error, and what to do"
    asked = topics.add_parser("explain", help=words, description=words)
    asked.add_argument("file", metavar="FILE", help="a log; - reads what is piped or pasted in")
    asked.add_argument("--json", action="store_true", help="the explanations as JSON")
    asked.set_defaults(command=doctor_explain)


def doctor(options: argparse.Namespace) -> int:
    """`mindlab doctor`: 0, or 1 if something keeps the workbook from running."""
    import json

    from mindlab import doctor as examination

    found = examination.examine()
    if options.json:
        print(json.dumps([finding.as_dict() for finding in found], indent=1, ensure_ascii=False))
    else:
        print(examination.as_text(found))
    return FAILED if any(finding.state == "problem" for finding in found) else OK


def doctor_explain(options: argparse.Namespace) -> int:
    """`mindlab doctor explain`: 0, or 1 if nothing that is known shows in the file."""
    import json

    from mindlab.doctor import explain

    if options.file == "-":
        lines = sys.stdin.read().splitlines()
    else:
        try:
            lines = Path(options.file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise MindlabError(f"{options.file}: {error.strerror}: give a log file, or - to paste") from None
    found = explain.explain(lines)
    if options.json:
        print(json.dumps([each.as_dict() for each in found], indent=1, ensure_ascii=False))
    else:
        print(explain.as_text(found, len(lines)))
    return OK if found else FAILED


def _add_bench(commands: _Commands) -> None:
    commands.add_parser("bench", help="measure launching and recording on this machine", add_help=False)


def bench(arguments: Sequence[str]) -> int:
    """`mindlab bench …`: its own command line, in mindlab/bench."""
    try:
        from mindlab.bench.cli import main as bench_main
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("mindlab.bench"):
            raise
        print("mindlab bench: this copy has no mindlab/bench", file=sys.stderr)
        return WRONG_USE
    return int(bench_main(list(arguments)))
