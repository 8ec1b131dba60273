"""Reads a topology's YAML file: every field checked, every mistake told with its line.

    name: mine
    title: {en: "two cards, one cable"}
    cards: 2
    card:
      name: a card
      rate: {value: 100e12, unit: FLOP/s, source: "measured here", date: 2026-01-31}
    levels:
      - {name: cable, domain: desk, shape: mesh, size: 2,
         bandwidth: {value: 10e9, unit: B/s, source: "data sheet", date: 2026-01-31},
         alpha: {value: 5e-6, unit: s, source: "guess", date: 2026-01-31, assumed: true}}

A level may have `by_size`, what messages of these bytes reach, between them on the log of the size:

       by_size: {unit: B/s, source: "timed here", date: 2026-01-31,
                 rows: [{bytes: 1024, value: 1e9}, {bytes: 1048576, value: 8e9}]}

A number is a mapping with value (or `unknown`), unit, source and date. Facts of the card may be left out.
Instead of cards and card, `inside: atlas-a2` and `copies: 2` put another topology inside the levels given.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from mindlab.errors import MindlabError
from mindlab.planning.topologies import SHAPES, Card, Fact, Level, Topology, names, topology

_TOP = ("name", "title", "cards", "card", "levels")
_NESTED = ("name", "title", "inside", "copies", "levels")
_CARD = {"peak": "FLOP/s", "rate": "FLOP/s", "memory": "B", "memory_rate": "B/s"}
_LEVEL = ("name", "domain", "shape", "size", "bandwidth", "alpha")
_FACT = ("value", "unit", "source", "date", "assumed")
_TABLE = ("unit", "source", "date", "rows")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read(path: Path) -> Topology:
    """The Topology in a file. Raises MindlabError that names file, line and field; FileNotFoundError."""
    text = path.read_text(encoding="utf-8")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or error
        raise MindlabError(f"{path.name}{where}: this is no YAML: {why}") from None
    if root is None:
        raise MindlabError(f"{path.name}: the file is empty; it needs {', '.join(_TOP)}")
    return _File(path).topology(root)


class _File:
    """One file while it is read; nodes know their lines."""

    def __init__(self, path: Path) -> None:
        self.name, self.folder = path.name, path.parent

    def topology(self, node: Any) -> Topology:
        nested = isinstance(node, yaml.MappingNode) and any(key.value == "inside" for key, _ in node.value)
        fields = self.mapping(node, "the file", _NESTED if nested else _TOP)
        name, title = self.text(fields["name"], "name"), self.title(fields["title"])
        if not nested:
            cards = self.whole(fields["cards"], "cards")
            levels = self.levels(fields["levels"], cards, ())
            return Topology(name, title, cards, self.card(fields["card"]), levels)
        inner = self.inside(fields["inside"])
        cards = inner.cards * self.whole(fields["copies"], "copies")
        return Topology(name, title, cards, inner.card, self.levels(fields["levels"], cards, inner.levels))

    def inside(self, node: Any) -> Topology:
        """The topology inside this one: a shipped one, or a file beside this one."""
        name = self.text(node, "inside")
        if name.endswith((".yaml", ".yml")):
            path = self.folder / name
            if path.name == self.name or not path.is_file():
                self.refuse(node, "inside", f"{name!r} is no other file in {self.folder}")
            return read(path)
        if name not in names():
            self.refuse(node, "inside", f"{name!r} is none of {', '.join(names())}, and no .yaml file")
        return topology(name)

    def title(self, node: Any) -> tuple[str, str]:
        """The titles in English and Chinese; the English one twice where there is no other."""
        fields = self.mapping(node, "title", ("en",), ("zh",))
        english = self.text(fields["en"], "title.en")
        return english, self.text(fields["zh"], "title.zh") if "zh" in fields else english

    def card(self, node: Any) -> Card:
        fields = self.mapping(node, "card", ("name",), tuple(_CARD))
        facts = {key: self.fact(fields.get(key), f"card.{key}", unit) for key, unit in _CARD.items()}
        return Card(self.text(fields["name"], "card.name"), **facts)

    def levels(self, node: Any, cards: int, inner: tuple[Level, ...]) -> tuple[Level, ...]:
        """The levels, those inside included: each a multiple of the one before, the last as large as all."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.refuse(node, "levels", "give a list of at least one level, the innermost first")
        found = list(inner)
        for number, one in enumerate(node.value):
            level = self.level(one, f"levels[{number}]")
            within = found[-1].size if found else 1
            if level.size % within or (level.size <= within and found):
                why = f"{level.size} is no multiple of {within}, the size inside"
                self.refuse(one, f"levels[{number}].size", why)
            if level.shape == "trunk" and not (found and found[-1].shape == "switch"):
                why = "a trunk needs a level of shape switch just inside it"
                self.refuse(one, f"levels[{number}].shape", why)
            found.append(level)
        if found[-1].size != cards:
            self.refuse(node, "levels", f"the outermost size is {found[-1].size}, but cards is {cards}")
        return tuple(found)

    def level(self, node: Any, where: str) -> Level:
        fields = self.mapping(node, where, _LEVEL, ("by_size",))
        shape = self.text(fields["shape"], f"{where}.shape")
        if shape not in SHAPES:
            self.refuse(fields["shape"], f"{where}.shape", f"{shape!r} is none of {', '.join(SHAPES)}")
        return Level(
            self.text(fields["name"], f"{where}.name"),
            self.text(fields["domain"], f"{where}.domain"),
            shape,
            self.whole(fields["size"], f"{where}.size"),
            self.fact(fields["bandwidth"], f"{where}.bandwidth", "B/s"),
            self.fact(fields["alpha"], f"{where}.alpha", "s", least=0.0),
            *(self.table(fields["by_size"], f"{where}.by_size") if "by_size" in fields else ()),
        )

    def table(self, node: Any, where: str) -> tuple[tuple[tuple[float, float], ...], str, str]:
        """Rows of (bytes, B/s), the sizes going up; where they are from; and when."""
        fields = self.mapping(node, where, _TABLE)
        source, date = self.origin(fields, where, "B/s")
        return self.rows(fields["rows"], f"{where}.rows"), source, date

    def rows(self, node: Any, where: str) -> tuple[tuple[float, float], ...]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.refuse(node, where, "give a list of {bytes, value}, the smallest size first")
        rows: list[tuple[float, float]] = []
        for number, row in enumerate(node.value):
            here = f"{where}[{number}]"
            fields = self.mapping(row, here, ("bytes", "value"))
            size, rate = (self.known(fields[key], f"{here}.{key}") for key in ("bytes", "value"))
            if rows and size <= rows[-1][0]:
                self.refuse(row, f"{here}.bytes", f"{size:g} does not come after {rows[-1][0]:g}")
            rows.append((size, rate))
        return tuple(rows)

    def fact(self, node: Any, where: str, unit: str, least: float | None = None) -> Fact:
        """A number with its source; unknown where the field is not there."""
        if node is None:
            return Fact(None, unit, "not given")
        fields = self.mapping(node, where, ("value", "unit", "source", "date"), ("assumed",))
        source, date = self.origin(fields, where, unit)
        assumed = self.text(fields["assumed"], f"{where}.assumed") if "assumed" in fields else "false"
        if assumed not in ("true", "false"):
            self.refuse(fields["assumed"], f"{where}.assumed", f"{assumed!r}: write true or false")
        value = self.number(fields["value"], f"{where}.value", least)
        return Fact(value, unit, source, date, assumed == "true")

    def origin(self, fields: dict[str, Any], where: str, unit: str) -> tuple[str, str]:
        """Source and date, after a look at the unit."""
        given = self.text(fields["unit"], f"{where}.unit")
        if given != unit:
            self.refuse(fields["unit"], f"{where}.unit", f"{given!r}: give the number in {unit}")
        date = self.text(fields["date"], f"{where}.date")
        if not _DATE.fullmatch(date):
            self.refuse(fields["date"], f"{where}.date", f"{date!r}: write it as 2026-01-31")
        return self.text(fields["source"], f"{where}.source"), date

    def number(self, node: Any, where: str, least: float | None) -> float | None:
        text = self.text(node, where)
        if text == "unknown":
            return None
        try:
            value = float(text)
        except ValueError:
            self.refuse(node, where, f"{text!r} is no number; write such as 28e9, or unknown")
        if not math.isfinite(value) or value < 0 or (value == 0 and least is None):
            start = "above 0" if least is None else "from 0 on"
            self.refuse(node, where, f"{text}: give a finite number {start}")
        return value

    def known(self, node: Any, where: str) -> float:
        value = self.number(node, where, None)
        if value is None:
            self.refuse(node, where, "a table has no unknown numbers: leave the row out")
        return float(value or 0.0)

    def whole(self, node: Any, where: str) -> int:
        text = self.text(node, where)
        if not text.isdecimal() or not text.isascii() or int(text) < 1:
            self.refuse(node, where, f"{text!r}: give a whole number from 1 on")
        return int(text)

    def text(self, node: Any, where: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            self.refuse(node, where, "give one word, text or number")
        return str(node.value)

    def mapping(
        self, node: Any, where: str, needed: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The fields of a mapping, which must be there, once, and known."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, where, f"give a mapping with {', '.join(needed)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in (*needed, *optional):
                self.refuse(key, where, f"unknown field {name!r}; known: {', '.join((*needed, *optional))}")
            if name in found:
                self.refuse(key, where, f"the field {name!r} stands here twice")
            found[name] = value
        for name in needed:
            if name not in found:
                self.refuse(node, where, f"the field {name!r} is missing")
        return found

    def refuse(self, node: Any, where: str, why: str) -> Any:
        raise MindlabError(f"{self.name}, line {node.start_mark.line + 1}, {where}: {why}")
