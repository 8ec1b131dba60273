"""The explorer without a browser: what it refuses, what it shows without a kernel, what its controls do."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import draw_runs as made
import matplotlib
import pytest

import mindlab as ml
from mindlab.draw import shown
from mindlab.draw.explorer import Explorer
from mindlab.draw.live import Panel

WIDGET = "application/vnd.jupyter.widget-view+json"
PRESETS = {"small": {"ranks": 3, "how": "ring"}, "large": {"ranks": 8, "how": "ring"}}


def rounds(ranks: int, how: str = "ring") -> object:
    """Messages of one round.

    Not a part of the title.
    """
    if how == "none":
        raise ValueError("no <such> pattern")
    step = 1 if how == "ring" else 2
    return ml.draw.moves([[(r, (r + step) % ranks, 1024) for r in range(ranks)]])


def explorer() -> Explorer:
    return ml.explore(rounds, PRESETS, ranks=(2, 8), how=["ring", "skip", "none"])


def panel() -> Panel:
    return Panel(explorer())


@pytest.mark.parametrize(
    ("presets", "more", "said"),
    [
        ({"a": {"rank": 3}}, {"ranks": (2, 8)}, "no slider 'rank'; the sliders are ranks"),
        ({"a": {}}, {"ranks": (2, 8)}, r"no value for 'ranks' \(2 … 8\)"),
        ({"a": {"ranks": 9}}, {"ranks": (2, 8)}, "ranks=9: it goes from 2 to 8"),
        ({"a": {"ranks": 3.0}}, {"ranks": (2, 8)}, "it takes a whole number"),
        ({"a": {"ranks": True}}, {"ranks": (0, 8)}, "it takes a whole number"),
        ({"a": {"ranks": 5}}, {"ranks": (2, 8, 2)}, "steps of 2 from 2; near are 4, 6"),
        ({"a": {"x": 0.55}}, {"x": (0.0, 1.0, 0.1)}, "near are 0.5, 0.6"),
        ({"a": {"how": "star"}}, {"how": ["ring", "skip"]}, "choose one of 'ring', 'skip'"),
        ({"a": {"how": 1}}, {"how": [True, 2]}, "choose one of True, 2"),
        ({"a": {"causal": 1}}, {"causal": False}, "it takes True or False"),
        ({"a": {"ranks": 3}}, {"ranks": (8, 2)}, "low < high"),
        ({"a": {"ranks": 3}}, {"ranks": []}, "a list of choices"),
        ({"a": {"ranks": 3}}, {"ranks": 3}, "a list of choices"),
        ({}, {"ranks": (2, 8)}, "no preset.*'ranks': 2"),
        ({"a": {}}, {}, "no slider: give one by keyword"),
    ],
)
def test_wrong_sliders_and_presets_are_refused(presets: dict, more: dict, said: str) -> None:
    """Would catch a misspelt slider or a value out of range that is drawn as if it were right."""
    with pytest.raises(ValueError, match=said):
        ml.explore(rounds, presets, **more)


def test_every_fault_is_named_at_once() -> None:
    """Would catch a person who must run the cell again for each of several mistakes."""
    with pytest.raises(ValueError) as refused:
        ml.explore(rounds, {"a": {"ranks": 9}, "b": {"rank": 2}}, ranks=(2, 8))
    assert len(str(refused.value).splitlines()) == 3


def test_a_float_slider_has_about_a_hundred_steps_and_takes_its_ends() -> None:
    """Would catch ends that the steps miss by rounding."""
    one = ml.explore(lambda x: rounds(3), {"a": {"x": 0.1}, "b": {"x": 0.7}}, x=(0.1, 0.7)).sliders["x"]
    assert 30 <= (one.high - one.low) / one.step <= 110
    assert one.fault(0.1) == one.fault(0.7) == ""


def test_print_shows_every_preset_with_its_values_and_its_alt_text() -> None:
    """Would catch a page that shows one frozen state, or a picture that nobody describes."""
    one = explorer()
    data, more = one._repr_mimebundle_()
    tree = ElementTree.fromstring(data["image/svg+xml"])
    words = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"small", "large", "ranks = 3, how = ring", "ranks = 8, how = ring"} <= set(words)
    assert "Messages of one round" in words and "Not a part" not in " ".join(filter(None, words))
    alt = more["image/svg+xml"]["alt"]
    assert "small (ranks = 3, how = ring): Who sends to whom on 3 ranks" in alt and "on 8 ranks" in alt
    assert tree.get("aria-label") == alt
    assert "ranks 2 … 8; how ring | skip | none" in data["text/plain"]


def test_without_a_kernel_there_is_no_widget() -> None:
    """Would catch a widget in a bulk run, a script or a test: on every page it would be dead."""
    data, _ = explorer()._repr_mimebundle_()
    assert set(data) == {"image/svg+xml", "text/plain"}


def test_small_pictures_stand_side_by_side_and_wide_ones_below_each_other() -> None:
    """Would catch pictures shrunk until nobody can read them, or that overlap."""
    for wide, across in ((330, 2), (220, 3), (797, 1)):
        text = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="100"/>'
        svg = ml.explore(lambda n, text=text: _Own(text), {k: {"n": 1} for k in "abc"}, n=(1, 2)).svg()
        places = {float(x) for x in re.findall(r'<svg x="([\d.]+)"', svg)}
        sizes = {float(x) for x in re.findall(r'<svg x="[\d.]+" y="[\d.]+" width="([\d.]+)"', svg)}
        assert len(places) == across and min(sizes) >= 0.8 * wide


class _Own:
    """An object with an SVG of its own, as graphviz's are."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return f'<?xml version="1.0"?>\n<!-- made by hand -->\n{self.svg}'


