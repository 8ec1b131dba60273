"""What a person gives to launch: refused where it cannot be meant, packed for the way to the ranks."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from mindlab.errors import CannotTravel
from mindlab.ranks import payload

_MOST = 64  # ranks on one host: more is a misprint, not an experiment
_OWN = ("ranks", "backend", "timeout", "seed")


def refuse_numbers(ranks: Any, timeout: Any, seed: Any) -> None:
    """Raise for numbers that cannot be meant."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= _MOST:
        raise ValueError(f"ranks={ranks!r}: take a whole number from 1 to {_MOST}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout={timeout!r}: take a number of seconds greater than 0")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed={seed!r}: take a whole number from 0 to 2**63 - 1")


def refuse(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise for what is no function, or for arguments that it does not take."""
    if not callable(fn):
        raise TypeError(f"launch({fn!r}): the first argument is the function to run, not its result")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise TypeError(
            f"launch: {name}{signature} does not take these arguments: {error}. {_meant(signature, kwargs)}"
            f"launch itself knows {', '.join(_OWN)}."
        ) from None


def _meant(signature: inspect.Signature, kwargs: dict[str, Any]) -> str:
    """For each keyword that nobody knows, the known one that it looks like."""
    known = [*signature.parameters, *_OWN]
    pairs = [(name, difflib.get_close_matches(name, known, 1)) for name in kwargs if name not in known]
    return "".join(f"{name}: did you mean {close[0]}? " for name, close in pairs if close)


def packed_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> payload.Packed:
    """The call, ready to travel; raises CannotTravel with the name of the part that cannot."""
    try:
        return payload.pack((fn, args, kwargs))
    except Exception as error:  # TypeError, PicklingError, RecursionError …
        parts = [(getattr(fn, "__name__", "the function"), fn)]
        parts += [(f"argument {index}", value) for index, value in enumerate(args)] + list(kwargs.items())
        for name, part in parts:
            if not payload.travels(part):
                raise CannotTravel(
                    f"{payload.culprit(part, name)} cannot travel to the ranks: {error}. "
                    "Make it inside the function, or pass what it is made from."
                ) from None
        raise
