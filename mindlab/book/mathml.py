"""TeX to MathML, so that pages need no script and no network for their mathematics."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert

_IN_OUTPUT = re.compile(r'<span class="math">\s*\$(?P<tex>[^$]+)\$\s*</span>')
# What the converter does not know, or sets in italics, in words that it does know.
_SPELLINGS = (
    (re.compile(r"\\mathrm\{([A-Za-z0-9 ]+)\}"), r"\\text{\1}"),
    (re.compile(r"\\(begin|end)\{aligned\}"), r"\\\1{split}"),
    (re.compile(r"\\(begin|end)\{gathered\}"), r"\\\1{matrix}"),
    (re.compile(r"\{,\}"), r"\\text{,}"),
)
_CHILDREN = {
    "mfrac": 2,
    "msub": 2,
    "msup": 2,
    "msubsup": 3,
    "munder": 2,
    "mover": 2,
    "munderover": 3,
    "mroot": 2,
}


def mathml(tex: str, *, block: bool = False) -> str:
    """The formula as MathML; raises ValueError naming a formula that cannot be set."""
    spelt = tex.strip()
    for pattern, other in _SPELLINGS:
        spelt = pattern.sub(other, spelt)
    try:
        made = str(convert(spelt, display="block" if block else "inline"))
        fault = _fault(ET.fromstring(made))
    except Exception as error:  # noqa: BLE001 - the converter raises many kinds, all meaning the same
        fault = type(error).__name__
    if fault:
        raise ValueError(f"cannot set the formula {tex.strip()!r}: {fault}")
    return made


def set_output(text: str, set_tex: Callable[[str], str]) -> str:
    """An HTML output whose formulas, `<span class="math">$…$</span>`, are set by `set_tex`."""
    return _IN_OUTPUT.sub(lambda match: set_tex(html.unescape(match["tex"])), text)


def _fault(root: ET.Element) -> str:
    """What the converter let pass: an unknown command as text, a fraction without its lower half."""
    for node in root.iter():
        name = node.tag.rpartition("}")[2]
        if re.fullmatch(r"\\[A-Za-z]+", (node.text or "").strip()):
            return f"unknown command {(node.text or '').strip()}"
        if name in _CHILDREN and len(node) != _CHILDREN[name]:
            return f"{name} with {len(node)} parts"
    return ""
