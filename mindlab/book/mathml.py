"""TeX to MathML, so that pages need no script and no network for their mathematics."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from latex2mathml.converter import convert

_IN_OUTPUT = re.compile(r'<span class="math">\s*\$(?P<tex>[^$]+)\$\s*</span>')


def mathml(tex: str, *, block: bool = False) -> str:
    """The formula as MathML; raises ValueError naming a formula that cannot be converted."""
    try:
        made = convert(tex.strip(), display="block" if block else "inline")
    except Exception as error:  # the converter raises many kinds, all meaning the same
        raise ValueError(f"cannot set the formula {tex.strip()!r}: {type(error).__name__} {error}") from error
    return str(made)


def set_output(text: str, set_tex: Callable[[str], str]) -> str:
    """An HTML output whose formulas, `<span class="math">$…$</span>`, are set by `set_tex`."""
    return _IN_OUTPUT.sub(lambda match: set_tex(html.unescape(match["tex"])), text)