def test_whatever_draws_is_taken() -> None:
    """Would catch a player, a plain Axes, a Figure or a foreign SVG that is refused or loses its size."""
    figure = matplotlib.figure.Figure(figsize=(3, 2))
    axes = figure.add_subplot()
    own = _Own('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20" aria-label="a &amp; b"/>')
    for value in (rounds(3), ml.play(made.ring_run(3)), axes, figure, own):
        found = shown.shown(value)
        assert found.svg.startswith("<svg") and min(shown.size(found.svg)) > 10
        ElementTree.fromstring(found.svg)
    assert found == (own.svg, "a & b") and shown.size(found.svg) == (30, 20)


def test_what_draws_nothing_is_refused_by_name() -> None:
    """Would catch a forgotten return that shows as an empty box."""
    with pytest.raises(TypeError, match="returned nothing; it must return a picture"):
        ml.explore(lambda n: None, {"a": {"n": 1}}, n=(1, 2))
    with pytest.raises(TypeError, match=r"a Run.*ml\.draw\.traffic"):
        ml.explore(lambda n: made.ring_run(3), {"a": {"n": 1}}, n=(1, 2))


def test_a_pyplot_figure_is_not_shown_a_second_time() -> None:
    """Would catch a figure that the inline backend shows again at the cell's end."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    ml.explore(lambda n: pyplot.subplots()[1], {"a": {"n": 1}}, n=(1, 2))
    assert pyplot.get_fignums() == before


def test_a_preset_that_fails_fails_the_cell() -> None:
    """Would catch an error that hides in a picture, so that a bulk run calls the chapter whole."""
    with pytest.raises(ValueError, match="no <such> pattern"):
        ml.explore(rounds, {"a": {"ranks": 3, "how": "none"}}, ranks=(2, 8), how=["none"])


def test_it_saves_its_presets(tmp_path: Path) -> None:
    """Would catch another picture in the file than in the notebook, and a suffix that is ignored."""
    one = explorer()
    assert one.save(tmp_path / "a.svg").read_text(encoding="utf-8") == one.svg()
    assert one.save(tmp_path / "a.txt").read_text(encoding="utf-8") == one.text()
    with pytest.raises(ValueError, match=r"\.svg, \.txt"):
        one.save(tmp_path / "a.gif")


def test_a_change_redraws_once_and_a_preset_moves_all_controls() -> None:
    """Would catch a redraw for each control that a preset moves: a launch each."""
    one, calls = panel(), []
    draw = one._explorer.draw
    one._explorer.draw = lambda values: calls.append(dict(values)) or draw(values)  # type: ignore[method-assign]
    assert one._presets.value == "small" and "ranks = 3" in one._caption.value
    before = one._picture.value
    one._controls["ranks"].value = 5
    assert calls == [{"ranks": 5, "how": "ring"}] and one._picture.value != before
    assert one._presets.value is None and "ranks = 5" in one._caption.value
    one._controls["how"].value = "skip"
    one._presets.value = "large"
    assert calls[2:] == [{"ranks": 8, "how": "ring"}] and one._controls["ranks"].value == 8


def test_an_error_stands_in_the_pictures_place_and_the_next_change_draws_again() -> None:
    """Would catch a widget that dies of the first error, and markup taken from a message."""
    one = panel()
    one._controls["how"].value = "none"
    assert "ValueError: no &lt;such&gt; pattern" in one._picture.value and "<svg" not in one._picture.value
    one._controls["how"].value = "ring"
    assert "<svg" in one._picture.value and "ValueError" not in one._picture.value


def test_interrupt_ends_the_drawing_and_not_the_panel() -> None:
    """Would catch an interrupt that leaves "drawing" standing, or values that are never drawn again."""
    one = panel()
    draw = one._explorer.draw

    def interrupted(values: dict) -> object:
        raise KeyboardInterrupt

    one._explorer.draw = interrupted  # type: ignore[method-assign, assignment]
    one._controls["ranks"].value = 5
    assert "Interrupted" in one._picture.value and "drawing" not in one._caption.value
    one._explorer.draw = draw  # type: ignore[method-assign]
    one._redraw()
    assert "<svg" in one._picture.value


def test_changes_from_another_thread_are_drawn_once_in_the_main_one() -> None:
    """Would catch a launch for every pixel of a drag, or beside the cell that is running."""
    drawn: list[tuple[int, bool]] = []

    async def kernel() -> None:
        one = panel()
        draw = one._explorer.draw

        def noted(values: dict) -> object:
            drawn.append((values["ranks"], threading.current_thread() is threading.main_thread()))
            return draw(values)

        one._explorer.draw = noted  # type: ignore[method-assign, assignment]
        mover = threading.Thread(
            target=lambda: [setattr(one._controls["ranks"], "value", n) for n in (4, 5, 6)]
        )
        mover.start()
        mover.join(10)  # the "cell" that runs meanwhile
        assert drawn == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert drawn == [(6, True)] and "ranks = 6" in one._caption.value
        one._presets.value = "large"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert drawn[1:] == [(8, True)]

    asyncio.run(kernel())


def test_every_control_bears_its_name_and_is_one_that_keys_move() -> None:
    """Would catch a control without a label, and a list: JupyterLab takes the arrow keys from it."""
    kinds = {"n": (1, 2), "x": (0.0, 1.0), "flag": False, "few": ["a", "b"], "many": list("abcdefgh")}
    preset = {"n": 1, "x": 0.5, "flag": True, "few": "b", "many": "h"}
    one = Panel(ml.explore(lambda **values: rounds(3), {"a": preset}, **kinds))
    assert one.values == preset
    names = {name: type(control).__name__ for name, control in one._controls.items()}
    assert names == {
        "n": "IntSlider",
        "x": "FloatSlider",
        "flag": "Checkbox",
        "few": "ToggleButtons",
        "many": "SelectionSlider",
    }
    rows = one._box.children[1:-2]
    labels = [getattr(row, "description", "") or row.children[0].value for row in rows]
    assert labels == ["presets", "n", "x", "flag", "few", "many"]


def test_importing_it_needs_no_widgets() -> None:
    """Would catch ipywidgets, or the notebook's shell, as a need of a script that only saves a picture."""
    code = (
        "import sys; sys.modules['ipywidgets'] = None\nimport mindlab as ml\n"
        "ml.explore(lambda n: ml.draw.moves([[(0, n)]]), {'a': {'n': 1}}, n=(1, 2))._repr_mimebundle_()"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
