"""%%ranks: run the lines of a cell on every rank, with names that live on until the pool ends."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from mindlab.ranks.cells import label
from mindlab.ranks.launcher import run_on_ranks

_names: dict[str, Any] = {}
"""In a rank: what the cells before left."""


@magics_class
class RanksMagics(Magics):  # type: ignore[misc]
    """Holds %%ranks."""

    @magic_arguments()
    @argument("ranks", nargs="?", type=int, default=4, help="how many ranks (4)")
    @argument("--backend", default=None, help="hccl, nccl or gloo (the host's best)")
    @argument("--timeout", type=float, default=60, help="seconds (60)")
    @argument("-i", "--input", default="", help="names of the notebook to hand to every rank: -i x,y")
    @argument("-o", "--output", default="", help="name in the notebook that gets the Run")
    @cell_magic("ranks")
    def ranks(self, line: str, cell: str) -> None:
        """Run this cell on every rank. torch, dist, rank and ranks are there; names stay between cells.

        The value of the last line is printed by each rank. Names are lost when the pool ends: after an
        error, or when another number of ranks is asked for.
        """
        options = parse_argstring(self.ranks, line)
        given = {}
        for name in filter(None, (name.strip() for name in options.input.split(","))):
            if name not in self.shell.user_ns:
                raise UsageError(f"-i {name}: the notebook has no such name")
            given[name] = self.shell.user_ns[name]
        file = self.shell.compile.cache(cell, self.shell.execution_count, raw_code=cell)
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
        if options.output:
            self.shell.user_ns[options.output] = run


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
    """Make %%ranks known to this IPython."""
    shell.register_magics(RanksMagics)
