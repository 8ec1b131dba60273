"""Expert parallel on four ranks: tokens to their experts, and back, as a trained router chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import mindlab as ml
from mindlab.draw import style
from mindlab.draw.board import MARGIN, Board, wrap
from mindlab.draw.picture import describe
from mindlab.predict import units
from mindlab.predict.placement import experts_of, holders

RANKS, TOKENS, EXPERTS = 4, 3, 8
STRIP, ROOM, CELL = 1.42, 1.7, 0.54
"""Inches: the words at the left, the column of a rank, a token."""
HEIGHT = 5.2
GIVEN, CHOSEN, ARRIVED, WEIGHED, RESULT = 0.8, 1.18, 2.55, 4.05, 4.27
"""From above: tokens, their choices, the rows at the experts, the weights, the results."""

ALT = {
    "en": "Four ranks with three tokens each, and two of eight experts on each rank. A trained router picks "
    "two experts for each token. Dispatch: a line goes from each choice to the row of its expert, "
    "from rank to rank. Each expert works on what came, from all ranks: expert 4 on eight rows, "
    "expert 7 on none. Combine: each row goes back to its token, is multiplied with the router's "
    "weight, and the two are added.",
    "zh": "4 张卡，每张卡 3 个 Token、8 个专家中的 2 个。已训练的路由为每个 Token 选两个专家。分派：每个选择"
    "有一条线，到其专家所在的卡上的一行。每个专家计算来自全部卡的行：专家 4 有 8 行，专家 7 没有。回收：每"
    "一行回到其 Token，乘以路由权重，两项相加。",
}

TITLE = {
    "en": "Expert parallel: each token travels to its experts, and the results come back",
    "zh": "专家并行：每个 Token 到其专家所在的卡，结果再返回",
}
HEADS = {
    "en": ("1  Route", "2  Dispatch", "3  Experts", "4  Combine"),
    "zh": ("1  路由", "2  分派", "3  专家", "4  回收"),
}
SAID = {
    "en": (
        "2 experts for each token",
        "AllToAll: {there} of {all} rows leave their rank, {size}",
        "{most} rows on rank {busy}, {least} on rank {idle}",
        "AllToAll back: {back} rows. Then weights, and the sum",
    ),
    "zh": (
        "每个 Token 选 2 个",
        "AllToAll：{all} 行中 {there} 行离开本卡，{size}",
        "卡 {busy} 有 {most} 行，卡 {idle} 有 {least} 行",
        "AllToAll 返回：{back} 行。再乘权重，相加",
    ),
}
OWN = {"en": "sends {sent}, gets {got}", "zh": "发送 {sent}，接收 {got}"}
FOOT = {
    "en": (
        "number: the token. Colour: the rank it comes from; of E and weights: the expert's rank. "
        "Grey lines stay on their rank",
        "routes and messages of a run on {ranks} ranks ({backend}); last layer of the trained model",
    ),
    "zh": (
        "数字：Token。颜色：来自的卡；E 与权重的颜色：专家所在的卡。灰色线留在本卡",
        "{ranks} 张卡的一次运行中的路由与消息({backend})；已训练模型的最后一层",
    ),
}


def experiment() -> tuple:
    """This rank's tokens as texts, their experts, and the weights: the last layer of the trained model."""
    import torch
    import torch.distributed as dist

    from mindlab.models.moe import load_moe
    from mindlab.models.tokens import decode, encode, shipped_text
    from mindlab.parallel.expert import ExpertParallelMoE

    model, text = load_moe(), shipped_text()
    ids = encode(text[text.index("Formulas do not see") :])
    mine = ids[:, 300 * dist.get_rank() :][:, :TOKENS]
    layer = model.blocks[-1].mlp
    reaching: list[torch.Tensor] = []
    layer.register_forward_pre_hook(lambda _, given: reaching.append(given[0][0]))
    with torch.no_grad():
        model(mine)
    split = ExpertParallelMoE.from_full(layer)
    split(reaching[0])
    route = split.last_route
    return [decode(one[None]) for one in mine[0]], route.experts.tolist(), route.weights.tolist()


def sent(run: ml.Run, which: int) -> list[tuple[list[int], list[int]]]:
    """By rank, the rows (bytes) sent and received in one of the exchanges of vectors: 0 there, 1 back."""
    calls = [[e for e in run.events if e.rank == rank and e.dtype == "float32"] for rank in range(run.ranks)]
    ends = [(each[which].sends, each[which].receives) for each in calls]
    return [([n for _, n in out], [n for _, n in back]) for out, back in ends]


class Plan:
    """Where everything stands: the choices of all tokens, and the rows of each rank's experts."""

    def __init__(self, values: Sequence[tuple]) -> None:
        self.held = holders(EXPERTS, RANKS)
        self.rows: dict[tuple[int, int, int], tuple[float, float]] = {}
        """(rank, token, choice): the left edge and width of its row at the expert."""
        self.bars: dict[int, tuple[float, float]] = {}
        came: dict[int, list[tuple[int, int, int]]] = {expert: [] for expert in range(EXPERTS)}
        for rank, (_, experts, _) in enumerate(values):
            for token, chosen in enumerate(experts):
                for choice, expert in enumerate(chosen):
                    came[expert].append((rank, token, choice))
        self.load = [sum(len(came[e]) for e in experts_of(self.held, rank)) for rank in range(RANKS)]
        wide = min(0.19, (ROOM - 0.24) / max(self.load))
        for rank in range(RANKS):
            counts = [max(1.4 * wide, wide * len(came[e])) for e in experts_of(self.held, rank)]
            left = column(rank) + (ROOM - sum(counts) - 0.12 * (len(counts) - 1)) / 2
            for expert, room in zip(experts_of(self.held, rank), counts, strict=True):
                start = left + (room - wide * len(came[expert])) / 2
                self.rows |= {who: (start + i * wide, wide) for i, who in enumerate(came[expert])}
                self.bars[expert] = (left, room)
                left += room + 0.12


