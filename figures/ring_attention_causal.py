"""Ring attention under a causal mask on four ranks: travelling blocks, and who has how much to do."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, mask, ring, style
from mindlab.draw.board import Board

RANKS = 4

ALT = {
    "en": "Ring attention with a causal mask on four ranks. On top: which block of keys and values each rank "
    "holds at steps 0 to 3. Below: which rank computes which visible pairs of query and key, sequence "
    "32. Cut into four neighbouring parts the ranks have 36, 100, 164 and 228 pairs, and the largest "
    "is 1.73 times the mean. In zigzag, where rank r has parts r and 7 - r of eight, each rank has 132.",
    "zh": "带因果掩码的 4 卡环形注意力。上：第 0 到 3 步各卡持有的键值块。下：各卡计算哪些可见的查询与键，序"
    "列长 32。切成相邻四段时，各卡分别有 36、100、164、228 对，最大是平均的 1.73 倍。zigzag 中卡 r 持有"
    "八段中的第 r 与第 7 - r 段，各卡都是 132 对。",
}

TITLE = {
    "en": "Travelling blocks; under a causal mask zigzag evens the work",
    "zh": "键值块流转；因果掩码下 zigzag 使各卡工作量相等",
}
NAMES = {"en": ("contiguous", "zigzag"), "zh": ("连续切分", "zigzag")}


def experiment() -> tuple[list[int], list[list[int]]]:
    """The owners of the blocks that this rank meets; the positions of its queries in both layouts."""
    import torch
    import torch.distributed as dist

    from mindlab.parallel.ring import travel
    from mindlab.parallel.shards import split_sequence

    rank, ranks = dist.get_rank(), dist.get_world_size()
    sequence, x = torch.arange(32), torch.full((1, 8, 2, 16), float(rank))
    met = [int(keys[0, 0, 0, 0]) for _, keys, _ in travel(x, x, [8] * ranks)]
    layouts = ("contiguous", "zigzag")
    return met, [split_sequence(sequence, ranks, layout=how, dim=0)[rank].tolist() for how in layouts]


def draw(language: str = "en") -> Figure:
    """The Figure: the blocks on top, the masks below."""
    run = ml.launch(experiment, ranks=RANKS)
    board = Board(None, style.FULL_WIDTH - 1.5, 6.95, language)
    board.title(TITLE[language])
    inner = board.width - 0.1
    ring(
        [met for met, _ in run.values], board.inset(0.05, 0.42, inner, 2.15), provenance="", language=language
    )
    shards = {name: [held[i] for _, held in run.values] for i, name in enumerate(NAMES[language])}
    chunks = dict(zip(NAMES[language], (RANKS, 2 * RANKS), strict=True))
    mask(shards, board.inset(0.05, 2.6, inner, 4.0), chunks=chunks, provenance="", language=language)
    board.foot([labels.say("from_run", language, ranks=run.ranks, backend=run.backend)])
    return board.figure
