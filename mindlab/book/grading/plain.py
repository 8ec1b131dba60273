"""What a rank may send to the process that judges: data. A pickle that names anything else is refused.

A learner's function chooses what it returns, and an object may say by `__reduce__` what runs where it is
unpickled. Python tells of every name that a pickle looks up (audit event "pickle.find_class").
"""

from __future__ import annotations

import importlib
import pickle
import sys
from typing import Any

_NAMES = {
    "builtins": {
        "bool",
        "bytearray",
        "bytes",
        "complex",
        "dict",
        "float",
        "frozenset",
        "int",
        "list",
        "range",
    }
    | {"set", "slice", "str", "tuple", "Ellipsis", "NotImplemented"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "mindlab.ranks.parent": {"Exit"},
    "mindlab.ranks.payload": {"Packed", "_rebuild_tensor"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "torch": {"Size", "device"},
}
_CLASSES_OF = ("mindlab.ranks.job", "mindlab.trace.")
"""Modules of which every class may come: a rank's outcome and its record are made of them."""


class Refused(pickle.UnpicklingError):
    """A pickle that names more than data."""


def only_data() -> None:
    """From now on, and for as long as this process lives, no pickle is loaded that names more than data."""
    sys.addaudithook(_look)


def _look(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and not _is_data(*args):
        raise Refused(f"{args[0]}.{args[1]}")


def _is_data(module: str, name: str) -> bool:
    if name in _NAMES.get(module, ()):
        return True
    if "." in name:
        return False
    if module == "torch":
        torch = sys.modules["torch"]
        return isinstance(getattr(torch, name, None), torch.dtype)
    if module.startswith(_CLASSES_OF):
        found = getattr(importlib.import_module(module), name, None)
        return isinstance(found, type) and found.__module__ == module
    return False
