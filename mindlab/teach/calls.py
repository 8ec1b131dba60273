"""Which recorded calls a name stands for: a collective has several forms."""

from __future__ import annotations

_FAMILIES = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")


def is_named(op: str, name: str) -> bool:
    """Whether the call `op` is the one called `name`, or another form of that collective.

    >>> is_named("all_gather_into_tensor", "all_gather"), is_named("reduce_scatter_tensor", "reduce")
    (True, False)
    """
    kin = name in _FAMILIES and op.startswith(f"{name}_") and not op.endswith("_object")
    return op == name or kin
