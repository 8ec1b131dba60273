"""Who holds what before and after AllGather, ReduceScatter, AllReduce and AllToAll, on four ranks."""

from __future__ import annotations

from matplotlib.figure import Figure

from mindlab.draw import labels, shards, style
from mindlab.draw.board import Board

ALT = {
    "en": "What four ranks hold before and after four collectives. AllGather: each rank has one piece "
    "before, all four pieces after. ReduceScatter: each rank has four pieces before; after, rank r has "
    "the sum of everyone's piece r. AllReduce: each rank has four pieces before; after, every rank has "
    "all four sums. AllToAll: rank r has one piece for each rank before; after, it has piece r of "
    "every rank.",
    "zh": "四张卡在四种集合通信之前与之后持有的数据。AllGather：之前每张卡一块，之后都有全部四块。"
    "ReduceScatter：之前每张卡四块，之后卡 r 持有各卡第 r 块之和。AllReduce：之前每张卡四块，之后每张卡"
    "都有四个和。AllToAll：之前卡 r 为每张卡各备一块，之后它持有每张卡的第 r 块。",
}

RANKS = range(4)
PIECES = [[f"{letter}{i}" for i in RANKS] for letter in "abcd"]
SUMS = ["+".join(row[i] for row in PIECES) for i in RANKS]


def only(row: list[str], kept: int) -> list[str | None]:
    """The row with every slot empty but one."""
    return [cell if i == kept else None for i, cell in enumerate(row)]


CASES = [
    ("AllGather", [only(list("abcd"), r) for r in RANKS], [list("abcd")] * 4),
    ("ReduceScatter", PIECES, [only(SUMS, r) for r in RANKS]),
    ("AllReduce", PIECES, [SUMS] * 4),
    ("AllToAll", PIECES, [[PIECES[source][r] for source in RANKS] for r in RANKS]),
]


def draw(language: str = "en") -> Figure:
    """The Figure: a panel for each collective."""
    board = Board(None, style.FULL_WIDTH, 4.55, language)
    for i, (name, before, after) in enumerate(CASES):
        ax = board.inset(0.02 + 4.13 * (i % 2), 0.05 + 2.15 * (i // 2), 4.12, 2.1)
        shards(before, after, ax, title=name, provenance="", language=language)
    board.foot([labels.say("by_definition", language)])
    return board.figure
