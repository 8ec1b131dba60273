"""Four layouts of one guided step on two hosts of four: which axis stays inside a host, and its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

import mindlab as ml
from mindlab.draw import style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe
from mindlab.models.digits import NULL, guided, load_digits
from mindlab.parallel.combined import MeshDigits, mesh_guided
from mindlab.parallel.mesh import device_mesh
from mindlab.predict import units
from mindlab.predict.meshes import axis_groups

HOST = 4
"""Ranks of a host: 0 to 3, 4 to 7."""
LAYOUTS = (
    {"cfg": 2, "ulysses": 4, "tensor": 1, "ring": 1},
    {"cfg": 2, "ring": 2, "ulysses": 2, "tensor": 1},
    {"cfg": 2, "tensor": 2, "ulysses": 2, "ring": 1},
    {"tensor": 2, "ulysses": 2, "cfg": 2, "ring": 1},
)
"""The outermost axis first: it is the one between the hosts. The last two differ in the order alone."""
TOP, LANE, HIGH, GAP, CHIP = 0.62, 1.34, 0.44, 0.24, 0.22
HOSTS, FIRST, PITCH, NAME, BAR, LONGEST = 0.7, 0.97, 0.62, 3.5, 4.2, 2.4
"""Inches, downwards and across: the hosts and their cards, an axis's name, its bar."""
THICKEST, BEND = 6.0, 0.16
"""Points: the line of the pair that sends most; how far an arc leans out."""

ALT = {
    "en": "Four layouts of eight cards on two hosts, a guided step each. CFG 2 x Ulysses 4, CFG 2 x ring 2 x "
    "Ulysses 2, CFG 2 x tensor 2 x Ulysses 2: the CFG axis is between the hosts and sends at most 128 bytes "
    "a card, the axes inside a host 8 to 16 KiB. Tensor 2 x Ulysses 2 x CFG 2 sends the same bytes as the "
    "layout before it, but its tensor axis, 16 KiB a card, is between the hosts.",
    "zh": "8 张卡、两台主机的四种布局，各运行一步引导。CFG 2 x Ulysses 4、CFG 2 x 环 2 x Ulysses 2、CFG 2 x "
    "张量 2 x Ulysses 2：CFG 维跨主机，每卡最多发送 128 字节，主机内各维每卡 8 到 16 KiB。张量 2 x Ulysses 2 "
    "x CFG 2 发送的字节与前一种相同，但每卡 16 KiB 的张量维跨主机。",
}

TITLE = {
    "en": "Two hosts of four cards: the outermost axis runs between them, so let it be the lightest",
    "zh": "两台主机，各 4 张卡：最外层的维跨主机，应选字节最少的一维",
}
AXES = {
    "en": {"cfg": "CFG", "tensor": "tensor", "ring": "ring", "ulysses": "Ulysses"},
    "zh": {"cfg": "CFG", "tensor": "张量", "ring": "环", "ulysses": "Ulysses"},
}
WORDS = {
    "en": ("host {}", "{}, inside", "{}, between hosts", "all cards: {}, between hosts {}", ": reordered"),
    "zh": ("主机 {}", "{}，主机内", "{}，跨主机", "全部卡：{}，跨主机 {}", "：次序不同"),
}
KEY = {
    "en": "bars: what a card sends on an axis. Black: between hosts; grey: inside; thick lines: many bytes",
    "zh": "条形：每张卡在一维上的发送量。黑色：跨主机；灰色：主机内；线越粗字节越多",
}
FOOT = {
    "en": "bytes on the wire: a step of the digits model, {} ranks ({}) of one computer; hosts are assumed",
    "zh": "数字图像模型一步的实际线上字节；同一台计算机上的 {} 张卡({})，主机为假设",
}


def inputs() -> tuple[Any, ...]:
    """x, t, the label, that of no digit, the scale: one picture."""
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    return x, torch.full((1,), 0.7), torch.tensor([3]), torch.tensor([NULL]), 4.0


def experiment(axes: dict[str, int]) -> torch.Tensor:
    """One guided step on the mesh: the noise, on every rank."""
    return mesh_guided(MeshDigits.from_full(load_digits(), device_mesh(axes)), *inputs())


