"""A product on one card: X (b, s, h) times W (h, h')."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, matmul
from mindlab.draw.picture import figure_of

RANKS = 1

ALT = {
    "en": "The product on one card: X of shape b, s, h is 2 by 6 by 8, W of shape h, h' is 8 by 10, and "
    "their product Y is 2 by 6 by 10.",
    "zh": "一张卡上的矩阵乘：X 的形状 (b, s, h) 为 2×6×8，W 的形状 (h, h') 为 8×10，结果 Y 为 2×6×10。",
}

TITLE = {
    "en": "One card: Y = X W",
    "zh": "一张卡：Y = X W",
}


def experiment() -> tuple:
    """X, W and Y on one rank."""
    import torch

    layer, x = torch.nn.Linear(8, 10), torch.randn(2, 6, 8)
    return x, layer.weight.T.detach(), layer(x).detach()


def draw(language: str = "en") -> Figure:
    """The Figure: three sheets."""
    run = ml.launch(experiment, ranks=RANKS)
    xs, ws, ys = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = matmul(xs[0], ws[0], ys[0], title=TITLE[language], provenance=said, language=language)
    return figure_of(ax)
