"""The site in a real browser: theme, keyboard, small screens, errors of scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import site_project as made

pytestmark = pytest.mark.skipif(made.CHROMIUM is None, reason="no chromium on this host")

PROBE = """<!doctype html><iframe src="PAGE" width="WIDTH" height="800"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = async () => {
  const page = frame.contentDocument, view = frame.contentWindow, said = {};
  const press = (key) => page.body.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
  try { STEPS } catch (error) { said.error = String(error); }
  document.body.innerHTML = "<pre>" + JSON.stringify(said) + "</pre>";
};</script>"""


@pytest.fixture
def site() -> Path:
    return made.built()[0]


def said(site: Path, tmp_path: Path, page: str, steps: str, *flags: str, width: int = 1300) -> dict[str, Any]:
    """What some steps of JavaScript saw on a page, `width` pixels wide."""
    text = PROBE.replace("PAGE", page).replace("WIDTH", str(width)).replace("STEPS", steps)
    (site / "_probe.html").write_text(text, encoding="utf-8")
    address = (site / "_probe.html").as_uri()
    dom = made.opened(address, tmp_path, "--allow-file-access-from-files", *flags)
    (site / "_probe.html").unlink()
    found = re.search("<pre>(.*)</pre>", dom)
    assert found, dom[-300:]
    seen: dict[str, Any] = json.loads(found[1])
    assert "error" not in seen, seen
    return seen


def test_the_theme_follows_the_system_and_can_be_chosen(site: Path, tmp_path: Path) -> None:
    """Would catch a page that is white at night, and a button that does nothing."""
    steps = """
      const paper = () => view.getComputedStyle(page.body).backgroundColor.match(/\\d+/g).map(Number);
      const dark = () => { const [r, g, b] = paper(); return r + g + b < 200; };
      const button = [...page.querySelectorAll(".theme-toggle")].find((b) => b.offsetParent);
      said.seen = [dark()];
      for (let k = 0; k < 3; k++) { button.click(); said.seen.push(dark()); }
      said.label = button.getAttribute("aria-label") || button.textContent.trim();"""
    light = said(site, tmp_path / "l", "01_one.html", steps)
    night = said(site, tmp_path / "d", "01_one.html", steps, "--blink-settings=preferredColorScheme=0")
    assert light["seen"][0] is False and set(light["seen"]) == {True, False}
    assert night["seen"][0] is True and set(night["seen"]) == {True, False}
    assert light["label"]


def test_a_key_goes_to_the_search_field(site: Path, tmp_path: Path) -> None:
    """Would catch a search that a keyboard cannot reach."""
    steps = 'press("/"); said.focus = page.activeElement.name;'
    assert said(site, tmp_path, "01_one.html", steps)["focus"] == "q"


@pytest.mark.parametrize(
    "page", ["index.html", "01_one.html", "reference.html", "glossary.html", "install.html"]
)
def test_nothing_sticks_out_on_a_telephone(site: Path, tmp_path: Path, page: str) -> None:
    """Would catch a table or a line of code that makes the whole page scroll sideways."""
    steps = "said.wide = page.documentElement.scrollWidth; said.view = view.innerWidth;"
    seen = said(site, tmp_path, page, steps, width=400)
    assert seen["wide"] <= seen["view"] == 400


def test_scripts_in_outputs_run(site: Path, tmp_path: Path) -> None:
    """Would catch a player that the site turns into dead text."""
    assert said(site, tmp_path, "01_one.html", "said.stepped = view.stepped;")["stepped"] == 1
