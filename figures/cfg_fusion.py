"""CFG fusion on one card: both branches in one batch, one call of the model."""

from __future__ import annotations

from matplotlib.figure import Figure

from mindlab.draw import style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe
from mindlab.draw.thumbnails import thumbnail

SIZE = 0.7
EPSILON = (-2.5, 2.5)

ALT = {
    "en": "One denoising step on one card. The noisy picture x stands twice in a batch, once without a "
    "condition and once with the condition 3. One call of the model gives both predictions. They are taken "
    "apart and combined, and one step gives the next x.",
    "zh": "单卡上的一个去噪步骤。噪声图像 x 在批次中出现两次，一次无条件，一次带条件 3。一次模型调用得到两个"
    "预测。拆分后合并，再执行一步得到新的 x。",
}

TITLE = {
    "en": "CFG fusion: both branches in one batch, one call",
    "zh": "CFG 融合：两个分支在同一批次，一次调用",
}
HEADS = {
    "en": ("x", "batch of two", "one call", "both predictions", "combined", "next x"),
    "zh": ("x", "两倍批次", "一次调用", "两个预测", "合并", "新的 x"),
}
ENTRIES = {"en": ("no condition", "condition 3"), "zh": ("无条件", "条件 3")}
MODEL = {"en": "model", "zh": "模型"}
FOOT = {
    "en": "the trained model of digits, half-way through a run; on one card, nothing measured",
    "zh": "已训练的数字模型，去噪的一步；单卡，并非测量",
}


def half_way(model) -> tuple:
    """x half-way through a guided run of twenty steps, its time, and the time of a picture nearly clean."""
    import torch

    from mindlab.models import digits

    label, x, times = torch.tensor([3]), digits.first_noise(1, seed=4), digits.times(20)
    for t, later in zip(times[:12, None], times[1:, None], strict=False):
        x = digits.denoise_step(x, digits.guided(model, x, t, label, label * 0 + digits.NULL, 3.0), t, later)
    return x.detach(), times[12, None], times[17, None]


def experiment() -> list:
    """x, both predictions, the combined one, the next x; half-way through a run."""
    import torch

    from mindlab.models import digits

    model = digits.load_digits()
    x, t, later = half_way(model)
    conditions = torch.tensor([digits.NULL, 3])
    with torch.no_grad():
        eps_u, eps_c = model(torch.cat([x, x]), torch.cat([t, t]), conditions).chunk(2)
        guided = eps_u + 3.0 * (eps_c - eps_u)
        after = digits.denoise_step(x, guided, t, later)
    return [each[0, 0].numpy() for each in (x, eps_u, eps_c, guided, after)]


def draw(language: str = "en") -> Figure:
    """The Figure: the batch from left to right."""
    x, eps_u, eps_c, guided, after = experiment()
    board = Board(None, style.FULL_WIDTH, 3.3, language)
    board.title(TITLE[language])
    for at, said in zip((0.6, 2.1, 3.75, 5.0, 6.4, 7.75), HEADS[language], strict=True):
        board.text(at, 0.62, said, style.SMALL)
    middle, tops = 1.8, (0.9, 2.0)
    thumbnail(board, x, 0.25, middle - SIZE / 2, (SIZE, SIZE), EPSILON)
    for y, said, eps in zip(tops, ENTRIES[language], (eps_u, eps_c), strict=True):
        thumbnail(board, x, 1.75, y, (SIZE, SIZE), EPSILON)
        board.text(2.1, y + SIZE + 0.12, said, style.SMALL)
        thumbnail(board, eps, 4.65, y, (SIZE, SIZE), EPSILON)
        board.arrow((1.0, middle), (1.7, y + SIZE / 2), style.LINE, 2)
        for start, end in ((2.5, 3.15), (4.3, 4.6)):
            board.arrow((start, y + SIZE / 2), (end, y + SIZE / 2), style.LINE, 2)
        board.arrow((5.4, y + SIZE / 2), (6.0, middle), style.LINE, 2)
    board.fill(3.2, 0.85, 1.1, 1.95, 0)
    board.on_fill(3.75, middle, MODEL[language], style.TEXT, 0)
    thumbnail(board, guided, 6.05, middle - SIZE / 2, (SIZE, SIZE), EPSILON)
    thumbnail(board, after, 7.4, middle - SIZE / 2, (SIZE, SIZE), EPSILON)
    board.arrow((6.8, middle), (7.35, middle), style.LINE, 2)
    board.foot([FOOT[language]])
    describe(board.ax, ALT[language])
    return board.figure
