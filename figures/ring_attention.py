"""Ring attention on four ranks: keys and values go round, and who holds whose block at each step."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, ring
from mindlab.draw.picture import figure_of

RANKS = 4

ALT = {
    "en": "Ring attention on four ranks. Each rank keeps its queries and starts with its own block of keys "
    "and values. In each of three transfers every rank passes the block that it has to the next rank. "
    "After the third, every rank has met all four blocks: rank 0 those of ranks 0, 3, 2, 1, in this "
    "order.",
    "zh": "4 卡环形注意力。每张卡保留自己的查询，并从自己的键值块开始。三次传输中，每张卡每次把手里的块发给下"
    "一张卡。第三次之后，每张卡都见过全部四块：卡 0 依次见到卡 0、3、2、1 的块。",
}

TITLE = {
    "en": "Ring attention: after p − 1 transfers every rank has met every block",
    "zh": "环形注意力：p − 1 = 3 次传输后，每张卡都见过每一块",
}


def experiment() -> None:
    """What every rank does."""
    import torch

    from mindlab.parallel.ring import ring_attention

    q, k, v = torch.randn(3, 1, 8, 2, 16)
    ring_attention(q, k, v, sizes=[8] * RANKS)


def draw(language: str = "en") -> Figure:
    """The Figure: the transfers on a circle, the blocks below."""
    run = ml.launch(experiment, ranks=RANKS)
    said = labels.say("from_calls", language, ranks=run.ranks, backend=run.backend)
    return figure_of(ring(run, circles=True, title=TITLE[language], provenance=said, language=language))
