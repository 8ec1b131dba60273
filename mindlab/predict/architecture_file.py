"""Reads the YAML file of a shipped model: fields of `Architecture`, and what others publish about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.errors import MindlabError
from mindlab.predict.architectures import Architecture, Dit, Experts, Latent, Published

_PARTS = {"experts": Experts, "latent": Latent, "dit": Dit}


def read(path: Path) -> Architecture:
    """The Architecture in a file. Raises MindlabError that names file and field."""
    fields = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    for name, form in _PARTS.items():
        if name in fields:
            fields[name] = made(form, fields[name], f"{path.name}, {name}")
    fields["published"] = tuple(
        Published(one["what"], float(one["value"]), one["source"], str(one["date"]))
        for one in fields.get("published", ())
    )
    built: Architecture = made(Architecture, {"name": path.stem, **fields}, path.name)
    return built


def made(form: type[Any], fields: dict[str, Any], where: str) -> Any:
    """An instance of a dataclass from its fields, lists as tuples. Raises MindlabError for others."""
    known = {field.name: field for field in dataclasses.fields(form)}
    strange = sorted(set(fields) - set(known))
    missing = [
        name for name, one in known.items() if one.default is dataclasses.MISSING and name not in fields
    ]
    if strange or missing:
        what = f"unknown field {strange[0]!r}" if strange else f"the field {missing[0]!r} is missing"
        raise MindlabError(f"{where}: {what}; known: {', '.join(known)}")
    return form(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )
