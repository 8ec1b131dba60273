"""Cells of a notebook as source files that ranks know."""

from __future__ import annotations

import linecache
import re
import sys

from mindlab import notebook


def sources_of(pickled: bytes) -> dict[str, tuple[str, str]]:
    """The cells that pickled code comes from: file name -> (label "cell 3", text).

    A rank cannot read them by itself: a cell's file exists only in the notebook's line cache.
    """
    names = {name.decode() for pattern in _patterns() for name in pattern.findall(pickled)}
    return {name: (label(name), "".join(linecache.getlines(name))) for name in names}


def label(name: str) -> str:
    """What a person calls the cell whose file is `name`: "cell 3"."""
    count = getattr(getattr(notebook.shell(), "compile", None), "_filename_map", {}).get(name)
    return "cell" if count is None else f"cell {count}"


def _patterns() -> list[re.Pattern[bytes]]:
    patterns = [re.compile(rb"<ipython-input-[^>]+>")]
    compiler = sys.modules.get("ipykernel.compiler")
    if compiler is not None:
        folder = compiler.get_tmp_directory().encode()
        patterns.append(re.compile(re.escape(folder) + rb"[/\\]\d+\.py"))
    return patterns
