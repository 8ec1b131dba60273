"""The player: one frame a step, nothing fetched, readable without JavaScript."""

import re

import draw_runs as made
import pytest
from bs4 import BeautifulSoup

from mindlab import draw
from mindlab.draw import captions
from mindlab.draw.rounds import in_rounds


@pytest.fixture
def soup() -> BeautifulSoup:
    return BeautifulSoup(draw.play(made.ring_run(4), title="ring <4>").html(), "html.parser")


def test_one_frame_a_step(soup: BeautifulSoup) -> None:
    """Would catch lost or doubled frames: a ring all-reduce at p = 4 has six steps."""
    assert len(soup.select("ol > li")) == len(soup.select("ol > li > svg")) == 6
    assert soup.select_one("input")["max"] == "5"


@pytest.mark.parametrize("run", [made.ring_run(3), made.all_to_all_run(16), made.reduction_run(4)])
def test_nothing_is_fetched(run) -> None:
    """Would catch a script, style or picture from a network address, which is dead offline."""
    player = draw.play(run)
    text = player.html() + player.svg()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"\b(src|href)\s*=|@import|url\(", text)


def test_every_frame_has_its_caption_in_the_open_and_as_alt_text(soup: BeautifulSoup) -> None:
    """Would catch captions that only a script shows, and pictures without a name."""
    for i, frame in enumerate(soup.select("ol > li")):
        caption = frame.p.text
        assert caption.startswith(f"Step {i + 1} of 6") and frame.svg["aria-label"] == caption
        assert frame.svg["role"] == "img"


def test_controls_are_hidden_until_the_script_runs(soup: BeautifulSoup) -> None:
    """Would catch dead buttons in a page without JavaScript, and frames hidden without it."""
    css = soup.style.text
    assert ".ml-play .bar,.ml-play output{display:none}" in css
    assert ".ml-play.on li{display:none}" in css and "@media print" in css
    assert soup.select_one("figure")["class"] == ["ml-play"]


def test_every_control_has_a_name_and_the_caption_is_announced(soup: BeautifulSoup) -> None:
    """Would catch a button that a screen reader calls "button"."""
    buttons = soup.select("button")
    assert len(buttons) == 3 and all(b.get("aria-label") or b.text.strip(" ▶") for b in buttons)
    assert soup.select_one("input")["aria-label"] and soup.output["aria-live"] == "polite"


def test_it_never_starts_by_itself(soup: BeautifulSoup) -> None:
    """Would catch an autoplay: the only interval is set in the play button's handler."""
    script = soup.script.text
    assert script.count("setInterval") == 1
    assert script.index("B[2].onclick") < script.index("setInterval") < script.index("addEventListener")
    assert "prefers-reduced-motion:no-preference" in soup.style.text


def test_equal_players_share_no_id() -> None:
    """Would catch two equal players on a page that steer each other: there is no id at all."""
    html = draw.play(made.ring_run(3)).html()
    assert " id=" not in html and "getElementById" not in html
    assert ":not(.on)" in html


def test_the_same_run_gives_the_same_bytes_and_another_run_another_key() -> None:
    """Would catch random ids, and a key that ignores the content."""
    first, second, other = (draw.play(made.ring_run(p)) for p in (3, 3, 4))
    assert first.html() == second.html() and first.svg() == second.svg()
    assert first.key != other.key


def test_what_has_moved_adds_up() -> None:
    """Would catch a meter that forgets earlier steps: 6 steps of 4 x 256 KiB."""
    player = draw.play(made.ring_run(4))
    assert player.frames[-1].caption.endswith("Counted so far: 6 MiB.")
    assert player.frames[-1].svg.count(">1.5 MiB<") == 4


def test_each_arrow_has_a_travelling_piece() -> None:
    """Would catch frames that show ranks but no data in motion."""
    for frame in draw.play(made.ring_run(4)).frames:
        assert frame.svg.count('class="mk"') == 4


def test_a_long_run_is_folded_to_forty_frames() -> None:
    """Would catch a page of hundreds of frames."""
    player = draw.play(made.reduction_run(2, calls=100))
    assert len(player.frames) == 40
    assert len(draw.play(made.ring_run(16)).frames) == 30


def test_the_film_strip_holds_first_and_last_step() -> None:
    """Would catch a strip that is cut at its end."""
    player = draw.play(made.ring_run(16))
    strip = BeautifulSoup(player.svg(), "html.parser")
    inner = [node["aria-label"] for node in strip.select("svg svg")]
    assert len(inner) == 12
    assert inner[0] == player.frames[0].caption and inner[-1] == player.frames[-1].caption
    assert "12 / 30" in player.svg()


def test_three_forms_travel_together() -> None:
    """Would catch an export without a picture (SVG) or without words (text)."""
    bundle, metadata = draw.play(made.ring_run(4))._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    assert "every rank sends 256 KiB to the next rank" in metadata["image/svg+xml"]["alt"]
    assert bundle["text/plain"].count("\n") == 7


def test_a_run_that_sends_nothing_says_so() -> None:
    """Would catch a crash, or an empty stepper with dead controls."""
    player = draw.play(made.run_of([], 3))
    assert [f.caption for f in player.frames] == ["no transfer was recorded"]
    assert "<script" not in player.html()


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (made.ring_run(4), "every rank sends 256 KiB to the next rank"),
        (made.ring_run(2), "rank 0 sends 512 KiB to rank 1, rank 1 sends 512 KiB to rank 0"),
        (made.all_to_all_run(4), "every rank sends between 4 KiB and 16 KiB to every other rank"),
        (made.reduction_run(3), "ranks 0, 1, 2 call all_reduce on 1 MiB each"),
        (made.broadcast_run(8), "rank 0 sends 4 KiB to every other rank"),
        (made.mesh_run(), "groups (0, 1) and (2, 3) call all_reduce on 64 B each"),
    ],
)
def test_a_round_in_words(run, said: str) -> None:
    """Would catch "next rank" at p = 2 (left and right are the same), and lists where a word would do."""
    assert captions.sentence(in_rounds(run.events)[0], run.ranks).startswith(said)


def test_saving(tmp_path) -> None:
    """Would catch a page without its character set, and a suffix that writes something else."""
    player = draw.play(made.ring_run(2))
    assert '<meta charset="utf-8">' in player.save(tmp_path / "p.html").read_text(encoding="utf-8")
    assert player.save(tmp_path / "p.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(ValueError, match=r"\.html, \.svg, \.txt"):
        player.save(tmp_path / "p.gif")
