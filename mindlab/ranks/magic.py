"""%%ranks: run the lines of a cell on every rank, with names that live on until the pool ends."""

from __future__ import annotations

import argparse
import ast
import linecache
import re
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython

from mindlab.errors import RankFailed
from mindlab.ranks.cells import label
from mindlab.ranks.launcher import run_on_ranks

_names: dict[str, Any] = {}
"""In a rank: what the cells before left."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%ranks: {message}. {self.format_usage().strip()}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%ranks", add_help=False)
    parser.add_argument("ranks", nargs="?", type=int, default=4)
    parser.add_argument("--backend")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("-i", "--input", default="")
    parser.add_argument("-o", "--output", default="")
    return parser


def ranks(line: str, cell: str) -> None:
    """Run this cell on every rank: `%%ranks 4`. torch, dist, rank and ranks are there; names stay.

    The value of the last line is printed by each rank. Names are lost when the pool ends: after an error,
    or when another number of ranks is asked for. Options: --backend NAME, --timeout SECONDS, -i x,y hands
    names of the notebook to every rank, -o NAME puts the Run into the notebook under that name.
    """
    shell: Any = get_ipython()
    options = _parser().parse_args(shlex.split(line))
    given = {}
    for name in filter(None, (name.strip() for name in options.input.split(","))):
        if name not in shell.user_ns:
            raise UsageError(f"-i {name}: the notebook has no such name")
        given[name] = shell.user_ns[name]
    file = shell.compile.cache(cell, shell.execution_count, raw_code=cell)
    compile(cell, file, "exec")  # a slip of the pen shows here and reaches no rank
    try:
        run = run_on_ranks(
            run_cell,
            (cell, file, label(file), given),
            {},
            ranks=options.ranks,
            backend=options.backend,
            timeout=options.timeout,
            seed=0,
            keep=True,
        )
    except RankFailed as error:
        _advise(error, shell.user_ns)
        raise
    if options.output:
        shell.user_ns[options.output] = run


def _advise(error: RankFailed, notebook: dict[str, Any]) -> None:
    """Say how a name of the notebook comes to the ranks."""
    named = re.search(r"name '(\w+)' is not defined", str(error))
    if error.kind == "NameError" and named and named[1] in notebook:
        name = named[1]
        print(f"{name} stands in the notebook only: `%%ranks … -i {name}` hands it to the ranks.")


def run_cell(text: str, file: str, name: str, given: dict[str, Any]) -> None:
    """In a rank: execute `text` in the names that earlier cells left; print the last expression."""
    import torch
    import torch.distributed as dist

    from mindlab.trace import recorder

    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    recorder.cells[file] = name
    base = {"torch": torch, "dist": dist, "rank": dist.get_rank(), "ranks": dist.get_world_size()}
    for key, value in base.items():
        _names.setdefault(key, value)
    _names.update(given)
    tree = ast.parse(text, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), _names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), file, "eval"), _names)
        if value is not None:
            print(repr(value))


def register(shell: Any) -> None:
    """Make %%ranks known to this IPython, and explain torch's complaint about a call outside the ranks."""
    shell.events.register("post_run_cell", _explain)
    shell.register_magic_function(ranks, magic_kind="cell", magic_name="ranks")


def _explain(result: Any) -> None:
    if "Default process group has not been initialized" in str(result.error_in_exec):
        print(
            "This ran in the notebook's own process, which is no rank. Hand over the function itself: "
            "ml.launch(experiment, ranks=4), not experiment() and not ml.launch(experiment(), ranks=4)."
        )
