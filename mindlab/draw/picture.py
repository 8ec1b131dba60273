"""An Axes that shows itself, once, as an SVG with its alt text.

Every drawing function returns one. It is a matplotlib Axes, so a person can go on drawing on it. Its figure
is made without pyplot: the notebook's inline backend does not know it and so does not show it a second time.
"""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mindlab.draw import cjk, style


class Picture(Axes):
    """An Axes with `alt`, the picture in words. As the last line of a cell it shows its whole figure."""

    alt: str = ""

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        figure = figure_of(self)
        alt = alt_of(figure)
        data = {"image/svg+xml": svg(figure, alt), "text/plain": alt}
        return data, {"image/svg+xml": {"alt": alt}}

    def save(self, path: str | Path) -> Path:
        """The path, after the picture was written there (.svg with its alt text, .png, .pdf)."""
        figure = figure_of(self)
        return save(figure, path, alt_of(figure))


def canvas(width: float = style.FULL_WIDTH, height: float = 4.0, cjk: str = "") -> Picture:
    """An empty Picture of `width` x `height` inches in a figure of its own, white on any page."""
    with style.look(cjk):
        figure = Figure(figsize=(width, height))
        ax = figure.add_subplot(axes_class=Picture)
    assert isinstance(ax, Picture)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The figure (never a subfigure) that an Axes is in."""
    inside = ax.figure
    assert inside is not None, "the axes were removed from their figure"
    return inside.figure  # a Figure's own `figure` is itself, a SubFigure's is the Figure around it


def describe(ax: Axes, text: str) -> None:
    """Give an Axes its alt text; one that already has a text (two pictures on one Axes) gets both."""
    before = getattr(ax, "alt", "")
    ax.alt = f"{before} {text}".strip()  # type: ignore[attr-defined]


def alt_of(figure: Figure) -> str:
    """The alt texts of all the axes of a figure, in order."""
    return " ".join(alt for alt in (getattr(ax, "alt", "") for ax in figure.axes) if alt)


def svg(figure: Figure, alt: str = "", title: str = "") -> str:
    """A figure as SVG text: same figure, same bytes. Text stays text; `alt` is its accessible name."""
    return _svg(figure, alt or alt_of(figure), title)


def save(figure: Figure, path: str | Path, alt: str = "") -> Path:
    """The path, after the figure was written there, in the format of its suffix."""
    path = Path(path)
    if path.suffix == ".svg":
        path.write_text(svg(figure, alt), encoding="utf-8")
    else:
        with style.look():
            figure.savefig(path, bbox_inches="tight", pad_inches=0.05, dpi=160)
    return path


_SHORT = re.compile(r"\d+\.\d{3,}")
"""A coordinate with more digits than anyone sees. Only tags are shortened: in words digits count."""


def _svg(figure: Figure, alt: str, title: str) -> str:
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with style.look():
        figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.05, metadata=nothing)
    return _tidy(buffer.getvalue(), alt, title)


def _tidy(text: str, alt: str, title: str) -> str:
    """Matplotlib's SVG without header, unused ids and needless digits; with a name and a stack of fonts."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = re.sub(r"<[^>]*>", lambda tag: _SHORT.sub(lambda m: f"{float(m[0]):.2f}", tag[0]), text)
    text = re.sub(r"(font: [^;\"]*?px )[^;\"]*", lambda m: m[1] + style.FONT_STACK, text)
    text = re.sub(r"(font-family: )[^;\"]*", lambda m: m[1] + style.FONT_STACK, text)
    name = html.escape(title or alt.split(". ")[0], quote=True)
    label = html.escape(alt, quote=True)
    inside = f"<title>{name}</title>\n <desc>{label}</desc>{_letters(text)}"
    return re.sub(
        r"<svg ([^>]*)>",
        rf'<svg role="img" aria-label="{_plain(label)}" \1>\n {_plain(inside)}',
        text,
        count=1,
    )


def _letters(text: str) -> str:
    """The Chinese letters of an SVG, for readers that have none."""
    rule = cjk.face(text)
    return f"\n <style>{rule}</style>" if rule else ""


def _plain(text: str) -> str:
    """Text for the right-hand side of re.sub, where a backslash would mean something."""
    return text.replace("\\", "\\\\")