def launched(axes: dict[str, int]) -> tuple[ml.Run, np.ndarray]:
    """A run, and the bytes between a and b > a. Raises AssertionError for other noise, or without a wire."""
    run = ml.launch(experiment, axes, ranks=2 * HOST)
    torch.testing.assert_close(run.values, [guided(load_digits(), *inputs())] * run.ranks, atol=1e-5, rtol=0)
    assert run.wire is not None, run.why_no_wire
    return run, np.triu(run.wire.payload + run.wire.payload.T)


def link(board: Board, a: int, b: int, top: float, width: float) -> None:
    """A line between two ranks: upright between hosts, level between neighbours, else an arc."""
    apart = b - a
    out = 0 if apart in (1, HOST) else -1 if a < HOST else 1
    (x, y), (u, v) = ((x, y + out * CHIP / 2) for x, y in (at(a, top), at(b, top)))
    look = {"color": style.INK if apart == HOST else style.LINE, "lw": width, "shrinkA": 0, "shrinkB": 0}
    bend = f"arc3,rad={BEND * out}"
    board.ax.add_patch(FancyArrowPatch((x, y), (u, v), arrowstyle="-", connectionstyle=bend, **look))


def at(rank: int, top: float) -> tuple[float, float]:
    """The middle of a rank's chip; a host is a row, with room for arcs on its outer side."""
    host = rank // HOST
    return FIRST + rank % HOST * PITCH, top + host * (HIGH + GAP) + (0.16 if host else HIGH - 0.16)


def draw_hosts(board: Board, top: float, widths: np.ndarray, name: str) -> None:
    """Both hosts, their cards, and a line for each pair that talks."""
    for host in range(2):
        y, wide = top + host * (HIGH + GAP), 2 * (FIRST - HOSTS) + (HOST - 1) * PITCH
        board.cell(HOSTS, y, wide, HIGH, facecolor=style.EMPTY, edgecolor=style.GRID)
        board.text(HOSTS - 0.08, y + HIGH / 2, name.format(host), style.TINY, ha="right")
    for a, b in np.argwhere(widths):
        link(board, int(a), int(b), top, max(0.7, widths[a, b]))
    for rank in range(2 * HOST):
        board.chip(rank, *at(rank, top), CHIP)


def draw_axes(board: Board, top: float, axes: dict[str, int], sent: list[int], language: str) -> None:
    """A bar for each axis: what a card sends on it, the outermost one between the hosts."""
    for row, (axis, size) in enumerate(zip(axes, sent, strict=True)):
        y, long, outer = top + 0.34 + 0.24 * row, LONGEST * size / (1 << 14), row == 0
        board.text(NAME, y, AXES[language][axis], style.SMALL, ha="left")
        board.cell(BAR, y - 0.07, long, 0.14, facecolor=style.INK if outer else style.LINE, lw=0)
        said = WORDS[language][1 + outer].format(units.size(size))
        board.text(BAR + long + 0.07, y, said, style.SMALL, ha="left")


def draw(language: str = "en") -> Figure:
    """The Figure: a lane a layout. Raises AssertionError as `launched`."""
    runs = [launched(axes) for axes in LAYOUTS]
    board = Board(None, style.FULL_WIDTH, TOP + LANE * len(LAYOUTS) + 0.4, language)
    board.title(TITLE[language])
    host, *_, whole, turned = WORDS[language]
    for lane, (layout, (run, between)) in enumerate(zip(LAYOUTS, runs, strict=True)):
        top, axes = TOP + lane * LANE, {axis: size for axis, size in layout.items() if size > 1}
        draw_hosts(board, top, THICKEST * between / max(pairs.max() for _, pairs in runs), host)
        name = " x ".join(f"{AXES[language][axis]} {size}" for axis, size in axes.items())
        name += turned * (layout == LAYOUTS[lane - 1])  # equal but for the order
        board.text(NAME, top + 0.06, name, ha="left", fontweight="bold")
        sent = [int(max(run.wire_within(groups))) for groups in axis_groups(axes).values()]
        draw_axes(board, top, axes, sent, language)
        sums = (units.size(int(pairs.sum())) for pairs in (between, between[:HOST, HOST:]))
        y = top + 0.34 + 0.24 * len(axes)
        board.text(NAME, y, whole.format(*sums), style.SMALL, ha="left", color=style.FADED)
    board.foot([KEY[language], FOOT[language].format(run.ranks, run.backend)])
    describe(board.ax, ALT[language])
    return board.figure
