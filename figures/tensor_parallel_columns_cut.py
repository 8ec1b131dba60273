"""Where a product is cut by the columns of W, for two ranks."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, matmul
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "W, 8 by 10, is cut into its left and right 5 columns: rank 0 has the left ones, rank 1 the right "
    "ones. Both ranks have all of X. The columns of Y, 2 by 6 by 10, are cut like those of W.",
    "zh": "W（8×10）切成左右各 5 列：卡 0 持有左边，卡 1 持有右边。两张卡都有完整的 X。Y（2×6×10）的列与 W 的"
    "列切法相同。",
}

TITLE = {
    "en": "By columns: W's columns go to two ranks",
    "zh": "按列切分：W 的列分到两张卡",
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
    """The Figure: X, W and Y with the cuts."""
    run = ml.launch(experiment, ranks=RANKS)
    xs, ws, ys = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = matmul(xs[0], ws, ys, title=TITLE[language], provenance=said, language=language, each=False)
    return figure_of(ax)
