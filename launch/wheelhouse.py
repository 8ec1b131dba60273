"""Installing without network: which of pip's sources lie on this disk, and the wheels inside pip's own cache.

pip asks the index anew for every package, so that its cache alone does not serve without network. The bodies
in that cache are whole wheels under hashed names; linked under their proper names they make a wheel folder.
"""

from __future__ import annotations

import re
import zipfile
from email.parser import Parser
from pathlib import Path

LARGEST = 4 << 30


def indexes(configuration: str, default: str = "https://pypi.org/simple") -> list[str]:
    """The index addresses of `pip config list`'s text, the main one first."""
    values: dict[str, str] = {}
    for scope in ("global.", "install.", ":env:."):  # as pip does: a later one rules
        for line in configuration.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(scope):
                values[key[len(scope) :]] = value.strip("'\"")
    main = values.get("index-url", default)
    return [main, *values.get("extra-index-url", "").replace("\\n", " ").split()]


def is_local(index: str) -> bool:
    """Whether an index lies on this disk."""
    return index.startswith("file:") or "://" not in index


def link_cached(cache: Path, folder: Path) -> int:
    """How many wheels of pip's cache now lie in `folder`, as links under their proper names."""
    folder.mkdir(parents=True, exist_ok=True)
    bodies = [*cache.glob("http-v2/**/*.body"), *cache.glob("http/**/*"), *cache.glob("wheels/**/*.whl")]
    return sum(_link(body, folder) for body in bodies if body.is_file())


def _link(body: Path, folder: Path) -> bool:
    name = wheel_name(body)
    if name is None:
        return False
    link = folder / name
    link.unlink(missing_ok=True)
    link.symlink_to(body.resolve())
    return True


def wheel_name(path: Path) -> str | None:
    """The file name that the wheel inside `path` had; None if there is no wheel in it."""
    try:
        if path.stat().st_size > LARGEST or not zipfile.is_zipfile(path):
            return None
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/WHEEL", name)]
            if len(inside) != 1:
                return None
            fields = Parser().parsestr(archive.read(inside[0]).decode())
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError):
        return None
    return _file_name(inside[0].split(".dist-info")[0], fields.get("Build"), fields.get_all("Tag") or [])


def _file_name(stem: str, build: str | None, tags: list[str]) -> str | None:
    """`stem-[build-]python-abi-platform.whl`, several tags of a kind joined by dots."""
    if not tags or any(tag.count("-") != 2 for tag in tags):
        return None
    kinds = [".".join(dict.fromkeys(parts)) for parts in zip(*(tag.split("-") for tag in tags), strict=True)]
    return "-".join([stem, *([build] if build else []), *kinds]) + ".whl"
