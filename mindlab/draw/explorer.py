"""Explore a picture: sliders in JupyterLab, its presets side by side in print.

The presets are drawn when the explorer is made, so a page, a file and a bulk run show them without a kernel.
In a notebook with a kernel the same object brings its controls along (`mindlab.draw.live`).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mindlab import notebook
from mindlab.draw import labels, sliders
from mindlab.draw.multiples import Tile, multiples
from mindlab.draw.shown import Shown, shown

_SVG = "image/svg+xml"
_WIDGET = "application/vnd.jupyter.widget-view+json"


class Explorer:
    """The presets of a function that draws. As the last line of a cell it shows sliders, or the presets."""

    def __init__(
        self,
        fn: Callable[..., Any],
        presets: Mapping[str, Mapping[str, Any]],
        ranges: Mapping[str, sliders.Slider],
        language: str = "en",
    ) -> None:
        self.fn, self.sliders, self.language = fn, dict(ranges), language
        self.presets = {name: {key: values[key] for key in ranges} for name, values in presets.items()}
        self.title = _title(fn)
        self.pictures = {name: self.draw(values) for name, values in self.presets.items()}

    def draw(self, values: Mapping[str, Any]) -> Shown:
        """The picture of these values: calls the function, now."""
        return shown(self.fn(**values))

    @property
    def alt(self) -> str:
        """All presets in words."""
        said = [f"{self._heading(name)}: {self.pictures[name].alt}".rstrip(": ") for name in self.presets]
        return ". ".join(text.rstrip(".") for text in [self.title, *said] if text) + "."

    @property
    def line(self) -> str:
        """What the sliders are, in one line."""
        listed = "; ".join(f"{name} {one}" for name, one in self.sliders.items())
        return labels.say("explore_line", self.language, sliders=listed)

    def svg(self) -> str:
        """The presets as one SVG."""
        tiles = [
            Tile(self.pictures[name].svg, name, sliders.setting(self.presets[name])) for name in self.presets
        ]
        return multiples(tiles, self.title, self.line, self.alt)

    def text(self) -> str:
        """The presets in words, one a line."""
        said = [f"{self._heading(name)}: {self.pictures[name].alt}".rstrip(": ") for name in self.presets]
        return "\n".join([self.title, *said, self.line])

    def save(self, path: str | Path) -> Path:
        """The path, after the presets went there as a picture (.svg) or in words (.txt)."""
        path = Path(path)
        made = {".svg": self.svg, ".txt": self.text}
        if path.suffix not in made:
            raise ValueError(f"suffix {path.suffix!r}: choose one of {', '.join(made)}")
        path.write_text(made[path.suffix](), encoding="utf-8")
        return path

    def _heading(self, name: str) -> str:
        return f"{name} ({sliders.setting(self.presets[name])})"

    @functools.cached_property
    def _panel(self) -> Any:
        from mindlab.draw.live import Panel

        return Panel(self)

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data: dict[str, Any] = {_SVG: self.svg(), "text/plain": self.text()}
        if _is_live():
            data[_WIDGET] = {"version_major": 2, "version_minor": 0, "model_id": self._panel.model_id}
        return data, {_SVG: {"alt": self.alt}}

    def __repr__(self) -> str:
        return f"Explorer({self.title!r}, {len(self.presets)} presets)"


def explore(fn: Callable[..., Any], presets: Mapping[str, Mapping[str, Any]], /, **ranges: Any) -> Explorer:
    """The Explorer of `fn(**values)`, which draws and returns a picture. It may launch ranks.

    Each keyword is a slider: (low, high) or (low, high, step), a list of choices, or a bool for a switch.
    `presets` maps a name to a value for every slider. In JupyterLab the sliders redraw the picture, beginning
    with the first preset; pages, PDF and bulk runs show all presets side by side.
    The title is the first line of `fn`'s docstring, else its name.
    Raises ValueError for a preset with an unknown slider, without a value, or with one that its slider lacks;
    whatever `fn` raises at a preset; TypeError where it returns no picture.

        >>> def ring(ranks):
        ...     return ml.draw.moves([[(r, (r + 1) % ranks) for r in range(ranks)]])
        >>> ml.explore(ring, {"small": {"ranks": 3}, "larger": {"ranks": 6}}, ranks=(2, 8))
        Explorer('ring', 2 presets)
    """
    made = {name: sliders.slider(name, given) for name, given in ranges.items()}
    if not made:
        raise ValueError("no slider: give one by keyword, such as ranks=(2, 8)")
    if not presets:
        raise ValueError(f"no preset: print shows presets, so give one, such as {{'usual': {_some(made)}}}")
    if found := sliders.faults(presets, made):
        raise ValueError("\n".join(found))
    return Explorer(fn, presets, made, labels.choose())


def _some(made: Mapping[str, sliders.Slider]) -> dict[str, Any]:
    """A value for each slider."""
    first: dict[type, Callable[[Any], Any]] = {
        sliders.Range: lambda one: one.low,
        sliders.Choice: lambda one: one.options[0],
        sliders.Switch: lambda one: False,
    }
    return {name: first[type(one)](one) for name, one in made.items()}


def _title(fn: Callable[..., Any]) -> str:
    """The first line of its docstring, else its name; "" for a lambda."""
    described = inspect.getdoc(fn) if inspect.isroutine(fn) else ""
    name = getattr(fn, "__name__", "")
    first = (described or "").strip().split("\n")[0].rstrip(".")
    return first or ("" if name == "<lambda>" else name.replace("_", " "))


def _is_live() -> bool:
    """Whether somebody can move a slider: a notebook's kernel with ipywidgets, and no bulk run."""
    if os.environ.get("MINDLAB_BULK") or not notebook.is_kernel():
        return False
    return importlib.util.find_spec("ipywidgets") is not None
