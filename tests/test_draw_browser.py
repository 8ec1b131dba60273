"""The player in a real browser: the script steps, the keys work, two equal players stay apart."""

import re
import shutil
import subprocess
from pathlib import Path

import draw_runs as made
import pytest

from mindlab import draw

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this host")

PROBE = """<script>
var F = document.querySelectorAll("figure.ml-play"), R = F[0], B = R.querySelectorAll("button"), log = [];
function note() { log.push(R.querySelector("output").textContent.split(" ")[1]); }
function key(k) { R.dispatchEvent(new KeyboardEvent("keydown", {key: k, bubbles: true})); note(); }
note(); B[1].click(); note(); key("End"); key("ArrowRight"); key("ArrowLeft"); key("Home");
var I = R.querySelector("input"); I.value = 3; I.dispatchEvent(new Event("input")); note();
log.push([...R.querySelectorAll("li")].filter(l => getComputedStyle(l).display !== "none").length);
log.push(F[1].querySelector("output").textContent.split(" ")[1]);
document.body.innerHTML = "<pre>" + log.join(" ") + "</pre>";
</script>"""


def opened(page: Path, tmp_path: Path) -> str:
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, *flags, *quiet, profile, "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout


def test_buttons_keys_and_slider_step_one_player_only(tmp_path: Path) -> None:
    """Would catch a script error, a step past the ends, two frames at once, a neighbour that steps too."""
    body = draw.play(made.ring_run(4)).html()
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}{body}{PROBE}", encoding="utf-8")
    seen = re.search("<pre>(.*)</pre>", opened(page, tmp_path))
    assert seen and seen[1].split() == ["1", "2", "6", "6", "5", "1", "4", "1", "1"]


def test_without_the_script_every_frame_is_visible(tmp_path: Path) -> None:
    """Would catch frames that only JavaScript shows (an untrusted notebook, a page with scripts off)."""
    body = re.sub("<script>.*?</script>", "", draw.play(made.ring_run(4)).html(), flags=re.S)
    probe = """<script>document.body.innerHTML = "<pre>" + [...document.querySelectorAll("li, li p, .bar")]
    .filter(n => n.offsetHeight > 0).length + "</pre>"</script>"""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}{probe}", encoding="utf-8")
    seen = re.search("<pre>(.*)</pre>", opened(page, tmp_path))
    assert seen and seen[1] == "12"
