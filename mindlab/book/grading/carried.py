"""A learner's function on its way to the ranks. The process that judges never loads it: only ranks do.

So nothing that the function's pickle or its cells do at loading can touch the check.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import linecache
import pickle
from collections.abc import Callable
from typing import Any


class Carried:
    """Stands for a function; becomes the function where it is unpickled, on a rank.

    It has its name and signature, so that a check can say what does not fit before anything runs.
    """

    def __init__(self, described: dict[str, Any]) -> None:
        self.__name__ = str(described["name"])
        self.code = hashlib.sha256(described["source"].encode()).hexdigest()[:12]
        """What the check graded: a hash of the function's text, equal for equal answers."""
        self._pickle = base64.b64decode(described["pickle"])
        signature = _signature(described["parameters"])
        if signature is not None:
            self.__signature__ = signature
        for name, text in described["files"].items():  # from here they travel to the ranks, for tracebacks
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Never called: it would run here."""
        raise AssertionError("a learner's function runs on ranks only")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return pickle.loads, (self._pickle,)


def _signature(parameters: list[tuple[str, int, bool]] | None) -> inspect.Signature | None:
    if parameters is None:
        return None
    kinds = {int(kind): kind for kind in inspect._ParameterKind}
    try:
        return inspect.Signature(
            [
                inspect.Parameter(name, kinds[kind], default=... if default else inspect.Parameter.empty)
                for name, kind, default in parameters
            ]
        )
    except (KeyError, TypeError, ValueError):
        return None
