"""A real ring all-reduce on four ranks: the formula, the bytes of its calls, the bytes on the wire."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import style, traffic
from mindlab.draw.board import Board
from mindlab.predict import units

RANKS = 4
NBYTES = 1 << 20
MEASURED = True

ALT = {
    "en": "A ring all-reduce of 1 MiB, run on 4 real ranks. The formula 2(p - 1)/p times D gives 1.5 MiB "
    "sent by each rank. The matrix of the bytes counted from the calls and that of the payload on the "
    "wire agree with it: every rank sent 1.5 MiB to the next rank and nothing to any other.",
    "zh": "在 4 个真实的卡上运行 1 MiB 的环形全归约。公式 2(p − 1)/p 乘以 D 得到每卡发送 1.5 MiB。按调用计数"
    "的矩阵与线上有效载荷的矩阵都与之相符：每张卡向下一张卡发送 1.5 MiB，不向其他卡发送。",
}

TITLE = {
    "en": "Ring all-reduce of 1 MiB on 4 ranks: the formula, and what was sent",
    "zh": "4 卡环形全归约 1 MiB：公式与实际发送量",
}
FORMULA = {
    "en": "formula: each rank sends  2(p − 1)/p · D  =  2 · 3/4 · 1 MiB  =  {size}",
    "zh": "公式：每卡发送  2(p − 1)/p · D  =  2 · 3/4 · 1 MiB  =  {size}",
}


def experiment() -> None:
    """What every rank does."""
    import torch

    ml.collectives.ring_all_reduce(torch.ones(NBYTES // 4))


def draw(language: str = "en") -> Figure:
    """The Figure: the formula on top, both matrices below. The bytes do not depend on the date: left out."""
    run = replace(ml.launch(experiment, ranks=RANKS), date="")
    derived = ml.volume.ring_all_reduce(NBYTES, RANKS)
    board = Board(None, style.FULL_WIDTH, 5.55, language)
    board.title(TITLE[language])
    said = FORMULA[language].format(size=units.size(float(derived.value)))
    box = {"boxstyle": "round,pad=0.5", "facecolor": style.EMPTY, "edgecolor": style.GRID}
    board.text(style.FULL_WIDTH / 2, 0.78, said, style.TITLE, bbox=box)
    traffic(run, board.inset(0.03, 1.05, style.FULL_WIDTH - 0.06, 4.47), language=language)
    return board.figure
