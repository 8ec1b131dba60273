"""The SVG of a picture: well-formed, named, self-contained, the same bytes every time."""

import xml.etree.ElementTree as ElementTree

import draw_runs as made
import pytest

from mindlab import draw
from mindlab.planning.schedules import schedule

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {
    "shards": lambda: draw.shards([["a<b", "&"], ["c", 'd"']]),
    "moves": lambda: draw.moves(made.ring_run(3)),
    "traffic": lambda: draw.traffic(made.ring_run(4)),
    "timeline": lambda: draw.timeline(made.ring_run(3)),
    "curve": lambda: draw.curve([(8, 1e-5), (8192, 2e-5)], (1e-5, 1e-9)),
    "matmul": lambda: draw.matmul(*made.cut_product(3)),
    "pair": lambda: draw.pair(*made.paired(3)),
    "ring": lambda: draw.ring(made.pass_run(3), circles=True),
    "mask": lambda: draw.mask({"a&b": [[0, 3], [1, 2]]}),
    "stages": lambda: draw.stages(made.handed_over(3)),
    "held": lambda: draw.held({"<one>": [{"weights": 4096}], "two": [{"weights": 2048}] * 2}),
    "error": lambda: draw.error([[1.0, 2.0]], [[1.0, 1.5]]),
    "images": lambda: draw.images({"a<b": [[[0.5, 1.0]]], "c": [[[0.0, -1.0]]]}, columns=["&"], title="One"),
    "layout": lambda: draw.layout(*made.exchanged(3)),
    "pipeline": lambda: draw.pipeline(schedule([1, 2], 2), title="a<b", modelled=True),
}


@pytest.fixture(params=DRAWN)
def svg(request: pytest.FixtureRequest) -> str:
    bundle, metadata = DRAWN[request.param]()._repr_mimebundle_()
    assert metadata["image/svg+xml"]["alt"] == bundle["text/plain"]
    return bundle["image/svg+xml"]


def test_it_is_well_formed_and_carries_its_alt_text(svg: str) -> None:
    """Would catch an unescaped text, or a picture that a screen reader calls "image"."""
    root = ElementTree.fromstring(svg)
    alt = root.get("aria-label")
    assert root.get("role") == "img" and alt and len(alt) > 40
    assert root[0].tag == f"{SVG}title" and root[1].tag == f"{SVG}desc" and root[1].text == alt


def test_text_stays_text(svg: str) -> None:
    """Would catch glyphs drawn as outlines: not searchable, not copyable."""
    root = ElementTree.fromstring(svg)
    assert len(root.findall(f".//{SVG}text")) > 3
    assert "sans-serif" in svg


def test_it_fetches_nothing_and_has_no_date(svg: str) -> None:
    """Would catch a link, or a time stamp that makes every build differ."""
    assert "<metadata" not in svg and "dc:date" not in svg and "<!DOCTYPE" not in svg
    addresses = svg.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    assert "http" not in addresses


def test_it_has_a_white_ground(svg: str) -> None:
    """Would catch dark text on a dark page."""
    assert "fill: #ffffff" in svg


def test_every_id_in_it_is_used(svg: str) -> None:
    """Would catch ids that collide with those of the next picture on the page."""
    root = ElementTree.fromstring(svg)
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert all(f"#{one}" in svg for one in ids)


@pytest.mark.parametrize("name", DRAWN)
def test_the_same_data_gives_the_same_bytes(name: str) -> None:
    """Would catch random ids: every build would change every picture."""
    first, second = (DRAWN[name]()._repr_mimebundle_()[0]["image/svg+xml"] for _ in range(2))
    assert first == second


def test_a_picture_is_saved_in_the_format_of_its_suffix(tmp_path) -> None:
    """Would catch an SVG saved without its alt text."""
    ax = draw.traffic(made.ring_run(2))
    assert "aria-label" in ax.save(tmp_path / "t.svg").read_text(encoding="utf-8")
    assert ax.save(tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
