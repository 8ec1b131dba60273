"""In a real kernel: a picture as the last line of a cell shows once, with its alt text, and nothing else."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

HERE = str(Path(__file__).parent)
CELLS = [
    f"import sys; sys.path.insert(0, {HERE!r})\nimport draw_runs as made\nimport mindlab as ml",
    "ml.draw.traffic(made.ring_run(4))",
    "ml.play(made.ring_run(4))",
    "ax = ml.draw.moves(made.ring_run(3))",
    "ax.plot([0, 1], [0, 1])\nax",
    "import matplotlib.pyplot as plt\nml.draw.timeline(made.ring_run(3), language='zh')",
    "fig, mine = plt.subplots()\nml.draw.curve([(8, 1e-5), (9, 2e-5)], ax=mine);",
    "def ring(p):\n    return ml.draw.traffic(made.ring_run(p))\n"
    "ml.explore(ring, {'three': {'p': 3}, 'six': {'p': 6}}, p=(2, 8))",
    "import os\nos.environ['MINDLAB_BULK'] = '1'\nml.explore(ring, {'three': {'p': 3}}, p=(2, 8))",
]


@pytest.fixture(scope="module")
def outputs() -> list[list[dict]]:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(book, timeout=60, kernel_name="python3").execute()
    return [cell.outputs for cell in book.cells]


def test_a_picture_shows_exactly_once_as_svg_with_alt(outputs: list[list[dict]]) -> None:
    """Would catch a second copy from the inline backend, the repr of the axes, and a picture without alt."""
    (shown,) = outputs[1]
    assert shown["output_type"] == "execute_result"
    assert set(shown["data"]) == {"image/svg+xml", "text/plain"}
    assert shown["data"]["image/svg+xml"].startswith("<svg")
    assert "rank 0 sent 1.5 MiB to 1" in shown["metadata"]["image/svg+xml"]["alt"]


def test_the_player_shows_once_in_three_forms(outputs: list[list[dict]]) -> None:
    """Would catch a player that shows as its repr."""
    (shown,) = outputs[2]
    assert set(shown["data"]) == {"text/html", "image/svg+xml", "text/plain"}
    assert "Step 1 of 6" in shown["metadata"]["image/svg+xml"]["alt"]


def test_a_picture_kept_in_a_name_does_not_show(outputs: list[list[dict]]) -> None:
    """Would catch a figure that pyplot shows at the end of the cell all the same."""
    assert outputs[3] == []
    (shown,) = outputs[4]
    assert "image/svg+xml" in shown["data"]


def test_nothing_is_printed_beside_a_picture(outputs: list[list[dict]]) -> None:
    """Would catch glyph or font warnings written into the notebook, also with pyplot in use."""
    assert [one["output_type"] for one in outputs[5]] == ["execute_result"]


def test_own_axes_are_shown_by_pyplot_once(outputs: list[list[dict]]) -> None:
    """Would catch a function that closes or replaces the person's own figure."""
    assert [one["output_type"] for one in outputs[6]] == ["display_data"]


def test_the_explorer_shows_once_as_widget_and_as_picture(outputs: list[list[dict]]) -> None:
    """Would catch a widget without a picture, which every page shows as a dead one."""
    (shown,) = outputs[7]
    assert set(shown["data"]) == {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/plain"}
    assert "three (p = 3): " in shown["metadata"]["image/svg+xml"]["alt"]


def test_a_bulk_run_makes_no_widget(outputs: list[list[dict]]) -> None:
    """Would catch a widget that costs a bulk run time and leaves its state in the notebook."""
    (shown,) = outputs[8]
    assert set(shown["data"]) == {"image/svg+xml", "text/plain"}
