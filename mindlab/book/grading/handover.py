"""Takes a learner's functions out of the kernel. The text of this file runs there, so it needs no mindlab:
a learner may have put anything in the place of a module.
"""

from __future__ import annotations

import ast
import base64
import inspect
import io
import json
import linecache
import os
import sys
import textwrap
import types
from typing import Any

import cloudpickle  # type: ignore[import-untyped,unused-ignore]

LARGEST = 50_000_000
"""Bytes of a pickled function: a larger one drags a notebook's tensors along."""


def hand_over(scope: dict[str, Any], names: list[str], target: str) -> None:
    """Writes {name: what it is} as JSON to `target`, for those names that `scope` holds."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(os.getcwd() + os.sep):
            cloudpickle.register_pickle_by_value(module)  # a learner's own file, which only lies here
    found = {name: _described(name, scope[name]) for name in names if name in scope}
    with open(target + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(target + ".part", target)


def _described(name: str, value: Any) -> dict[str, Any]:
    if value is ...:
        return {"kind": "blank"}
    if not callable(value):
        return {"kind": "value", "shown": f"{type(value).__name__} {value!r:.60}"}
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except Exception:  # noqa: BLE001 - a learner's object may raise anything
        source = ""
    if _is_stub(source):
        return {"kind": "blank"}
    try:
        pickled, files = _pickled(value)
    except Exception as error:  # noqa: BLE001 - whatever pickling raises
        return {"kind": "stuck", "why": f"{type(error).__name__}: {error}"[:300]}
    if len(pickled) > LARGEST:
        why = f"it takes {len(pickled) / 1e6:,.0f} MB along; at most {LARGEST / 1e6:.0f}"
        return {"kind": "stuck", "why": why}
    return {
        "kind": "function",
        "name": str(getattr(value, "__name__", name)),
        "pickle": base64.b64encode(pickled).decode(),
        "files": files,
        "source": source[:100_000],
        "parameters": _parameters(value),
    }


def _is_stub(source: str) -> bool:
    """Whether a function holds nothing but its docstring and `...`, `pass` or `return ...`."""
    try:
        (function,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(function, ast.FunctionDef):
        return False
    rest = function.body[1:] if ast.get_docstring(function) is not None else function.body
    values = [getattr(line, "value", None) for line in rest if isinstance(line, (ast.Expr, ast.Return))]
    left = [value for value in values if not (isinstance(value, ast.Constant) and value.value is ...)]
    return not left and len(values) + sum(isinstance(line, ast.Pass) for line in rest) == len(rest)


def _pickled(value: Any) -> tuple[bytes, dict[str, str]]:
    """The pickle, and the text of each cell that its code comes from, by the name that stands in it."""
    files: dict[str, str] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc,unused-ignore]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.CodeType):
                make, parts = self.dispatch_table[types.CodeType](obj)
                name = f"<ipython-input-{base64.b32encode(obj.co_filename.encode()).decode()}>"
                files.setdefault(name, "".join(linecache.getlines(obj.co_filename))[:200_000])
                old = (obj.co_filename, "<dynamic-code>")
                return make, tuple(name if part in old else part for part in parts)
            return super().reducer_override(obj)

    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(value)
    return stream.getvalue(), files


def _parameters(value: Any) -> list[tuple[str, int, bool]] | None:
    """(name, kind, whether it has a default) of each parameter; None where they are unknown."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(one.name, int(one.kind), one.default is not one.empty) for one in found]
