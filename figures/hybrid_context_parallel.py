"""Hybrid attention on 2 x 2 ranks: Ulysses inside each part of the sequence, the ring from part to part."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe

RING, ULYSSES, POSITIONS, HEADS = 2, 2, 16, 4
LEFT, WIDE, TALL, GAP = 0.85, 1.2, 0.56, 0.83
"""Inches: where the first grid begins, a grid, the room for arrows between two."""
TOP, LANE = 1.4, 0.86

ALT = {
    "en": "Hybrid attention on four ranks: a ring of 2 times Ulysses over 2, sixteen positions, four heads. "
    "Ranks 0 and 1 have part 0 of the sequence, ranks 2 and 3 part 1. At first rank r holds positions 4r to "
    "4r + 3 of all heads. Ulysses: the two ranks of a part swap, and each holds the eight positions of its "
    "part for two heads. Ring: ranks 0 and 2 swap keys and values, and so do 1 and 3; each has met all "
    "sixteen positions of its two heads. Ulysses back: each rank has the output of its own four positions "
    "for all heads.",
    "zh": "4 卡混合注意力：环 2 乘 Ulysses 2，16 个位置、4 个头。卡 0、1 持有第 0 段序列，卡 2、3 第 1 段。"
    "开始时卡 r 持有位置 4r 到 4r + 3 的全部头。Ulysses：同一段的两张卡交换，各持有本段 8 个位置的 2 个头。"
    "环：卡 0 与 2 交换键值，卡 1 与 3 也交换；各卡都见过其 2 个头的全部 16 个位置。Ulysses 返回：各卡得到"
    "自己 4 个位置全部头的输出。",
}

TITLE = {
    "en": "Hybrid: Ulysses swaps heads inside a part, the ring takes keys and values to the other part",
    "zh": "混合并行：Ulysses 在段内交换头，环把键值送到另一段",
}
NAMES = {"en": ("q, k, v", "q, k, v", "attention", "output"), "zh": ("q、k、v", "q、k、v", "注意力", "输出")}
HELD = {
    "en": ("a piece, all heads", "a part, some heads", "with all k, v, some heads", "a piece, all heads"),
    "zh": ("一小段，全部头", "一段，部分头", "用全部 k、v，部分头", "一小段，全部头"),
}
STEPS = {
    "en": (("Ulysses", "AllToAll"), ("Ring", "k, v go on"), ("Ulysses", "AllToAll back")),
    "zh": (("Ulysses", "AllToAll"), ("环", "k、v 流转"), ("Ulysses", "AllToAll 返回")),
}
PART = {"en": "part {at}", "zh": "第 {at} 段"}
FOOT = {
    "en": "Across: 16 positions; down: 4 heads. Number and colour: the rank it came from. Pale: what stayed",
    "zh": "横向：16 个位置；纵向：4 个头。数字与颜色：来自的卡。浅色：留在本卡",
}

Cells = list[tuple[int, int, int]]
"""(position, head, the rank that had it last)."""


def experiment() -> list[list[Cells]]:
    """Ids in place of features: this rank's at first, after Ulysses, the ring's blocks, and the way back."""
    import torch
    import torch.distributed as dist

    from mindlab.parallel.mesh import hybrid_mesh, own_shard
    from mindlab.parallel.ring import travel
    from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads

    def signed(ids: torch.Tensor) -> torch.Tensor:
        return torch.cat([ids[..., :2], torch.full_like(ids[..., :1], dist.get_rank())], -1)

    def cells(ids: torch.Tensor) -> Cells:
        return [(p, h, source) for p, h, source in ids.reshape(-1, 3).tolist()]

    mesh = hybrid_mesh(ring=RING, ulysses=ULYSSES)
    ring, ulysses = mesh.get_group("ring"), mesh.get_group("ulysses")
    at = torch.meshgrid(torch.arange(POSITIONS), torch.arange(HEADS), indexing="ij")
    mine = signed(own_shard(torch.stack(at, -1)[None], mesh))
    part = sequence_to_heads(mine, group=ulysses)
    sizes = [POSITIONS // RING] * RING
    met = [keys.clone() for _, keys, _ in travel(signed(part), signed(part), sizes, group=ring)]
    back = heads_to_sequence(signed(part), group=ulysses)
    return [[cells(mine)], [cells(part)], [cells(one) for one in met], [cells(back)]]


def corner(column: int, rank: int) -> tuple[float, float]:
    """The upper left corner of a grid; some room between the two parts."""
    return LEFT + column * (WIDE + GAP), TOP + rank * LANE + rank // ULYSSES * 0.16


def grid(board: Board, column: int, rank: int, blocks: Sequence[Cells]) -> None:
    """What a rank holds, each source in its colour; all but the last block are pale."""
    x, y = corner(column, rank)
    across, down = WIDE / POSITIONS, TALL / HEADS
    board.cell(x, y, WIDE, TALL, linestyle=":", edgecolor=style.LINE)
    for block in blocks:
        for source in sorted({cell[2] for cell in block}):
            ps, hs = ([cell[i] for cell in block if cell[2] == source] for i in (0, 1))
            left, top = x + min(ps) * across, y + min(hs) * down
            wide, tall = (max(ps) + 1 - min(ps)) * across, (max(hs) + 1 - min(hs)) * down
            if block is blocks[-1]:
                board.fill(left, top, wide, tall, source)
                board.on_fill(left + wide / 2, top + tall / 2, str(source), style.SMALL, source)
            else:
                board.cell(left, top, wide, tall, facecolor=style.tinted(style.colour(source), 0.65))
                board.text(left + wide / 2, top + tall / 2, str(source), style.SMALL)


def arrows(board: Board, column: int, groups: Sequence[Sequence[int]]) -> None:
    """From each rank to the others of its group; in grey what stays."""
    for group in groups:
        for source in group:
            for target in group:
                (x, y), (_, v) = corner(column, source), corner(column, target)
                ends = (x + WIDE + 0.05, y + TALL / 2), (x + WIDE + GAP - 0.05, v + TALL / 2)
                board.arrow(*ends, style.LINE if source == target else style.colour(source), 2.2, head=6)


def words(board: Board, language: str) -> None:
    """The names of the grids and of the steps between them, and of the parts at the left."""
    for column, (name, what) in enumerate(zip(NAMES[language], HELD[language], strict=True)):
        x = LEFT + column * (WIDE + GAP) + WIDE / 2
        board.text(x, TOP - 0.34, name, style.TEXT, fontweight="bold")
        board.text(x, TOP - 0.16, what, style.SMALL)
    for column, (name, what) in enumerate(STEPS[language]):
        x = LEFT + column * (WIDE + GAP) + WIDE + GAP / 2
        board.text(x, TOP - 0.74, name, style.TEXT, fontweight="bold")
        board.text(x, TOP - 0.57, what, style.SMALL)
    for part in range(RING):
        first, last = corner(0, part * ULYSSES)[1], corner(0, (part + 1) * ULYSSES - 1)[1] + TALL
        board.text(0.2, (first + last) / 2, PART[language].format(at=part), style.SMALL, rotation=90)
        board.ax.plot((0.34, 0.34), (first, last), color=style.LINE, lw=1)
        for rank in range(part * ULYSSES, (part + 1) * ULYSSES):
            board.chip(rank, 0.59, corner(0, rank)[1] + TALL / 2)


def draw(language: str = "en") -> Figure:
    """The Figure: a row a rank, a column a stage."""
    run = ml.launch(experiment, ranks=RING * ULYSSES)
    board = Board(None, style.FULL_WIDTH, TOP + 4 * LANE + 0.42, language)
    board.title(TITLE[language])
    words(board, language)
    for rank, stages in enumerate(run.values):
        for column, blocks in enumerate(stages):
            grid(board, column, rank, blocks)
    for column, groups in enumerate((((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1), (2, 3)))):
        arrows(board, column, groups)
    board.foot([FOOT[language], labels.say("from_run", language, ranks=run.ranks, backend=run.backend)])
    describe(board.ax, ALT[language])
    return board.figure
