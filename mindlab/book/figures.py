"""`mindlab figures`: run figures/NAME.py and keep figures/NAME.svg beside it.

A script has `draw(language="en") -> Figure` and `ALT`, its alt text by language: {"en": ..., "zh": ...}.
English goes to NAME.svg, Chinese to NAME.zh.svg. `MEASURED = True` says that its numbers differ from run to
run; then only the words are compared.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

from mindlab.book.report import write_text
from mindlab.draw.picture import svg
from mindlab.errors import MindlabError, UnknownName

SUFFIXES = {"en": ".svg", "zh": ".zh.svg"}
_NUMBER = re.compile(r"[-+−]?\d[\d.,]*(?:e[-+]?\d+)?")


def refresh(folder: Path, names: Sequence[str] = (), *, check: bool = False) -> tuple[list[Path], list[str]]:
    """The SVGs written and the findings. With `check` nothing is written and what differs is a finding.

    Raises UnknownName for a figure that has no script, MindlabError for a script that breaks the contract.
    """
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    for name in names:
        if name not in scripts:
            raise UnknownName("figure", name, scripts)
    written: list[Path] = []
    found: list[str] = []
    for name in names or scripts:
        measured, drawn = _drawn(scripts[name])
        for path, text in drawn.items():
            if _is_current(path, text, measured):
                continue
            if check:
                found.append(
                    f"figures/{path.name}: {'stale' if path.exists() else 'missing'}; mindlab figures"
                )
                continue
            write_text(path, text)
            written.append(path)
    if check and not names:
        found += [f"figures/{path.name}: no script draws it" for path in _orphans(folder, scripts)]
    return written, found


def _drawn(script: Path) -> tuple[bool, dict[Path, str]]:
    """Whether the figure shows measured numbers, and its SVGs by path."""
    module = _load(script)
    alt = getattr(module, "ALT", None)
    if not isinstance(alt, dict) or not alt.get("en") or set(alt) - set(SUFFIXES):
        raise MindlabError(f"{script.name}: ALT is the alt text by language, {{'en': '…'}} (and 'zh')")
    if not callable(getattr(module, "draw", None)):
        raise MindlabError(f"{script.name}: define draw(language='en'), which returns a matplotlib Figure")
    drawn = {}
    for language, text in alt.items():
        path = script.with_name(script.stem + SUFFIXES[language])
        drawn[path] = svg(module.draw(language), text).rstrip("\n") + "\n"
    return bool(getattr(module, "MEASURED", False)), drawn


def _load(script: Path) -> ModuleType:
    module = ModuleType(f"figures.{script.stem}")
    module.__file__ = str(script)
    sys.modules[module.__name__] = module  # what it defines can then be pickled and sent to ranks
    try:
        # Not by an import: its byte code would be taken for current within a second of an edit.
        exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]
    return module


def _is_current(path: Path, text: str, measured: bool) -> bool:
    if not path.exists():
        return False
    before = path.read_text(encoding="utf-8")
    return before.strip() == text.strip() or (measured and _structure(before) == _structure(text))


def _structure(text: str) -> Counter[str]:
    """What stays when measured numbers change: the words, each with its numbers masked."""
    words = (_NUMBER.sub("#", word) for word in _texts(ET.fromstring(text)))
    return Counter(dict.fromkeys(word for word in words if word.strip("# ")))


def _texts(element: ET.Element) -> Iterator[str]:
    for node in element.iter():
        if node.tag.endswith(("}text", "}tspan", "}desc", "}title")) and (node.text or "").strip():
            yield (node.text or "").strip()


def _orphans(folder: Path, scripts: dict[str, Path]) -> list[Path]:
    return [path for path in sorted(folder.glob("*.svg")) if path.name.split(".")[0] not in scripts]
