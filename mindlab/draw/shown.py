"""The picture in whatever a function returned, as SVG with its alt text."""

from __future__ import annotations

import html
import re
import sys
from typing import Any, NamedTuple

_SVG = "image/svg+xml"
_OPENING = re.compile(r"<svg\b[^>]*>")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "in": 96.0, "mm": 96 / 25.4, "cm": 96 / 2.54}


class Shown(NamedTuple):
    """An SVG, from its `<svg` on, and what it shows in words."""

    svg: str
    alt: str


def shown(value: Any) -> Shown:
    """The Shown of a picture of ml.draw, a player, an Axes, a Figure, or an object with an SVG of its own.

    Raises TypeError for anything else.
    """
    bundle = getattr(value, "_repr_mimebundle_", None)
    if bundle is not None and (made := _of_bundle(bundle())):
        return made
    if (figure := _figure(value)) is not None:
        from mindlab.draw import picture

        alt = picture.alt_of(figure)
        _close(figure)
        return Shown(picture.svg(figure, alt), alt)
    own = getattr(value, "_repr_svg_", None)
    if own is not None and (text := own()):
        return Shown(_bare(text), _alt(text))
    kind = type(value).__name__
    hint = ": ml.draw.traffic(run) is one" if kind == "Run" else ""
    raise TypeError(
        f"the function returned {_a(kind)}; it must return a picture (of ml.draw, an Axes, a Figure){hint}"
    )


def size(svg: str) -> tuple[float, float]:
    """Width and height of an SVG in CSS pixels."""
    opening = _opening(svg)
    told = [_length(opening, name) for name in ("width", "height")]
    if all(told):
        return told[0], told[1]
    box = re.search(r"viewBox=[\"']\s*[-\d.]+[\s,]+[-\d.]+[\s,]+([\d.]+)[\s,]+([\d.]+)", opening)
    if box is None:
        raise ValueError(f"an SVG without a size: {opening[:80]}")
    return float(box[1]), float(box[2])


def placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """The SVG as a part of another one, in this box."""
    opening = _opening(svg)
    wide, tall = (_length(opening, name) for name in ("width", "height"))
    kept = re.sub(r"\s(?:x|y|width|height|xmlns)=(?:\"[^\"]*\"|'[^']*')", "", opening)
    seen = "" if "viewBox" in opening else f' viewBox="0 0 {wide:g} {tall:g}"'
    box = f'<svg x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{seen}'
    return svg.replace(opening, kept.replace("<svg", box, 1), 1)


def _of_bundle(answer: Any) -> Shown | None:
    """From a MIME bundle: data, or (data, metadata)."""
    data, more = answer if isinstance(answer, tuple) else (answer, {})
    if not data or _SVG not in data:
        return None
    said = more.get(_SVG, {}).get("alt") if isinstance(more.get(_SVG), dict) else None
    return Shown(_bare(data[_SVG]), said or _alt(data[_SVG]))


def _figure(value: Any) -> Any:
    """The matplotlib figure of an Axes, or the Figure itself; None for anything else."""
    if "matplotlib" not in sys.modules:
        return None
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mindlab.draw.picture import figure_of

    if isinstance(value, Axes):
        return figure_of(value)
    return value if isinstance(value, Figure) else None


def _close(figure: Any) -> None:
    """Keeps the notebook from showing a pyplot figure a second time, at the cell's end."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)


def _bare(text: str) -> str:
    """Without XML header and comments."""
    return text[_start(text) :]


def _start(text: str) -> int:
    opening = _OPENING.search(text)
    if opening is None:
        raise ValueError(f"not an SVG: {text[:80]!r}")
    return opening.start()


def _opening(svg: str) -> str:
    found = _OPENING.search(svg)
    assert found is not None, "an SVG that passed _bare has its tag"
    return found[0]


def _length(opening: str, name: str) -> float:
    """A length of the opening tag in pixels; 0.0 where it is not given, or in percent."""
    told = re.search(rf"\s{name}=[\"']([\d.]+)([a-z]*)[\"']", opening)
    return float(told[1]) * _PIXELS.get(told[2], 1.0) if told else 0.0


def _alt(svg: str) -> str:
    told = re.search(r"aria-label=\"([^\"]+)\"", _opening(svg))
    return html.unescape(told[1]) if told else ""


def _a(kind: str) -> str:
    return "nothing" if kind == "NoneType" else f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"
