"""The fields of a model's config, asked for by name, so that a missing or odd one is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindlab.errors import MindlabError


class Config:
    """What a config.json says; `where` names it in errors."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self.fields, self.where = fields, where

    def whole(self, name: str, *, default: int | None = None, least: int = 1) -> int:
        """A whole number from `least` on. A field that is null is not there."""
        value = self.fields.get(name)
        if value is None:
            if default is None:
                raise MindlabError(f"{self.where}: the field {name!r} is missing")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise MindlabError(f"{self.where}, {name}: {value!r} is no whole number from {least} on")
        return value

    def times(self, name: str, base: int, *, default: int) -> int:
        """`base` times a ratio such as 4.0, which has to come out whole."""
        ratio = self.fields.get(name)
        ratio = default if ratio is None else ratio
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio < float("inf"):
            raise MindlabError(f"{self.where}, {name}: {ratio!r} is no number above 0")
        if base * ratio != int(base * ratio):
            raise MindlabError(f"{self.where}, {name}: {ratio!r} times {base} is not whole")
        return int(base * ratio)

    def has(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.fields.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise MindlabError(f"{self.where}, {name}: {value!r} is neither true nor false")
        return value

    def triple(self, name: str, default: tuple[int, int, int]) -> tuple[int, int, int]:
        """Three whole numbers, of frames, rows and columns."""
        value = self.fields.get(name)
        value = list(default) if value is None else value
        right = isinstance(value, (list, tuple)) and len(value) == 3
        if not right or not all(type(part) is int and part > 0 for part in value):
            raise MindlabError(f"{self.where}, {name}: {value!r} is no list of three whole numbers from 1 on")
        return value[0], value[1], value[2]

    def only(self, name: str, values: tuple[Any, ...], why: str) -> None:
        """Raises MindlabError where the field is there and none of `values`: what would be counted wrong."""
        value = self.fields.get(name)
        if value is not None and value not in values:
            known = " or ".join(repr(one) for one in values) or "null"
            raise MindlabError(f"{self.where}, {name}: {value!r} is not covered, only {known}: {why}")
