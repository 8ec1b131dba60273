"""CFG parallel on two ranks: a branch each, one all-gather, the same step on both."""

from __future__ import annotations

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe
from mindlab.draw.thumbnails import thumbnail

SIZE = 0.7
EPSILON = (-2.5, 2.5)

ALT = {
    "en": "One denoising step on two ranks. Both hold the same noisy picture x. Rank 0 calls the model "
    "without the condition, rank 1 with it. An all-gather gives both predictions to both ranks. Each "
    "combines them and takes the step, so both hold the same next x.",
    "zh": "2 张卡上的一个去噪步骤。两张卡持有同一张噪声图像 x。卡 0 不带条件调用模型，卡 1 带条件调用模型。"
    "一次 AllGather 让两张卡都得到两个预测。各卡合并后执行一步，因此两张卡持有同一个新的 x。",
}

TITLE = {
    "en": "CFG parallel: a branch on each card, one gather, the same step",
    "zh": "CFG 并行：每张卡一个分支，一次 AllGather，同一步",
}
HEADS = {
    "en": ("x", "one call each", "prediction", "all-gather", "combined", "next x"),
    "zh": ("x", "各一次调用", "预测", "AllGather", "合并", "新的 x"),
}
BRANCHES = {
    "en": ("model,\nno condition", "model,\ncondition 3"),
    "zh": ("模型，\n无条件", "模型，\n条件 3"),
}
FOOT = {
    "en": "a step of a run on {ranks} ranks ({backend}); the trained model of digits, s = 3",
    "zh": "{ranks} 张卡的一次运行中的一步({backend})；已训练的数字模型，s = 3",
}
MARKS = {"en": ("none", "3"), "zh": ("无", "3")}


def half_way(model, label) -> tuple:
    """x half-way through a guided run of twenty steps, its time, and the time of a picture nearly clean."""
    from mindlab.models import digits

    x, uncond, times = digits.first_noise(1, seed=4), label * 0 + digits.NULL, digits.times(20)
    for t, later in zip(times[:12, None], times[1:, None], strict=False):
        x = digits.denoise_step(x, digits.guided(model, x, t, label, uncond, 3.0), t, later)
    return x.detach(), times[12, None], times[17, None]


def experiment() -> list:
    """x, this rank's prediction, both predictions, the combined one, the next x; half-way through a run."""
    import torch
    import torch.distributed as dist

    from mindlab.models import digits

    model, label = digits.load_digits(), torch.tensor([3])
    x, t, later = half_way(model, label)
    branch = torch.full_like(label, digits.NULL) if dist.get_rank() == 0 else label
    with torch.no_grad():
        mine = model(x, t, branch)
        both = [torch.empty_like(mine) for _ in range(2)]
        dist.all_gather(both, mine)
        guided = both[0] + 3.0 * (both[1] - both[0])
        after = digits.denoise_step(x, guided, t, later)
    return [each[0, 0].numpy() for each in (x, mine, *both, guided, after)]


def lane(board: Board, rank: int, y: float, shown: list, language: str) -> None:
    """The row of a rank, its pictures' upper edge at y."""
    x, mine, eps_u, eps_c, guided, after = shown
    middle = y + SIZE / 2
    board.chip(rank, 0.35, middle)
    thumbnail(board, x, 0.65, y, (SIZE, SIZE), EPSILON)
    board.fill(1.75, y - 0.05, 1.3, SIZE + 0.1, rank)
    board.on_fill(2.4, middle, BRANCHES[language][rank], style.SMALL, rank)
    thumbnail(board, mine, 3.45, y, (SIZE, SIZE), EPSILON)
    for which, one in enumerate((eps_u, eps_c)):
        thumbnail(board, one, 4.95, y - 0.12 + which * 0.5, (0.46, 0.46), EPSILON)
        board.text(5.47, y + 0.11 + which * 0.5, MARKS[language][which], style.SMALL, ha="left")
    thumbnail(board, guided, 6.2, y, (SIZE, SIZE), EPSILON)
    thumbnail(board, after, 7.4, y, (SIZE, SIZE), EPSILON)
    for start, end in ((1.4, 1.7), (3.1, 3.4), (5.85, 6.15), (6.95, 7.35)):
        board.arrow((start, middle), (end, middle), style.LINE, 2)


def draw(language: str = "en") -> Figure:
    """The Figure: a row a rank."""
    run = ml.launch(experiment, ranks=2)
    board = Board(None, style.FULL_WIDTH, 3.75, language)
    board.title(TITLE[language])
    for x, said in zip((1.0, 2.4, 3.8, 4.55, 6.55, 7.75), HEADS[language], strict=True):
        board.text(x, 0.62, said, style.SMALL)
    tops = 0.95, 2.35
    for rank, shown in enumerate(run.values):
        lane(board, rank, tops[rank], shown, language)
    for source in range(2):
        for target in range(2):
            start, end = tops[source] + SIZE / 2, tops[target] + 0.11 + source * 0.5
            board.arrow((4.2, start), (4.9, end), style.colour(source), 2.5)
    said = FOOT[language].format(ranks=run.ranks, backend=run.backend)
    board.foot([said])
    describe(board.ax, ALT[language])
    return board.figure
