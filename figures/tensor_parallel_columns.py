"""A product cut by the columns of W: each rank's result is some columns of Y."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, matmul
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "W is cut by columns over two ranks. Each rank multiplies all of X with its 5 columns of W and "
    "gets 5 columns of Y, complete. Side by side they are Y; nothing has to be added.",
    "zh": "W 按列切分到两张卡。每张卡用完整的 X 乘以自己的 5 列 W，得到 Y 的 5 列，数值完整。并排即为 Y，无需"
    "相加。",
}

TITLE = {
    "en": "By columns: each rank has its own columns of Y",
    "zh": "按列切分：每张卡得到 Y 的若干列",
}


def experiment() -> tuple:
    """All of X, this rank's columns of W, and its columns of Y."""
    import torch

    from mindlab.parallel.tensor import ColumnParallelLinear

    torch.manual_seed(0)
    layer, x = torch.nn.Linear(8, 10, bias=False), torch.randn(2, 6, 8)
    mine = ColumnParallelLinear.from_full(layer)
    return x, mine.weight.T, mine(x)


def draw(language: str = "en") -> Figure:
    """The Figure: the whole, each rank's product, the results side by side."""
    run = ml.launch(experiment, ranks=RANKS)
    xs, ws, ys = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = matmul(xs[0], ws, ys, title=TITLE[language], provenance=said, language=language)
    return figure_of(ax)
