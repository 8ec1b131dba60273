"""The files beside the pages: pictures out of outputs, and what the prose links to."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from mindlab.book.links import chapter_of, is_elsewhere

SUFFIXES = {"image/svg+xml": ".svg", "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif"}
FOLDER = "files"


@dataclass
class Assets:
    """Collects files into OUT/files; `chapters` are those that have a page, with suffix `page`."""

    root: Path
    out: Path
    page: str
    chapters: frozenset[str]
    found: list[str] = field(default_factory=list)

    def store(self, chapter: str, kind: str, data: str) -> str:
        """The link to a picture of an output; equal pictures share a file."""
        content = data.encode() if kind == "image/svg+xml" else base64.b64decode(data)
        name = f"{chapter}-{hashlib.sha256(content).hexdigest()[:10]}{SUFFIXES[kind]}"
        path = self.out / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"{FOLDER}/{name}"

    def relocate(self, target: str, folder: Path, where: str) -> str:
        """Where a link of a notebook in `folder` leads from a page; a dead one is a finding."""
        if is_elsewhere(target):
            if target.startswith("/"):
                self.found.append(f"{where}: an absolute path holds on one machine only: {target}")
            return target
        if chapter := chapter_of(target):
            if chapter not in self.chapters:
                self.found.append(f"{where}: links to {target}, which is not among the exported chapters")
            return target.replace(".ipynb", self.page, 1)
        return self._copy(target, folder, where)

    def _copy(self, target: str, folder: Path, where: str) -> str:
        path, _, place = target.partition("#")
        source = (folder / path).resolve()
        if not source.is_file() or not source.is_relative_to(self.root.resolve()):
            kind = "missing picture" if source.suffix in SUFFIXES.values() else "broken link"
            self.found.append(f"{where}: {kind} {target} (looked for {os.path.relpath(source, self.root)})")
            return target
        kept = Path(FOLDER) / source.relative_to(self.root.resolve())
        (self.out / kept).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self.out / kept)
        return kept.as_posix() + (f"#{place}" if place else "")
