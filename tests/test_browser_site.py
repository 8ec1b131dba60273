"""The exported site in a real browser, opened from the disk: pages, links, search, dark mode, the player."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import Window, needs_chromium, window

from mindlab.book import exporter, runner

pytestmark = needs_chromium
ROOT = Path(__file__).resolve().parents[1]
PICTURES = "90_pictures.html"
OTHERS = re.compile(r"\b(?!00_|90_)\d\d_[a-z]+")
"""A chapter that is not in this site: links to it lead nowhere, and the export says so."""

_STATE = """() => ({
  title: document.title,
  words: document.body.innerText.length,
  broken: [...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src),
  mute: [...document.images].filter((i) => !i.alt.trim()).map((i) => i.src),
  links: [...document.querySelectorAll("a[href]")].map((a) => a.href),
  places: [...document.querySelectorAll("[id], a[name]")].map((n) => n.id || n.name),
  dead: /could not be displayed|Error displaying widget/.test(document.body.innerText),
  wide: document.documentElement.scrollWidth - innerWidth })"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of two chapters that have all kinds of outputs."""
    folder = tmp_path_factory.mktemp("site")
    wanted = runner.Wanted(out=folder / "run", chapters=("00", "90"), jobs=2)
    assert runner.run(ROOT, wanted) == 0
    _, found = exporter.export(ROOT, folder / "run", folder / "out", "site")
    assert [one for one in found if not OTHERS.search(one)] == []
    return folder / "out"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    with window(tmp_path_factory.mktemp("profile")) as made:
        yield made


def visit(opened: Window, page: Path) -> None:
    """Opens a page and waits until its pictures and scripts are there."""
    opened.page.goto(page.as_uri(), wait_until="load")


def test_every_page_loads_whole(site: Path, opened: Window) -> None:
    """Would catch a script that fails, a picture that is missing or mute, a link that leads nowhere."""
    pages = {page: {} for page in sorted(site.glob("*.html"))}
    for page in pages:
        visit(opened, page)
        opened.page.evaluate(
            "() => document.querySelectorAll('img').forEach((i) => { i.loading = 'eager'; })"
        )
        opened.page.wait_for_function("() => [...document.images].every((i) => i.complete)")
        pages[page] = opened.page.evaluate(_STATE)
    assert len(pages) > 12
    for page, state in pages.items():
        assert state["title"] and state["words"] > 100, page.name
        assert (state["broken"], state["mute"], state["dead"]) == ([], [], False), page.name
        assert state["wide"] <= 1, f"{page.name} is wider than the window"
    assert _nowhere(pages) == []
    assert opened.faults == []


def _nowhere(pages: dict[Path, dict]) -> list[str]:
    """The links to a page or a place that is not there."""
    found = []
    for page, state in pages.items():
        for link in state["links"]:
            parts = urlsplit(link)
            target, place = Path(unquote(parts.path)), unquote(parts.fragment)
            if parts.scheme != "file" or OTHERS.search(link):
                continue
            if not target.exists() or (place and target in pages and place not in pages[target]["places"]):
                found.append(f"{page.name}: {link}")
    return found


def test_one_walks_from_page_to_page(site: Path, opened: Window) -> None:
    """Would catch navigation that shows links and leads nowhere."""
    page = opened.page
    visit(opened, site / "index.html")
    page.locator("article a[href='00_start_here.html']").first.click()
    page.wait_for_url(re.compile("00_start_here.html"))
    page.locator(".related-pages a.next-page").click()
    page.wait_for_url(lambda url: "00_start_here" not in url)
    page.locator(".sidebar-tree a[href='glossary.html']").click()
    page.wait_for_url(re.compile("glossary.html"))


def test_search_finds_an_english_word_and_opens_the_page(site: Path, opened: Window) -> None:
    """Would catch an index that a browser refuses on a disk, and results without a page behind them."""
    page = opened.page
    visit(opened, site / "index.html")
    page.keyboard.press("/")
    page.keyboard.insert_text("neighbour")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"search\.html\?q=neighbour"))
    hit = page.locator("#search-results li a[href^='00_start_here.html']").first
    hit.wait_for()
    hit.click()
    page.wait_for_url(re.compile("00_start_here.html"))
    assert "neighbour" in page.locator("article").inner_text()


def test_dark_mode_goes_on_and_stays_on_the_next_page(site: Path, opened: Window) -> None:
    """Would catch a button without effect, and dark text on a dark page."""
    page = opened.page
    visit(opened, site / "index.html")
    for _ in range(3):
        if page.locator("body").get_attribute("data-theme") == "dark":
            break
        page.locator("button.theme-toggle:visible").click()
    assert page.locator("body").get_attribute("data-theme") == "dark"
    for name in ("index.html", PICTURES):
        visit(opened, site / name)
        ground, ink = page.evaluate(
            "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
        )
        assert _light(ground) < 60 and _light(ink) > 150, (name, ground, ink)
    for _ in range(2):
        page.locator("button.theme-toggle:visible").click()


def _light(colour: str) -> float:
    """0 black to 255 white."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_the_player_works_by_keyboard_alone(site: Path, opened: Window) -> None:
    """Would catch a player that lost its script or its buttons on the way to the page."""
    page = opened.page
    visit(opened, site / PICTURES)
    player = page.locator("figure.ml-play.on").first
    said, last = player.locator("output"), player.locator("ol > li").count()
    player.get_by_role("button", name="previous step").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.type") == "range"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert last > 2 and said.inner_text().startswith(f"Step 2 of {last}")
    for key, step in (("ArrowRight", 3), ("ArrowLeft", 2), ("End", last), ("ArrowRight", last), ("Home", 1)):
        page.keyboard.press(key)
        assert said.inner_text().startswith(f"Step {step} of {last}"), key
    assert player.locator("ol > li:visible").count() == 1


def test_the_explorer_shows_its_presets(site: Path, opened: Window) -> None:
    """Would catch a dead slider in the page, or an explorer that the export dropped."""
    visit(opened, site / PICTURES)
    picture = opened.page.locator("img[alt*='four ranks (ranks = 4)'][alt*='seven ranks (ranks = 7)']")
    assert picture.count() == 1 and picture.evaluate("(i) => i.naturalWidth") > 300
    assert opened.page.locator(".jupyter-widgets, .noUi-handle").count() == 0


def test_printed_every_step_is_there(site: Path, opened: Window) -> None:
    """Would catch a print-out with one frame and buttons that nobody can press."""
    visit(opened, site / PICTURES)
    player = opened.page.locator("figure.ml-play.on").first
    opened.page.emulate_media(media="print")
    shown, buttons = player.locator("ol > li:visible").count(), player.locator("button:visible").count()
    opened.page.emulate_media(media="screen")
    assert (shown, buttons) == (player.locator("ol > li").count(), 0)


def test_nothing_was_asked_from_outside(opened: Window) -> None:
    """Would catch a font, a style sheet or a script from the net, on any page that was opened."""
    assert opened.outside == [] and opened.faults == []
