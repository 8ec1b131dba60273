"""Where a product is cut by the rows of W, for two ranks."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, matmul
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "W, 8 by 10, is cut into its upper and lower 4 rows, and X, 2 by 6 by 8, into its left and right 4 "
    "columns: the first halves belong to rank 0, the second to rank 1. Y is a sum of both ranks' "
    "results.",
    "zh": "W（8×10）切成上下各 4 行，X（2×6×8）切成左右各 4 列：前一半属于卡 0，后一半属于卡 1。Y 是两张卡结"
    "果之和。",
}

TITLE = {
    "en": "By rows: W's rows and X's columns go to two ranks",
    "zh": "按行切分：W 的行与 X 的列分到两张卡",
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
    """The Figure: X, W and Y with the cuts."""
    run = ml.launch(experiment, ranks=RANKS)
    xs, ws, ys = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = matmul(xs, ws, ys, title=TITLE[language], provenance=said, language=language, each=False)
    return figure_of(ax)
