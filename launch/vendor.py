"""The packages that an image brings: a vendor's torch and its family. Used, compared, never replaced.

python vendor.py      prints, as JSON, what this Python sees of the family
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

# torch's own family by prefix, and what torch_npu and CANN's Python parts import.
PREFIXES = ("torch", "triton", "nvidia-", "mindie")
NAMES = {"numpy", "scipy", "pyyaml", "protobuf", "decorator", "psutil", "attrs", "sympy", "cffi", "absl-py"}


@dataclass(frozen=True)
class Package:
    """An installed distribution: where it lies, and a digest of its files' names, sizes and times."""

    name: str
    version: str
    place: str
    files: str


class Unpackaged(Exception):
    """torch can be imported but no installer knows it, so pip would put another one over it."""


def canonical(name: str) -> str:
    """The name as package indexes compare it: `torch_npu` is `torch-npu`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_family(name: str) -> bool:
    """Whether a vendor's torch depends on this package being what it is."""
    return canonical(name) in NAMES or canonical(name).startswith(PREFIXES)


def _family() -> Iterator[tuple[str, metadata.Distribution]]:
    """The first distribution of each name on the path: the one that an import takes."""
    seen = set()
    for found in metadata.distributions():
        name = canonical(found.metadata["Name"] or "")
        if name not in seen and is_family(name):
            seen.add(name)
            yield name, found


def _files(found: metadata.Distribution) -> Iterator[Path]:
    """A distribution's files; where its installer kept no list, those of the folder of its name."""
    if found.files is not None:
        yield from (Path(str(found.locate_file(entry))) for entry in found.files)
    else:
        folder = Path(str(found.locate_file(found.metadata["Name"])))
        yield from sorted(folder.rglob("*"))


def _digest(found: metadata.Distribution) -> str:
    """A digest of names, sizes and times; compiled Python is left out, since an import may write it."""
    digest = hashlib.sha256()
    for path in _files(found):
        if path.suffix == ".pyc":
            continue
        try:
            status = path.stat()
        except OSError:
            digest.update(f"{path} missing\n".encode())
        else:
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def family(*, files: bool = True) -> dict[str, Package]:
    """What this Python sees of the family, by name; empty where there is no torch.

    `files=False` leaves the files unread (quick). Raises Unpackaged for a torch without metadata.
    """
    found = dict(_family())
    if "torch" not in found:
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin:
            raise Unpackaged(spec.origin)
        return {}
    return {name: _package(name, each, files) for name, each in sorted(found.items())}


def _package(name: str, found: metadata.Distribution, files: bool) -> Package:
    place = Path(str(found.locate_file(""))).resolve()
    return Package(name, found.version, str(place), _digest(found) if files else "")


def constraints(packages: Mapping[str, Package]) -> str:
    """Lines for pip: with them, anything that wants another version is an error and not an upgrade."""
    return "".join(f"{each.name}=={each.version}\n" for each in packages.values())


def changes(before: Mapping[str, Package], after: Mapping[str, Package]) -> list[str]:
    """One sentence for each package that is no longer what it was; empty where all are."""
    return [sentence for name, old in before.items() if (sentence := _change(old, after.get(name)))]


def _change(old: Package, new: Package | None) -> str:
    if new is None:
        return f"{old.name} {old.version} can no longer be seen"
    if new.place != old.place:
        return f"{old.name} {old.version} of {old.place} is shadowed by {new.version} in {new.place}"
    if new.version != old.version:
        return f"{old.name} was {old.version} and is now {new.version}, in {old.place}"
    if new.files != old.files:
        return f"{old.name} {old.version}: files in {old.place} were changed"
    return ""


def read(text: str) -> dict[str, Package]:
    """What `python vendor.py` printed."""
    return {name: Package(**fields) for name, fields in json.loads(text).items()}


if __name__ == "__main__":
    print(json.dumps({name: asdict(each) for name, each in family().items()}))
