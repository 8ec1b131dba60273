"""The site: whole, offline, and with a finding for everything that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import site_project as made
from nbformat.v4 import new_markdown_cell, new_output

from mindlab.draw import cjk, cjk_subset


@pytest.fixture
def site() -> tuple[Path, list[str]]:
    return made.built()


def page(site: tuple[Path, list[str]], name: str) -> str:
    return (site[0] / f"{name}.html").read_text(encoding="utf-8")


def test_a_good_site_has_no_finding(site: tuple[Path, list[str]]) -> None:
    """Would catch a dead link in docs/, a warning of Sphinx, an inspection that blames good pages."""
    assert site[1] == []


def test_every_page_is_there(site: tuple[Path, list[str]]) -> None:
    """Would catch a page that is no longer made, and one that nobody can reach from the sidebar."""
    names = {path.stem for path in site[0].glob("*.html")}
    wanted = {
        "index",
        "search",
        "report",
        "install",
        "running",
        "instructors",
        "measured",
        "design",
        "glossary",
    }
    assert {"01_one", "02_two", "03_three", "reference", "reference_volume", *wanted} <= names
    sidebar = page(site, "01_one").split("<article")[0]
    assert {
        name for name in names - {"index", "report", "01_one"} if f'"{name}.html"' not in sidebar
    } == set()


def test_nothing_is_loaded_from_elsewhere(site: tuple[Path, list[str]]) -> None:
    """Would catch a CDN, a web font, an analytics script: in pages, in styles, in scripts."""
    for path in site[0].glob("*.html"):
        for tag, given in made.Tags(path.read_text(encoding="utf-8")).seen:
            address = (given.get("src") or given.get("href") or "") if tag != "a" else ""
            assert not re.match(r"(https?:)?//", address), (path.name, address)
    for path in site[0].rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import ['\"]http", path.read_text("utf-8")), path.name
    for path in site[0].rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""(fetch|import|src\s*=)\s*\(?\s*['"]https?:""", text), path.name


def test_nothing_is_lost(site: tuple[Path, list[str]]) -> None:
    """Would catch a page that drops a formula, picture, player, expected error, or what was skipped."""
    text = page(site, "01_one")
    assert (
        text.count("<math") == 3 and "$" not in made.plain(text).split("Executed:")[0].split("One quokka")[-1]
    )
    alts = [given.get("alt") for tag, given in made.Tags(text).seen if tag == "img"]
    assert alts == ["a ring", 'a "box"']
    assert '<figure id="p1">' in text and "if (1 < 2)" in text
    assert "Expected: ValueError: negative size" in text and "Not executed here" in text
    assert '<div class="admonition warning">' in text
    assert "&lt;b&gt;" in text and "ansi-green" in text


def test_solutions_are_folded_and_end_where_they_should(site: tuple[Path, list[str]]) -> None:
    """Would catch a heading inside a fold that takes the rest of the chapter with it."""
    text = page(site, "01_one")
    folds = re.findall(r'<details class="solution fold">(.*?)</details>', text, re.DOTALL)
    assert len(folds) == 2 and "Why so" in folds[1] and "<section" not in folds[1]
    assert "After the solution" not in "".join(folds)


def test_links_lead_from_chapter_to_chapter_and_to_docs(site: tuple[Path, list[str]]) -> None:
    """Would catch a link that still names a notebook or a Markdown file."""
    links = [given.get("href") or "" for tag, given in made.Tags(page(site, "01_one")).seen if tag == "a"]
    assert {"02_two.html#where-to", "measured.html#wire", "index.html"} <= set(links)
    assert not [link for link in links if ".ipynb" in link or ".md" in link]


def test_every_page_says_where_it_comes_from(site: tuple[Path, list[str]]) -> None:
    """Would catch a page without its date and versions."""
    for path in site[0].glob("*.html"):
        if path.stem not in ("search", "report"):
            last = re.findall(r'<p class="provenance">(.*?)</p>', path.read_text(encoding="utf-8"))
            assert len(last) == 1 and "2025-05-01 · 4 ranks · gloo · torch 2.13" in last[0], path.name
    assert "Executed: 2025-05-01" in page(site, "01_one") and "运行环境: 2025-05-01" in page(site, "03_three")


def test_a_page_says_its_language(site: tuple[Path, list[str]]) -> None:
    """Would catch a Chinese page that a screen reader reads as English, in letters of a Japanese font."""
    assert 'lang="zh-CN"' in page(site, "03_three")[:200] and 'lang="en"' in page(site, "01_one")[:200]


def test_the_letters_of_english_pages_are_shipped(site: tuple[Path, list[str]]) -> None:
    """Would catch a term or title whose Chinese is boxes on a host without a Chinese font."""
    for name in ("glossary", "01_one", "index"):
        words = made.plain(page(site, name))
        assert cjk_subset.missing(characters=cjk.letters(words)) == "", name
    assert "mindlab_cjk.ttf" in (site[0] / "_static/site.css").read_text(encoding="utf-8")
    assert (site[0] / "_static/mindlab_cjk.ttf").exists()


def test_the_start_page_lists_every_chapter_with_its_state(site: tuple[Path, list[str]]) -> None:
    """Would catch a chapter that is missing, and checks that are not counted."""
    text = page(site, "index")
    assert all(f'href="{name}.html"' in text for name in ("01_one", "02_two", "03_three", "report"))
    assert text.count('<span class="badge passed">passed</span>') == 3 and "1 passed" in text


FAULTS = {
    "broken link": (new_markdown_cell("# One\n\n[gone](03_gone.ipynb)"), "links to 03_gone.ipynb"),
    "no such page": (
        new_markdown_cell("# One\n\n[gone](../../docs/gone.md)"),
        "broken link ../../docs/gone.md",
    ),
    "no such heading": (new_markdown_cell("# One\n\n[gone](02_two.ipynb#Gone)"), "'Gone'"),
    "missing picture": (new_markdown_cell("# One\n\n![x](../../figures/gone.svg)"), "missing picture"),
    "no alt text in prose": (
        new_markdown_cell("# One\n\n![](../../figures/ring.svg)"),
        "without an alt text",
    ),
    "no alt text": (made.code("p", made.shown({"image/svg+xml": made.SVG})), "without an alt text"),
    "formula": (new_markdown_cell("# One\n\n$\\nosuchcommand{x}$"), "nosuchcommand"),
    "error": (
        made.code("1/0", new_output("error", ename="ZeroDivisionError", evalue="division")),
        "ZeroDivisionError",
    ),
    "traceback": (
        made.code("t", new_output("stream", name="stderr", text="Traceback (most recent call last)\n")),
        "traceback",
    ),
    "dead widget": (
        made.code(
            "w", made.shown({"text/plain": "IntSlider", "application/vnd.jupyter.widget-view+json": {}})
        ),
        "widget",
    ),
    "not displayed": (
        made.code("d", made.shown({"text/html": "<p>This widget could not be displayed.</p>"})),
        "could not be displayed",
    ),
    "not executed": (made.code("x = 1", count=None), "was not executed"),
}


def test_every_fault_is_a_finding_that_names_it(tmp_path: Path) -> None:
    """Would catch a broken page that is exported with exit code 0."""
    cells = [cell for cell, _ in FAULTS.values()]
    cells = [new_markdown_cell("# One quokka"), *cells]
    _, found = made.export(tmp_path, cells)
    silent = {
        name for name, (_, said) in FAULTS.items() if not any("01_one" in f and said in f for f in found)
    }
    assert not silent, "\n".join(found)
