"""What a reader would find broken in finished pages: links, pictures, tracebacks, anything from the net."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_LOADS = {
    "img": "src",
    "script": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}


class _Parsed(HTMLParser):
    """The links, ids and pictures of one page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._silent += tag in ("script", "style")
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADS and given.get(_LOADS[tag]):
            self.loads.append(given[_LOADS[tag]])
        if tag == "img" and not given.get("alt", "").strip() and given.get("role") != "presentation":
            self.faults.append(f"a picture without an alt text ({given.get('src', '')[:60]})")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)


def findings(out: Path) -> list[str]:
    """One line for each fault in the HTML pages directly in `out`."""
    pages = {path.name: _Parsed(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*.html"))}
    return [f"{name}: {fault}" for name, page in pages.items() for fault in _faults(page, name, pages, out)]


def _faults(page: _Parsed, name: str, pages: dict[str, _Parsed], out: Path) -> list[str]:
    text = "".join(page.words)
    found = list(page.faults)
    # The start page and the report tell of failures, the reference shows what an error looks like.
    is_chapter = name not in ("index.html", "report.html") and not name.startswith("reference")
    if is_chapter and _TRACEBACK.search(text):
        found.append("shows a traceback")
    if is_chapter and "could not be displayed" in text:
        found.append("says that something could not be displayed")
    for target in page.loads:
        if re.match(r"(?:https?:)?//", target):
            found.append(f"loads from the net: {target}")
        elif not target.startswith(("data:", "#")) and not (out / _path(target)).is_file():
            found.append(f"missing file {target}")
    return found + [text for target in page.links if (text := _dead(target, name, pages, out))]


def _path(target: str) -> str:
    """The file that a target names: Sphinx puts a version behind a question mark."""
    return unquote(re.split("[?#]", target)[0])


def _dead(target: str, name: str, pages: dict[str, _Parsed], out: Path) -> str:
    """Why a link leads nowhere, or ""."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target):
        return ""
    place = target.partition("#")[2]
    file = _path(target) or name
    if not (out / file).is_file():
        return f"broken link {target}"
    # nbconvert writes the ids of Chinese headings percent-encoded; browsers try a place as it stands first.
    if place and file in pages and not {place, unquote(place), quote(place)} & pages[file].ids:
        return f"broken link {target}: no such heading"
    return ""
