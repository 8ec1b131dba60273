"""A picture on eight ranks: CFG, ring and Ulysses as axes of a step, then VAE tiles on the same ranks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from matplotlib.figure import Figure
from torch import Tensor

import mindlab as ml
from mindlab.draw import labels, style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe
from mindlab.draw.thumbnails import photograph
from mindlab.models.vae import load_photo, load_vae
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.cfg import cfg_parallel
from mindlab.parallel.hybrid import hybrid_attention
from mindlab.parallel.mesh import device_mesh, own_shard
from mindlab.parallel.tiles import decode_tiled, join_tiles
from mindlab.predict import units
from mindlab.predict.meshes import axis_groups
from mindlab.predict.tilings import tiling

AXES = {"ring": 2, "ulysses": 2, "cfg": 2}
SIZE, GRID, HEADS = (32, 40), (4, 2), 4
"""A latent: four bands of rows in a step; the halves of bands are the tiles."""
PIXEL, TOP, MAPS, PICTURE = 0.042, 1.45, (0.85, 3.1), 6.2
"""Inches: a latent pixel; the upper edge; the left edges of both branches, and of the tiles."""
TALL, WIDE = (side * PIXEL for side in SIZE)

ALT = {
    "en": "Eight ranks. In each step they are two branches of guidance, each a ring of 2 times Ulysses over "
    "2 with four bands of the latent's rows. Ranks 2i and 2i + 1 have band i, one without the "
    "condition, one with it. At the end the same eight ranks have a VAE tile each: a half of their band.",
    "zh": "8 张卡。每一步中是引导的两个分支，各为环 2 乘 Ulysses 2，潜变量按行分为 4 条。卡 2i 与 2i + 1 持有"
    "第 i 条，一张无条件，一张有条件。最后同样的 8 张卡各有一个 VAE 图块：本条的一半。",
}

TITLE = {
    "en": "One picture, eight cards: axes of a step multiply, the next phase reuses the cards",
    "zh": "一张图像，8 张卡：同一步的各维相乘，下一阶段复用这些卡",
}
WORDS = {
    "en": (
        "1  Each step: CFG 2 x ring 2 x Ulysses 2 = 8 cards",
        "a card sends: Ulysses {ulysses}, ring {ring}, CFG {cfg}",
        "2  At the end: 8 VAE tiles",
        "the same 8 cards, not 8 x 8;\nhalo, norms: {decode} (mean)",
    ),
    "zh": (
        "1  每一步：CFG 2 x 环 2 x Ulysses 2 = 8 张卡",
        "每张卡发送：Ulysses {ulysses}，环 {ring}，CFG {cfg}",
        "2  最后：8 个 VAE 图块",
        "同样的 8 张卡，不是 8 x 8；\n晕区、归一化：平均 {decode}",
    ),
}
MARKS = {
    "en": ("latent, no condition", "latent, condition", "ring", "half a\nband each"),
    "zh": ("潜变量，无条件", "潜变量，有条件", "环", "各取\n半条"),
}
KEY = {
    "en": "number and colour: the rank. Attention without weights; the trained VAE decoder",
    "zh": "数字与颜色：卡。不带权重的注意力；已训练的 VAE 解码器",
}
PHOTO = {"en": "photograph (reduced, cut): {by}", "zh": "照片(缩小并裁剪)：{by}"}
BY = "danielbuechele (Flickr), CC BY 2.0"


def guided(attend: Callable[..., Tensor]) -> tuple:
    """A model of one attention on pixels of the latent; with what it is called, x (1, s, 4) first."""

    def model(x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        heads = (x + condition[:, None]).repeat(1, 1, 8).unflatten(-1, (HEADS, 8))
        return 0.05 * attend(heads, heads, heads).reshape(*x.shape[:2], 8, 4).mean(2)

    photo = load_photo()[..., 20 : 20 + 4 * SIZE[0], 30 : 30 + 4 * SIZE[1]]
    x = load_vae().encode(photo).detach().flatten(2).transpose(1, 2)
    return model, x, torch.tensor(0.5), torch.ones(1, 4), torch.zeros(1, 4)


def experiment() -> tuple[list[int], Tensor]:
    """This rank's rows in a step, and its tile of the picture."""
    mesh = device_mesh(AXES)
    sizes = [[prod(SIZE) // 4] * 2] * 2
    model, x, *given = guided(lambda *qkv: hybrid_attention(*qkv, mesh, sizes=sizes))
    mine = own_shard(x, mesh)
    mine = mine - cfg_parallel(model, mine, *given, 3.0, mesh.get_group("cfg"))
    ml.step("decode")
    band = mine.transpose(1, 2).unflatten(2, (-1, SIZE[1]))
    tile = band.tensor_split(2, 3)[mesh.get_local_rank("cfg")].contiguous()
    picture = decode_tiled(load_vae().decoder, tile, tiles=tiling(SIZE, GRID))
    return (own_shard(torch.arange(prod(SIZE)), mesh, dim=0)[:: SIZE[1]] // SIZE[1]).tolist(), picture


def on_one_card() -> Tensor:
    """The same step and picture on one card."""
    model, x, t, cond, uncond = guided(lambda *qkv: attention_with_lse(*qkv)[0])
    with torch.no_grad():
        eps_u, eps_c = model(x, t, uncond), model(x, t, cond)
        x = x - eps_u - 3.0 * (eps_c - eps_u)
        return load_vae().decoder(x.transpose(1, 2).unflatten(2, SIZE))


def line(board: Board, start: tuple[float, float], end: tuple[float, float], said: str = "") -> None:
    """A grey line with two heads; an upright one may have a name."""
    look = {
        "arrowstyle": "<|-|>",
        "color": style.FADED,
        "lw": 1.1,
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 7,
    }
    board.ax.annotate("", end, start, arrowprops=look)
    ground = {"boxstyle": "square,pad=0.1", "facecolor": style.PAPER, "edgecolor": "none"}
    board.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, said, style.TINY, rotation=90, bbox=ground)


def draw_step(board: Board, rows: list[list[int]], language: str) -> None:
    """Both branches: the bands of the latent, and between them who talks on which axis."""
    *branches, ring, _ = MARKS[language]
    for rank, own in enumerate(rows):
        x, y, high = MAPS[rank % 2], TOP + own[0] * PIXEL, len(own) * PIXEL
        board.fill(x, y, WIDE, high, rank)
        board.on_fill(x + WIDE / 2, y + high / 2, str(rank), style.TEXT, rank)
        if rank % 2 == 0:
            line(board, (x + WIDE + 0.04, y + high / 2), (MAPS[1] - 0.04, y + high / 2))
    board.text((MAPS[0] + WIDE + MAPS[1]) / 2, TOP - 0.02, "CFG", style.TINY)
    for x, said, edge, out in zip(MAPS, branches, (MAPS[0], MAPS[1] + WIDE), (-1, 1), strict=True):
        board.text(x + WIDE / 2, TOP + TALL + 0.14, said, style.SMALL)
        for part in (0, 1):
            ends = (TOP + (part + at) * TALL / 2 for at in (0.03, 0.97))
            line(board, *((edge + out * 0.15, y) for y in ends), "Ulysses")
        line(board, *((edge + out * 0.38, TOP + at * TALL) for at in (0.15, 0.85)), ring)


def draw_tiles(board: Board, picture: Tensor) -> None:
    """The picture, and whose each tile is."""
    photograph(board, picture, PICTURE, TOP, (WIDE, TALL))
    for rank in range(prod(GRID)):
        rows, columns = tiling(SIZE, GRID).tile(rank)
        x, y = PICTURE + columns.start * PIXEL, TOP + rows.start * PIXEL
        size = len(columns) * PIXEL - 0.03, len(rows) * PIXEL - 0.03
        look = {"facecolor": "none", "edgecolor": style.colour(rank), "lw": 1.8, "zorder": 4}
        board.cell(x + 0.015, y + 0.015, *size, **look)
        board.tag(rank, x + 0.12, y + 0.12)


def draw(language: str = "en") -> Figure:
    """The Figure: a step, then the tiles. Raises AssertionError if one card makes another picture."""
    run = ml.launch(experiment, ranks=8)
    rows, tiles = zip(*run.values, strict=True)
    torch.testing.assert_close(join_tiles(tiles, GRID), on_one_card(), atol=1e-4, rtol=0)
    sent = {axis: units.size(int(run.sent_within(groups)[0])) for axis, groups in axis_groups(AXES).items()}
    sent["decode"] = units.size(sum(n for e in run.events if e.label == "decode" for _, n in e.sends) // 8)
    board = Board(None, style.FULL_WIDTH, 3.5, language)
    board.title(TITLE[language])
    for i, words in enumerate(WORDS[language]):
        look = {"va": "top", "fontweight": "bold"} if i % 2 == 0 else {"va": "top"}
        x, size = (0.4, PICTURE - 0.3)[i // 2], (style.TEXT, style.SMALL)[i % 2]
        board.text(x, 0.66 + 0.24 * (i % 2), words.format(**sent), size, ha="left", **look)
    draw_step(board, rows, language)
    middle, start = TOP + TALL / 2, MAPS[1] + WIDE + 0.58
    board.arrow((start, middle), (PICTURE - 0.12, middle), style.GRID, 5.0, head=9.0)
    board.text((start + PICTURE - 0.12) / 2, middle + 0.28, MARKS[language][3], style.TINY)
    draw_tiles(board, join_tiles(tiles, GRID)[0])
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    board.foot([KEY[language], f"{said}; {PHOTO[language].format(by=BY)}"])
    describe(board.ax, ALT[language])
    return board.figure