def column(rank: int) -> float:
    """The left edge of a rank's column."""
    return STRIP + rank * ROOM


def cell(rank: int, token: int) -> float:
    """The left edge of a token."""
    return column(rank) + (ROOM - TOKENS * CELL) / 2 + token * CELL


def line(board: Board, start: tuple[float, float], end: tuple[float, float], fill: str) -> None:
    """A line from a token's choice to a row, or back: in grey where it stays on its rank."""
    look: dict[str, Any] = {"solid_capstyle": "butt", "zorder": 1}
    xs, ys = (start[0], end[0]), (start[1], end[1])
    if fill != style.LINE:
        board.ax.add_line(Line2D(xs, ys, color=style.INK, lw=2.2, **look))
    board.ax.add_line(Line2D(xs, ys, color=fill, lw=1.5, **look))


def draw_token(board: Board, rank: int, token: int, text: str, top: float) -> None:
    """A token: its number, and what it says."""
    x = cell(rank, token)
    board.fill(x + 0.01, top, CELL - 0.02, 0.36, rank)
    number = str(rank * TOKENS + token)
    board.on_fill(x + CELL / 2, top + 0.1, number, style.SMALL, rank)
    if text:
        board.on_fill(x + CELL / 2, top + 0.26, text, style.TINY, rank)


def draw_choice(board: Board, plan: Plan, who: tuple[int, int, int], expert: int, weight: float) -> None:
    """One choice of a token: its expert above, its row, its weight below, and the lines between."""
    rank, token, choice = who
    holder, (left, wide) = plan.held[expert][0], plan.rows[who]
    x = cell(rank, token) + 0.01 + choice * (CELL / 2 - 0.01)
    middle, row = x + CELL / 4 - 0.005, left + wide / 2
    for top, text in ((CHOSEN, f"E{expert}"), (WEIGHED, f"{weight:.2f}")):
        board.fill(x, top, CELL / 2 - 0.01, 0.2, holder)
        ink = style.ink_on(style.colour(holder))  # not bold, as it must fit
        board.text(middle, top + 0.1, text, style.TINY, color=ink)
    board.fill(left, ARRIVED, wide, 0.2, rank, lw=0.5)
    board.on_fill(row, ARRIVED + 0.1, str(rank * TOKENS + token), style.TINY, rank)
    fill = style.LINE if holder == rank else style.colour(rank)
    line(board, (middle, CHOSEN + 0.22), (row, ARRIVED - 0.01), fill)
    line(board, (row, ARRIVED + 0.48), (middle, WEIGHED - 0.02), fill)


def draw_words(board: Board, run: ml.Run, plan: Plan, language: str) -> None:
    """The words at the left, with the counts of the record, and those above the columns."""
    there, back = sent(run, 0), sent(run, 1)
    row = 4 * 64
    total, home = (sum(sum(each[0]) for each in way) for way in (there, back))
    busy, idle = plan.load.index(max(plan.load)), plan.load.index(min(plan.load))
    values = {"there": total // row, "all": sum(plan.load), "size": units.size(total), "back": home // row}
    values |= {"busy": busy, "most": plan.load[busy], "idle": idle, "least": plan.load[idle]}
    tops = GIVEN + 0.1, CHOSEN + 0.5, ARRIVED + 0.02, WEIGHED - 0.66
    for y, head, said in zip(tops, HEADS[language], SAID[language], strict=True):
        board.text(MARGIN, y, head, style.TEXT, ha="left", fontweight="bold")
        for i, part in enumerate(wrap(said.format(**values), STRIP - MARGIN - 0.05)):
            board.text(MARGIN, y + 0.18 + 0.15 * i, part, style.SMALL, ha="left")
    for rank, (out, got) in enumerate(there):
        board.chip(rank, column(rank) + 0.18, 0.6, 0.24)
        said = OWN[language].format(sent=sum(out) // row, got=sum(got) // row)
        board.text(column(rank) + 0.38, 0.6, said, style.SMALL, ha="left")


def draw(language: str = "en") -> Figure:
    """The Figure: a column a rank; from above tokens, the way there, experts, the way back, results."""
    run = ml.launch(experiment, ranks=RANKS)
    plan = Plan(run.values)
    board = Board(None, style.FULL_WIDTH, HEIGHT, language)
    board.title(TITLE[language])
    draw_words(board, run, plan, language)
    for rank, (texts, experts, weights) in enumerate(run.values):
        for token, text in enumerate(texts):
            draw_token(board, rank, token, text.strip(), GIVEN)
            draw_token(board, rank, token, "Σ", RESULT)
            for choice in range(len(experts[token])):
                who = rank, token, choice
                draw_choice(board, plan, who, experts[token][choice], weights[token][choice])
    for expert, (left, wide) in plan.bars.items():
        holder = plan.held[expert][0]
        board.fill(left, ARRIVED + 0.21, wide, 0.26, holder)
        board.on_fill(left + wide / 2, ARRIVED + 0.34, f"E{expert}", style.TINY, holder)
    board.foot([said.format(ranks=run.ranks, backend=run.backend) for said in FOOT[language]])
    describe(board.ax, ALT[language])
    return board.figure
