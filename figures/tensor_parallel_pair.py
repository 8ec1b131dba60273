"""An MLP on two ranks: the first matrix cut by columns, the second by rows, one sum at the end."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, pair
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "An MLP on two ranks. Both have all of X, 2 by 6 by 8. Rank r multiplies it with its half of the "
    "columns of A, 8 by 8 of 8 by 16, applies GeLU, and multiplies the middle, 2 by 6 by 8, with its "
    "half of the rows of B. The middle never leaves its rank. The two results are partial sums of Y "
    "and are added up: the only communication.",
    "zh": "两张卡上的 MLP。两张卡都有完整的 X（2×6×8）。每张卡用 X 乘以 A 的一半列（8×16 中的 8×8），做 "
    "GeLU，再用中间结果（2×6×8）乘以 B 的一半行。中间结果一直留在本卡。两个结果是 Y 的部分和，相加是唯"
    "一的通信。",
}

TITLE = {
    "en": "Columns, then rows: the middle stays on its rank",
    "zh": "先按列，再按行：中间结果留在本卡",
}


def experiment() -> tuple:
    """What this rank has at each place of the MLP."""
    import torch

    from mindlab.models.layers import MLP
    from mindlab.parallel.tensor import ParallelMLP

    torch.manual_seed(0)
    mine, x = ParallelMLP.from_full(MLP(8, 16)), torch.randn(2, 6, 8)
    middle = torch.nn.functional.gelu(mine.up(x))
    return x, mine.up.weight.T, middle, mine.down.weight.T, mine.down.partial(middle)


def draw(language: str = "en") -> Figure:
    """The Figure: a row a rank, and the sum."""
    run = ml.launch(experiment, ranks=RANKS)
    x, *parts = (list(each) for each in zip(*run.values, strict=True))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    return figure_of(pair(x[0], *parts, title=TITLE[language], provenance=said, language=language))
