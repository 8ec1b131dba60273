"""A product cut by the rows of W: each rank's result is a partial sum of all of Y."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, matmul
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "W is cut by rows over two ranks. Rank r multiplies its 4 columns of X with its 4 rows of W and "
    "gets a partial sum of the full shape 2 by 6 by 10. Added up, the two partial sums are Y: that "
    "takes communication.",
    "zh": "W 按行切分到两张卡。每张卡用自己的 4 列 X 乘以自己的 4 行 W，得到形状完整（2×6×10）的部分和。两个"
    "部分和相加才是 Y，这需要通信。",
}

TITLE = {
    "en": "By rows: each rank has a partial sum of all of Y",
    "zh": "按行切分：每张卡得到整个 Y 的部分和",
}


def experiment() -> tuple:
    """This rank's columns of X, its rows of W, and its partial sum of Y."""
    import torch
    import torch.distributed as dist

    from mindlab.parallel.tensor import RowParallelLinear

    torch.manual_seed(0)
    layer, x = torch.nn.Linear(8, 10, bias=False), torch.randn(2, 6, 8)
    mine = RowParallelLinear.from_full(layer)
    own = x.tensor_split(dist.get_world_size(), dim=-1)[dist.get_rank()].clone()
    return own, mine.weight.T, mine.partial(own)


def draw(language: str = "en") -> Figure:
    """The Figure: the whole, each rank's product, the sum."""
    run = ml.launch(experiment, ranks=RANKS)
    xs, ws, ys = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = matmul(xs, ws, ys, title=TITLE[language], provenance=said, language=language)
    return figure_of(ax)
