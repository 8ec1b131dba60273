"""A headless Chromium for tests: pages that may ask this host alone, and what they complained of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome on this host")

PATIENCE = 60_000  # milliseconds for any one state to come; a slow host needs them, a right one ends sooner
NEAR = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "ws://127.0.0.1:")
FLAGS = [
    *("--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
]


class Window:
    """One page. `outside` holds each request that left this host, `faults` each error of a script."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.pages[0]
        self.outside: list[str] = []
        self.faults: list[str] = []
        context.route("**/*", self._route)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)[:300]))
        self.page.on("console", lambda said: self._note(said.type, said.text, said.location))

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(NEAR):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _note(self, kind: str, text: str, location: object) -> None:
        if kind == "error":
            self.faults.append(f"{text[:300]} ({location})")


@contextmanager
def window(profile: Path, dark: bool = False) -> Iterator[Window]:
    """A browser with an empty profile and one Window; it ends with the block."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            headless=True,
            args=[*FLAGS, *root],
            viewport={"width": 1300, "height": 1000},
            locale="en-US",
            color_scheme="dark" if dark else "light",
        )
        try:
            context.set_default_timeout(PATIENCE)
            yield Window(context)
        finally:
            context.close()
