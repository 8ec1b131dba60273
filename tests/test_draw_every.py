"""What holds for every picture: it draws without a warning, in both languages, on given axes."""

import draw_runs as made
import matplotlib.pyplot as plt
import numpy as np
import pytest
from draw_marks import arrows, fills, no_warning, texts  # noqa: F401 - the fixture works by being here
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from mindlab import draw
from mindlab.draw import labels, matrix
from mindlab.draw.picture import Picture, canvas
from mindlab.planning.planner import plan
from mindlab.planning.schedules import schedule
from mindlab.predict.placement import holders

POINTS = [(2**k, 1e-4 + 2**k * 1e-9, 2e-4 + 2**k * 1e-9, 0.5e-4 + 2**k * 1e-9) for k in range(6, 25, 2)]

VIDEO = {"height": 720, "width": 1280, "frames": 81, "steps": 50}

CASES = {
    "pair": lambda run, **k: draw.pair(*made.paired(run.ranks), **k),
    "ring": lambda run, **k: draw.ring(made.pass_run(run.ranks), circles=run.ranks < 9, **k),
    "mask": lambda run, **k: draw.mask(np.array_split(np.arange(40), run.ranks), **k),
    "stages": lambda run, **k: draw.stages(made.handed_over(run.ranks), **k),
    "held": lambda run, **k: draw.held({"a": [{"weights": 4096, "KV": 512}] * run.ranks}, **k),
    "error": lambda run, **k: draw.error(np.zeros((run.ranks, 5)), np.ones((run.ranks, 5)), **k),
    "images": lambda run, **k: draw.images({"a": np.zeros((run.ranks, 3, 5)), "b": np.ones((1, 3, 5))}, **k),
    "seams": lambda run, **k: draw.seams(
        {"a": np.zeros((3, 2 * run.ranks, 9))},
        np.ones((3, 2 * run.ranks, 9)),
        lengths=([2] * run.ranks, [4, 5]),
        **k,
    ),
    "matmul": lambda run, **k: draw.matmul(*made.cut_product(run.ranks), **k),
    "layout": lambda run, **k: draw.layout(*made.exchanged(run.ranks), **k),
    "route": lambda run, **k: draw.route(
        [["a"]] * run.ranks, [[[0, 1]]] * run.ranks, holders(2, run.ranks), **k
    ),
    "choices": lambda run, **k: draw.choices(
        plan("wan2.1-14b", "hgx-a100", VIDEO, cards=min(run.ranks, 8)), **k
    ),
    "pipeline": lambda run, **k: draw.pipeline(schedule([1] * run.ranks, 3), **k),
    "shards": lambda run, **k: draw.shards([[f"x{r}"] for r in range(run.ranks)], **k),
    "moves": draw.moves,
    "mesh": lambda run, **k: draw.mesh({"ring": run.ranks // 2, "ulysses": 2}, **k),
    "traffic": draw.traffic,
    "timeline": draw.timeline,
    "curve": lambda run, **k: draw.curve(POINTS, (1e-4, 1e-9), **k),
    "curves": lambda run, **k: draw.curves({name: [p[:2] for p in POINTS] for name in "abc"}, **k),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ranks", [2, 16])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_picture_draws_small_and_large_in_both_languages(name: str, ranks: int, language: str) -> None:
    """Would catch a missing glyph, a label that has no translation, a layout that fails at p = 2 or 16."""
    ax = CASES[name](made.ring_run(ranks), language=language, title="ring")
    assert isinstance(ax, Picture) and len(ax.alt) > 40
    bundle, _ = ax._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize("name", CASES)
def test_every_picture_draws_on_given_axes(name: str) -> None:
    """Would catch a function that ignores `ax`, or a card that leaves it."""
    _, ax = plt.subplots()
    try:
        assert CASES[name](made.ring_run(4), ax=ax) is ax
        assert len(ax.patches) + len(ax.lines) > 3
    finally:
        plt.close("all")


@pytest.mark.parametrize("name", CASES)
def test_every_picture_says_where_its_numbers_come_from(name: str) -> None:
    """Would catch a picture without provenance."""
    said = " ".join(texts(CASES[name](made.ring_run(4))))
    assert "torch 2.13.0" in said or "nothing measured" in said or "timed" in said


@pytest.mark.parametrize("name", CASES)
def test_a_long_title_stays_on_the_picture(name: str) -> None:
    """Would catch a title that runs out of a narrow picture."""
    title = "What a chapter may want to say above it all"
    ax = CASES[name](made.ring_run(2), title=title)
    canvas_ = FigureCanvasAgg(ax.figure)
    drawn = [text for text in (*ax.texts, ax.title, ax._left_title) if text.get_text() == title]
    (box,) = [text.get_window_extent(canvas_.get_renderer()) for text in drawn]
    assert box.x1 <= ax.figure.bbox.x1 + 1


def test_an_experiment_without_any_transfer_still_draws() -> None:
    """Would catch a crash on an empty Run."""
    run = made.run_of([], 3)
    for name in ("moves", "traffic", "timeline"):
        assert CASES[name](run).alt


def test_an_unknown_language_is_refused() -> None:
    """Would catch a typo that silently draws English."""
    with pytest.raises(ValueError, match="choose en or zh"):
        draw.traffic(made.ring_run(2), language="fr")


def test_without_a_chinese_font_the_words_are_english(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch empty boxes on a fresh machine."""
    monkeypatch.setattr(labels, "cjk_font", lambda: "")
    assert labels.choose("zh") == "en"
    monkeypatch.setenv("MINDLAB_LANGUAGE", "zh")
    assert "on the wire (MiB)" in texts(draw.traffic(made.ring_run(2)))


def test_a_person_can_go_on_drawing() -> None:
    """Would catch a wrapper that is no Axes."""
    ax = canvas(3, 2)
    ax.plot([0, 1], [0, 1])
    assert isinstance(ax, Axes) and "<path" in ax._repr_mimebundle_()[0]["image/svg+xml"]


def test_chips_carry_the_rank_numbers() -> None:
    """Would catch a picture that relies on colour alone."""
    ax = draw.moves(made.ring_run(4), limit=1)
    assert {"0", "1", "2", "3"} <= set(texts(ax))
    assert sum(isinstance(p, FancyBboxPatch) for p in ax.patches) == 4


@pytest.mark.parametrize(
    ("nbytes", "unit", "said"),
    [(96, "B", "96"), (1536, "KiB", "1.5"), (1 << 20, "MiB", "1"), (1966080, "MiB", "1.875"), (0, "B", "0")],
)
def test_a_matrix_is_written_in_binary_units(nbytes: int, unit: str, said: str) -> None:
    """Would catch 1 MiB written as 1.05 (MB), and a unit so large that every cell is 0.00."""
    look = matrix._Look(0.5, 4, nbytes, "en")
    assert (look.unit[1], look.number(nbytes)) == (unit, said)


def test_no_function_is_hidden_by_its_module() -> None:
    """Would catch draw.images that is the module `mindlab.draw.images` as soon as somebody imports it."""
    assert not [name for name, home in draw._HOMES.items() if home.rpartition(".")[2] == name]
