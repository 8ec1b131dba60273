"""Ulysses on four ranks: the exchange there, and the one back after attention."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, layout, style
from mindlab.draw.board import Board

RANKS = 4

ALT = {
    "en": "Ulysses on four ranks, sixteen positions, eight heads. First all-to-all: from positions 4r to 4r "
    "+ 3 of all heads on rank r to all positions of heads 2r and 2r + 1. There each rank computes "
    "attention over the whole sequence. Second all-to-all: back to positions 4r to 4r + 3 of all heads.",
    "zh": "4 卡 Ulysses，16 个位置、8 个头。第一次 AllToAll：卡 r 从位置 4r 到 4r + 3 的全部头，变为全部位置"
    "的第 2r 与 2r + 1 个头。随后各卡在完整序列上计算注意力。第二次 AllToAll：变回位置 4r 到 4r + 3 的"
    "全部头。",
}

TITLE = {
    "en": "Ulysses: to the heads, attention over the whole sequence, and back",
    "zh": "Ulysses：换到头，在完整序列上做注意力，再换回",
}
NAMES = {
    "en": (
        ("q, k, v: sequence shards", "q, k, v: heads"),
        ("attention's output: heads", "output: sequence shards"),
    ),
    "zh": (("q、k、v：序列分片", "q、k、v：按头"), ("注意力输出：按头", "输出：序列分片")),
}


def experiment() -> tuple:
    """Ids (position, head) in place of features: before and after the exchange, and after the one back."""
    import torch
    import torch.distributed as dist

    from mindlab.parallel.ulysses import heads_to_sequence, sequence_to_heads

    axes = torch.meshgrid(torch.arange(16), torch.arange(8), indexing="ij")
    ids = torch.stack(axes, dim=-1)[None]
    mine = ids.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()]
    swapped = sequence_to_heads(mine)
    return mine, swapped, heads_to_sequence(swapped)


def draw(language: str = "en") -> Figure:
    """The Figure: a row an exchange."""
    run = ml.launch(experiment, ranks=RANKS)
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    stages = [list(each) for each in zip(*run.values, strict=True)]
    board = Board(None, style.FULL_WIDTH, 7.45, language)
    board.title(TITLE[language])
    for i, heads in enumerate(NAMES[language]):
        ax = board.inset(0.03, 0.4 + 3.4 * i, style.FULL_WIDTH - 0.06, 3.4)
        layout(stages[i], stages[i + 1], ax, heads=heads, provenance="", language=language)
    board.foot([said])
    return board.figure
