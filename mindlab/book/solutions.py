"""Solution regions: what the solutions edition shows and what the exercise edition leaves.

A region stands between `# BEGIN SOLUTION` and `# END SOLUTION`, on lines of their own. Open, it becomes

1. its `# STUB: …` lines, if it has any;
2. else `name = ...` for each name that it assigns, `return ...` if it returns,
   and for each function or class its head with `...` or `return ...` inside;
3. `...` if nothing is left.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable

BEGIN, END, STUB = "# BEGIN SOLUTION", "# END SOLUTION", "# STUB:"
MARK = "  # your code"

_Rewrite = Callable[[list[str]], list[str]]


class RegionError(ValueError):
    """A region that does not close, or that is not Python."""


def has_region(code: str) -> bool:
    """True if the code holds a solution region (or a loose end of one)."""
    return any(line.strip() in (BEGIN, END) for line in code.splitlines())


def solved(code: str) -> str:
    """The code with its solutions, without the markers."""
    return _rewrite(code, lambda region: [line for line in region if not line.strip().startswith(STUB)])


def opened(code: str) -> str:
    """The code with a stub in the place of each solution."""
    return _rewrite(code, _stub)


def _rewrite(code: str, rewrite: _Rewrite) -> str:
    lines: list[str] = []
    region: list[str] | None = None
    for line in code.splitlines():
        mark = line.strip()
        if mark == BEGIN and region is None:
            region = []
        elif mark == END and region is not None:
            lines += rewrite(region)
            region = None
        elif mark in (BEGIN, END):
            raise RegionError(f"{mark} without its counterpart")
        else:
            (lines if region is None else region).append(line)
    if region is not None:
        raise RegionError(f"{BEGIN} without {END}")
    return "\n".join(lines)


def _stub(region: list[str]) -> list[str]:
    indent = re.match(r"\s*", next((line for line in region if line.strip()), ""))
    pad = indent.group() if indent else ""
    said = [line for line in region if line.strip().startswith(STUB)]
    if said:
        return [_said(line, pad) for line in said]
    try:
        tree = ast.parse(textwrap.dedent("\n".join(region)))
    except SyntaxError:
        tree = _returning(region)
    left = _leave(tree.body) or ["..."]
    return [f"{pad}{line}" for line in _marked(left)]


def _said(line: str, pad: str) -> str:
    """The text of one `# STUB:` line; what is indented behind the marker stays indented."""
    text = line.strip()[len(STUB) :]
    return (pad + text.removeprefix(" ")).rstrip()


def _returning(region: list[str]) -> ast.Module:
    """The tree of a region that holds a bare `return`: parsed as the body of a function."""
    body = textwrap.indent(textwrap.dedent("\n".join(region)), "    ")
    try:
        function = ast.parse(f"def region():\n{body}").body[0]
    except SyntaxError as error:
        raise RegionError(f"the region is not Python: {error.msg}") from None
    assert isinstance(function, ast.FunctionDef)
    return ast.Module(body=function.body, type_ignores=[])


def _leave(body: list[ast.stmt]) -> list[str]:
    """The lines that stand for these statements in the exercise edition."""
    if any(isinstance(node, ast.Return) for statement in body for node in _own(statement)):
        return ["return ..."]
    lines: list[str] = []
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            lines += _head(statement)
        else:
            lines += [f"{name} = ..." for name in _assigned(statement) if f"{name} = ..." not in lines]
    return lines


def _own(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement, without those inside functions and classes that it defines."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        found.append(node)
        stack += ast.iter_child_nodes(node)
    return found


def _assigned(statement: ast.stmt) -> list[str]:
    """The names that an assignment gives a value, in their order; other statements give none."""
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    else:
        return []
    names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    stored = [node for node in names if isinstance(node.ctx, ast.Store)]
    return [node.id for node in sorted(stored, key=lambda node: (node.lineno, node.col_offset))]


def _head(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    """A function's (or class's) head and docstring with an open body."""
    docstring = statement.body[:1] if ast.get_docstring(statement, clean=False) is not None else []
    stub: ast.stmt = ast.Expr(ast.Constant(...))
    if not isinstance(statement, ast.ClassDef):
        stub = ast.Return(ast.Constant(...))
    statement.body = [*docstring, stub]
    return ast.unparse(ast.fix_missing_locations(statement)).splitlines()


def _marked(lines: list[str]) -> list[str]:
    """Each open place says that the reader's code goes there."""
    open_ends = ("= ...", "return ...", "...")
    return [line + MARK if line.rstrip().endswith(open_ends) else line for line in lines]
