"""The one visual language: colour means rank, in every picture.

Ranks 0 to 7 are plain, 8 to 15 hatched. Within each eight the lightness steps by 6 or more (CIE L*), so the
ranks stay apart in grey print and for the common colour-blindnesses (tested); the rank number stands on every
mark that is large enough. Everything that is not a rank is drawn in greys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mindlab.draw.cjk import families

RANK_COLOURS = (
    *("#4458bd", "#d59c1e", "#5be6de", "#e0498f", "#abb7fe", "#694b0c", "#e2e991", "#47a65a"),
    *("#538128", "#ddd25a", "#229bf8", "#e9a384", "#884891", "#9cecd5", "#d85c83", "#ac9bcf"),
)
PAPER = "#ffffff"
INK = "#1a1a1a"
FADED = "#595959"
LINE = "#8c8c8c"
GRID = "#d9d9d9"
EMPTY = "#f2f2f2"

# Points. A picture is at most 8.3 inches wide (800 CSS pixels), so 7 points are 9 pixels on a page.
TITLE, TEXT, SMALL, TINY = 11.0, 9.5, 8.0, 7.0
FULL_WIDTH = 8.3

# DejaVu Sans is what matplotlib measures with; Verdana is as wide and is where DejaVu is not. MindLab CJK has
# Chinese letters alone, and stands first: Chromium draws the first word in boxes while a later font loads.
FONT_STACK = (
    "'MindLab CJK', 'DejaVu Sans', Verdana, 'Noto Sans CJK SC', 'Microsoft YaHei', 'PingFang SC', "
    "'WenQuanYi Micro Hei', sans-serif"
)


def colour(rank: int) -> str:
    """The fill of a rank, "#rrggbb". Ranks past 15 start again: their number tells them apart."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]


def tinted(fill: str, white: float) -> str:
    """A fill "#rrggbb" with this share of white, 0 to 1, mixed in.

    >>> tinted("#4050c0", 0.5)
    '#a0a8e0'
    """
    channels = (int(fill[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * white):02x}" for c in channels)


def hatch(rank: int) -> str:
    """The matplotlib hatch of a rank: none for 0 to 7, strokes for 8 to 15."""
    return "////" if rank % len(RANK_COLOURS) >= 8 else ""


def luminance(fill: str) -> float:
    """Relative luminance of "#rrggbb", 0 to 1. Source: WCAG 2.2, definition of relative luminance."""
    channels = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ink_on(fill: str) -> str:
    """The text colour to use on a fill: dark or white, whichever has more contrast."""
    light = luminance(fill)
    return INK if (light + 0.05) / 0.06 > 1.05 / (light + 0.05) else PAPER


def bold(cjk: str | bool = "") -> str:
    """The weight of a title. Small Chinese fonts have no bold face, and matplotlib complains of it."""
    return "normal" if cjk else "bold"


def rc(cjk: str = "") -> dict[str, Any]:
    """The matplotlib settings of every picture. `cjk` is the name of a font with Chinese glyphs, or ""."""
    others = [name for name in families() if name != cjk] if cjk else []
    return {
        "font.family": ["DejaVu Sans", cjk, *others] if cjk else ["DejaVu Sans"],
        "font.size": TEXT,
        "axes.titlesize": TITLE,
        "axes.labelsize": TEXT,
        "axes.edgecolor": LINE,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": False,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "text.color": INK,
        "hatch.linewidth": 0.6,
        "figure.facecolor": PAPER,
        "savefig.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "svg.fonttype": "none",
        "svg.hashsalt": "mindlab",
        "path.simplify": False,
    }


@contextmanager
def look(cjk: str = "") -> Iterator[None]:
    """A block in which matplotlib draws in this style, whatever style the person has set."""
    import matplotlib
    from matplotlib import rc_context

    keep = ("backend", "interactive", "toolbar", "keymap", "tk.", "webagg", "macosx", "docstring")
    plain: dict[Any, Any] = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(keep)}
    plain.update(rc(cjk))
    with rc_context():
        matplotlib.rcParams.update(plain)
        yield
