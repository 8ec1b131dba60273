"""The Chinese letters that ship with the package: enough of them, small, named as they must be."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import draw_runs as made
import pytest
from fontTools.ttLib import TTFont

from mindlab import draw
from mindlab.draw import cjk, cjk_subset, labels, style


@pytest.fixture
def bare_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host on which no Chinese font is installed; a missing glyph is an error."""
    monkeypatch.setattr(cjk, "_INSTALLED", ())
    cjk.families.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    cjk.families.cache_clear()


def embedded(svg: str) -> set[str]:
    """The characters of the fonts that an SVG brings along."""
    found: set[str] = set()
    for data in re.findall(r"src:url\(data:font/ttf;base64,([^)]*)\)", svg):
        found |= set(map(chr, TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap()))
    return found


def test_the_font_has_every_letter_of_labels_glossary_and_vocabulary() -> None:
    """Would catch a new label, term or figure with a character that a bare host shows as a box."""
    assert cjk_subset.missing() == ""
    said = "".join(chinese for _, chinese in labels._SAY.values())
    assert set(cjk.letters(said)) <= set(cjk_subset.wanted())


def test_a_missing_letter_is_told() -> None:
    """Would catch a check that cannot fail."""
    assert cjk_subset.missing(characters="全龘") == "龘"
    assert cjk_subset.main(["--check"]) == 0


def test_the_font_is_small_and_says_whose_it_is() -> None:
    """Would catch a whole font in the package, a name that is another project's, a lost licence."""
    assert cjk.FONT.stat().st_size <= 150_000
    names = {record.nameID: str(record) for record in TTFont(cjk.FONT)["name"].names}
    assert names[1] == names[4] == cjk.FAMILY
    assert "Qianqian Fang" in names[0] and "Apache License" in names[13]
    beside = Path(cjk.FONT).with_suffix(".LICENSE.txt").read_text(encoding="utf-8")
    assert "Changed:" in beside and "Apache License, Version 2.0" in beside


@pytest.mark.usefixtures("bare_host")
@pytest.mark.parametrize("name", ["shards", "moves", "traffic", "timeline", "curve"])
def test_chinese_is_drawn_with_the_shipped_font_alone(name: str) -> None:
    """Would catch a picture that looks right only where somebody installed a font."""
    assert cjk.families() == (cjk.FAMILY,) and labels.choose("zh") == "zh"
    run = made.ring_run(4)
    given = {"shards": ([["a"], ["b"]],), "curve": ([(64, 1e-4), (4096, 2e-4)],)}.get(name, (run,))
    ax = getattr(draw, name)(*given, language="zh", title="环形全归约")
    svg = ax._repr_mimebundle_()[0]["image/svg+xml"]
    words = re.sub(r"<style.*?</style>|<desc>.*?</desc>|<title>.*?</title>|<[^>]*>", "", svg, flags=re.DOTALL)
    assert set("环形全归约") <= set(words) and set(cjk.letters(words)) <= embedded(svg)


@pytest.mark.usefixtures("bare_host")
def test_the_player_brings_its_letters_once() -> None:
    """Would catch a font in each of forty frames, or none at all."""
    player = draw.play(made.ring_run(4), language="zh", title="环形全归约")
    for text in (player.html(), player.svg()):
        assert text.count("@font-face") == 1 and set("环形全归约") <= embedded(text)


def test_the_shipped_letters_come_first_in_a_browser() -> None:
    """Would catch a stack where they come later: Chromium then shows boxes for the first word."""
    assert style.FONT_STACK.startswith(f"'{cjk.FAMILY}'")
    assert "unicode-range:U+2E80" in cjk.face("全")


def test_english_brings_no_font() -> None:
    """Would catch pictures that grow by a font that they do not need."""
    assert (
        "@font-face" not in draw.play(made.ring_run(4), title="ring").html()
        and cjk.face("ring α + β·n") == ""
    )


def test_the_same_letters_give_the_same_bytes() -> None:
    """Would catch a date inside the font: every build would change every Chinese figure."""
    before = cjk.face("全归约")
    cjk._face.cache_clear()
    assert cjk.face("约归全") == before
