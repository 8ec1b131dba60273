"""PDF from the HTML pages, by the host's own chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mindlab.errors import MindlabError

VARIABLE = "MINDLAB_CHROMIUM"
REMEDY = (
    "install one (Debian: apt-get install chromium; Fedora: dnf install chromium), "
    f"or name any Chrome or Edge in {VARIABLE}"
)
_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "chromium-headless-shell",
)
_MAC = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)
_SECONDS = 120.0


def chromium() -> str:
    """The browser's path, or "" if this host has none."""
    named = os.environ.get(VARIABLE)
    candidates = [named] if named else [*_NAMES, *_MAC]
    return next((found for name in candidates if (found := shutil.which(name))), "")


def print_all(pages: Sequence[Path], out: Path) -> list[Path]:
    """The PDFs of the pages, in `out`; raises MindlabError without a browser or where it fails."""
    browser = chromium()
    if not browser:
        raise MindlabError(f"no chromium on this host: {REMEDY}; or print the HTML from any browser")
    return [_print(browser, page, out / f"{page.stem}.pdf") for page in pages]


def _print(browser: str, page: Path, target: Path) -> Path:
    unfolded = page.with_name(f"{page.stem}.print.html")
    # Closed details print as their summary alone.
    unfolded.write_text(
        page.read_text(encoding="utf-8").replace("<details", "<details open"), encoding="utf-8"
    )
    with tempfile.TemporaryDirectory(prefix="mindlab-") as profile:
        # Chromium refuses its sandbox to root, which is who one is in most containers.
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [browser, *_FLAGS, *sandbox, f"--user-data-dir={profile}", f"--print-to-pdf={target}"]
        try:
            done = subprocess.run(
                [*command, unfolded.resolve().as_uri()],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MindlabError(f"{browser} took more than {_SECONDS:.0f} s to print {page.name}") from None
    if not target.exists() or target.stat().st_size < 1000:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MindlabError(f"{browser} did not print {page.name}: {last}")
    return target
