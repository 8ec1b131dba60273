"""The live form of an explorer: its controls, and the picture that they redraw. Needs ipywidgets.

JupyterLab may hand the messages of widgets to a thread of their own, beside a running cell. There Interrupt
does not reach, and a launch would meet that of the cell. So a change only asks for a drawing; the kernel's
main thread makes it between two cells, with the values of then: many quick changes give one drawing.
"""

from __future__ import annotations

import asyncio
import html
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ipywidgets  # type: ignore[import-untyped,unused-ignore]

from mindlab.draw import labels, sliders, style

if TYPE_CHECKING:
    from mindlab.draw.explorer import Explorer

_BUTTONS = 6  # more choices than these are a slider
_FRAME = (
    f"width:fit-content;max-width:100%;box-sizing:border-box;background:{style.PAPER};color:{style.INK};"
    "padding:.5em;border-radius:6px;line-height:1.45;overflow-x:auto"
)
_ERROR = f"{_FRAME};border:1px solid {style.GRID};border-left:5px solid #d6402f;white-space:pre-wrap"


class Panel:
    """The controls and the picture of one explorer."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._loop = _running_loop()
        self._due = False
        self._silent_in = 0  # the thread whose own changes of the controls are no wish of the person
        first = next(iter(explorer.presets))
        wide = f"{max(map(len, [*explorer.sliders, self._say('presets')])) + 2}ch"
        self._controls = {
            name: _control(name, one, explorer.presets[first][name], wide)
            for name, one in explorer.sliders.items()
        }
        self._presets = _buttons([(name, name) for name in explorer.presets], None, self._say("presets"))
        self._caption, self._picture = ipywidgets.HTML(), ipywidgets.HTML()
        self._show(explorer.presets[first], _paper(explorer.pictures[first].svg))
        self._drawn: dict[str, Any] | None = self.values
        for control in self._controls.values():
            control.observe(self._changed, "value")
        self._presets.observe(self._chosen, "value")
        title = ipywidgets.HTML(f"<strong>{html.escape(explorer.title)}</strong>")
        rows = [(self._say("presets"), self._presets), *self._controls.items()]
        shown = [_row(name, control, wide) for name, control in rows]
        self._box = ipywidgets.VBox([title, *shown, self._caption, self._picture])

    @property
    def model_id(self) -> str:
        """What a page finds the controls by."""
        return str(self._box.model_id)

    @property
    def values(self) -> dict[str, Any]:
        """What the controls say now."""
        return {name: control.value for name, control in self._controls.items()}

    def _say(self, key: str, **more: object) -> str:
        return labels.say(key, self._explorer.language, **more)

    def _changed(self, change: Any) -> None:
        if not self._due and self._silent_in != threading.get_ident():
            self._due = self._loop is not None
            self._between_cells(self._redraw)

    def _chosen(self, change: Any) -> None:
        if change.new is not None and self._silent_in != threading.get_ident():
            self._between_cells(lambda: self._take(change.new))

    def _between_cells(self, action: Callable[[], None]) -> None:
        if self._loop is None:
            action()
        else:
            self._loop.call_soon_threadsafe(action)

    def _take(self, preset: str) -> None:
        """A preset was chosen: all controls move, and one picture is drawn."""
        with self._silence():
            for name, value in self._explorer.presets[preset].items():
                self._controls[name].value = value
        self._redraw()

    def _redraw(self) -> None:
        self._due = False  # before the values are read: a change from now on asks again
        values = self.values
        if values == self._drawn:
            return
        self._drawn = values
        self._say_which(values, self._say("drawing"))
        try:
            with _interruptible():
                made = _paper(self._explorer.draw(values).svg)
        except KeyboardInterrupt:
            self._drawn = None
            made = _failed(self._say("interrupted"))
        except Exception as error:  # noqa: BLE001 - whatever the person's function raises is shown in its place
            self._drawn = None
            made = _failed(f"{type(error).__name__}: {error}")
        self._show(values, made)

    def _show(self, values: Mapping[str, Any], made: str) -> None:
        same = [name for name, preset in self._explorer.presets.items() if preset == values]
        with self._silence():
            self._presets.value = same[0] if same else None
        self._picture.value = made
        self._say_which(values)

    def _say_which(self, values: Mapping[str, Any], more: str = "") -> None:
        said = html.escape(f"{sliders.setting(values)}{more}")
        self._caption.value = f'<div role="status">{said}</div>'

    @contextmanager
    def _silence(self) -> Iterator[None]:
        before, self._silent_in = self._silent_in, threading.get_ident()
        try:
            yield
        finally:
            self._silent_in = before


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop between whose callbacks a kernel runs its cells; None outside of a kernel."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@contextmanager
def _interruptible() -> Iterator[None]:
    """A block that the first interrupt ends; the kernel hears none between two cells.

    Further ones are dropped: raised outside of the block, one would end the kernel.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    open_to = [True]

    def arrive(number: int, frame: object) -> None:
        if open_to:
            open_to.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, arrive)
    try:
        yield
    finally:
        open_to.clear()
        signal.signal(signal.SIGINT, before)


def _control(name: str, one: sliders.Slider, value: Any, wide: str) -> Any:
    """The control of one slider: a slider, buttons or a tick box."""
    look = {"description": name, "value": value, "style": {"description_width": wide}}
    if isinstance(one, sliders.Switch):
        return ipywidgets.Checkbox(**look)
    shape = ipywidgets.Layout(width="34em", max_width="100%")
    if isinstance(one, sliders.Choice):
        options = [(sliders.number(option), option) for option in one.options]
        if len(options) > _BUTTONS:
            return ipywidgets.SelectionSlider(options=options, layout=shape, **look)
        return _buttons(options, value, name)
    kind: Callable[..., Any] = ipywidgets.IntSlider if one.whole else ipywidgets.FloatSlider
    plain = "d" if one.whole else ".6g"
    return kind(min=one.low, max=one.high, step=one.step, readout_format=plain, layout=shape, **look)


def _buttons(options: list[tuple[str, Any]], value: Any, name: str) -> Any:
    """One button for each option, the present one pressed. Not a list: Lab takes the arrow keys from it."""
    look = {"button_width": f"{max(len(said) for said, _ in options) + 4}ch"}
    tips = [f"{name}: {said}" for said, _ in options]
    return ipywidgets.ToggleButtons(options=options, value=value, tooltips=tips, style=look)


def _row(name: str, control: Any, wide: str) -> Any:
    """A control with its name before it: buttons bring none that stands in line with the others."""
    if not isinstance(control, ipywidgets.ToggleButtons):
        return control
    shape = ipywidgets.Layout(width=wide, flex="0 0 auto", justify_content="flex-end", margin="2px 4px 0 2px")
    return ipywidgets.HBox([ipywidgets.Label(name, layout=shape), control])


def _paper(svg: str) -> str:
    """The picture on white paper, also in a dark theme, and never wider than the page."""
    fitting = svg.replace("<svg ", '<svg style="max-width:100%;height:auto;display:block" ', 1)
    return f'<div class="ml-explore" style="{_FRAME}">{fitting}</div>'


def _failed(said: str) -> str:
    """A message in the place of the picture."""
    return f'<div class="ml-explore" role="alert" style="{_ERROR}">{html.escape(said)}</div>'
