"""The Chinese letters of the pictures: a small font that ships with the package.

It holds the characters of `labels`, of notebooks/src/terms.csv and of the field's vocabulary, and is made by
`cjk_subset`. So a Chinese picture is drawn the same on every host, also where no Chinese font is installed;
what the font lacks is taken from an installed one. An SVG brings the letters that it shows.
"""

from __future__ import annotations

import base64
import functools
import io
import re
from pathlib import Path

FAMILY = "MindLab CJK"
FONT = Path(__file__).with_name("mindlab_cjk.ttf")

_INSTALLED = (
    ("Noto Sans CJK SC", "NotoSansCJK"),
    ("Noto Sans SC", "NotoSansSC"),
    ("WenQuanYi Micro Hei", "wqy-microhei"),
    ("WenQuanYi Zen Hei", "wqy-zenhei"),
    ("Microsoft YaHei", "msyh"),
    ("PingFang SC", "PingFang"),
    ("SimHei", "simhei"),
)
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


@functools.cache
def families() -> tuple[str, ...]:
    """The names of the fonts that matplotlib may take Chinese letters from, the shipped one first."""
    from matplotlib import font_manager

    found = [_added(FONT)] if FONT.exists() else []
    known = {font.name for font in font_manager.fontManager.ttflist}
    installed = next((name for name, _ in _INSTALLED if name in known), "") or _on_disk()
    return tuple(found + ([installed] if installed else []))


def letters(text: str) -> str:
    """The Chinese characters (and full-width marks) of a text, each once, in order."""
    return "".join(sorted(set(_WIDE.findall(text))))


def face(text: str) -> str:
    """The CSS rule that brings the letters of a text that the shipped font has; "" if it needs none."""
    wanted = "".join(letter for letter in letters(text) if ord(letter) in _covered())
    return _face(wanted) if wanted else ""


@functools.lru_cache(maxsize=64)
def _face(wanted: str) -> str:
    from fontTools import subset
    from fontTools.ttLib import TTFont

    font = TTFont(FONT, recalcTimestamp=False)
    options = subset.Options(hinting=False, notdef_outline=True, name_IDs=[1, 2], layout_features=[])
    chosen = subset.Subsetter(options)
    chosen.populate(text=wanted)
    chosen.subset(font)
    made = io.BytesIO()
    font.save(made)
    data = base64.b64encode(made.getvalue()).decode()
    source = f"src:url(data:font/ttf;base64,{data})"
    return f"@font-face{{font-family:'{FAMILY}';{source};unicode-range:U+2E80-9FFF,U+F900-FAFF,U+FF00-FFEF}}"


@functools.cache
def _covered() -> frozenset[int]:
    """The code points that the shipped font has."""
    from fontTools.ttLib import TTFont

    return frozenset(TTFont(FONT).getBestCmap()) if FONT.exists() else frozenset()


def _added(path: Path) -> str:
    from matplotlib import font_manager

    font_manager.fontManager.addfont(path)
    return font_manager.fontManager.ttflist[-1].name


def _on_disk() -> str:
    """A font that was installed after matplotlib wrote its cache, or ""."""
    from matplotlib import font_manager

    for path in sorted(map(Path, font_manager.findSystemFonts())):
        if any(stem.lower() in path.name.lower() for _, stem in _INSTALLED):
            return _added(path)
    return ""
