"""The exchange of Ulysses on four ranks: from a part of the sequence to some of the heads."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, layout
from mindlab.draw.picture import figure_of

RANKS = 4

ALT = {
    "en": "Sixteen positions of eight heads on four ranks, before and after an all-to-all. Before, rank r "
    "holds positions 4r to 4r + 3 of all heads. After, it holds all positions of heads 2r and 2r + 1. "
    "It keeps one quarter of what it had and sends one quarter to each other rank.",
    "zh": "4 张卡上的 16 个位置、8 个头，AllToAll 之前与之后。之前，卡 r 持有位置 4r 到 4r + 3 的全部头；之后"
    "，它持有全部位置的第 2r 与 2r + 1 个头。它保留四分之一，并向其他每张卡发送四分之一。",
}

TITLE = {
    "en": "Ulysses: some positions of all heads become all positions of some heads",
    "zh": "Ulysses：部分位置、全部头，变为全部位置、部分头",
}


def experiment() -> tuple:
    """Ids (position, head) in place of features: this rank's before and after the exchange."""
    import torch
    import torch.distributed as dist

    from mindlab.parallel.ulysses import sequence_to_heads

    axes = torch.meshgrid(torch.arange(16), torch.arange(8), indexing="ij")
    ids = torch.stack(axes, dim=-1)[None]
    mine = ids.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()]
    swapped = sequence_to_heads(mine)
    return mine, swapped


def draw(language: str = "en") -> Figure:
    """The Figure: two grids."""
    run = ml.launch(experiment, ranks=RANKS)
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    before, after = (list(each) for each in zip(*run.values, strict=True))
    return figure_of(layout(before, after, title=TITLE[language], provenance=said, language=language))
