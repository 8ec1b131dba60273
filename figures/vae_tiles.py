"""A latent cut into four tiles, decoded on four ranks with halos and shared statistics, and joined again."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, style
from mindlab.draw.board import Board
from mindlab.draw.picture import describe
from mindlab.draw.thumbnails import photograph, thumbnail
from mindlab.models.vae import load_photo, load_vae
from mindlab.parallel.tiles import decode_tiled, exchange_halo, join_tiles, receptive_field, split_tiles
from mindlab.predict import units
from mindlab.predict.tilings import Box, tiling

GRID, SIZE, HALO = (2, 2), (42, 56), 6
CUT = tiling(SIZE, GRID)
"""Tiles, latent pixels, and the halo of the shipped decoder."""
PIXEL, TOP, COLUMN, APART = 0.0265, 1.3, 2.06, 0.06
"""Inches."""

ALT = {
    "en": "A photograph's latent on four ranks, in 2 x 2 tiles. Each rank fetches a halo of 6 latent pixels "
    "from two tiles beside its own and one at the corner, and decodes its tile with it; the norms use the "
    "statistics of all tiles. The halo's part is cut off. Joined, it is the picture that one card decodes.",
    "zh": "4 张卡上一张照片的潜变量，切成 2 x 2 个图块。每张卡从旁边两块与对角一块取 6 个像素宽的晕区。连同"
    "晕区一起解码；归一化使用全部图块的统计量。晕区解码出的部分裁掉，四块拼接后与单卡解码的图像相同。",
}

TITLE = {"en": "VAE tiles: fetch a halo, decode, cut, join", "zh": "VAE 图块：取晕区，解码，裁剪，拼接"}
HEADS = {"en": ("Cut", "Halo", "Decode", "Join"), "zh": ("切分", "晕区", "解码", "拼接")}
SAID = {
    "en": (
        "the latent: a tile on each rank",
        "{halo} pixels from neighbours\nand corner, {size} in all",
        "with the halo. {norms} norms, each\nwith statistics of all tiles",
        "what is pale is cut off:\nthe picture of one card",
    ),
    "zh": (
        "潜变量：每张卡一个图块",
        "从相邻与对角取 {halo} 个像素，\n共 {size}",
        "连同晕区解码。{norms} 个归一化\n都用全部图块的统计量",
        "裁掉浅色部分，\n与单卡的图像相同",
    ),
}
KEY = {
    "en": "colour: the rank; of a halo, the rank it came from. Grey: one of the latent's 4 channels",
    "zh": "颜色：卡；晕区的颜色：来自的卡。灰度：潜变量 4 个通道之一",
}
PHOTO = {"en": "photograph (reduced, cut): {by}", "zh": "照片(缩小并裁剪)：{by}"}
BY = "danielbuechele (Flickr), CC BY 2.0"


def latent_of_photo() -> tuple:
    """The decoder, and the latent of a part of the photograph."""
    model = load_vae().requires_grad_(False)
    return model.decoder, model.encode(load_photo()[..., : 4 * SIZE[0], 16 : 16 + 4 * SIZE[1]])


def experiment() -> tuple:
    """This rank's latent with its halo, whose pixels these are, all that it decodes, and its tile of that."""
    decoder, latent = latent_of_photo()
    tile = split_tiles(latent, GRID)[dist.get_rank()]
    owner = exchange_halo(torch.full_like(tile[:, :1], dist.get_rank()), HALO, CUT)
    ml.step("halo")
    wide, made = exchange_halo(tile, HALO, CUT), []
    ml.step("decode")
    decoder[-1].register_forward_hook(lambda *call: made.append(call[-1]))
    own = decode_tiled(decoder, tile, tiles=CUT)
    return wide[0, 3].numpy(), owner[0, 0].int().numpy(), made[0][0], own


def corner(rank: int, box: Box, column: int, apart: float) -> tuple[float, float]:
    """The upper left corner of a box of latent pixels, tiles standing `apart` from each other."""
    x, y = 0.17 + column * COLUMN, TOP
    return x + box[1].start * PIXEL + rank % 2 * apart, y + box[0].start * PIXEL + rank // 2 * apart


def draw_halo(board: Board, owner: np.ndarray, rank: int, place: tuple[float, float], pale: bool) -> None:
    """Over a tile with its halo: the halo in the colours of those it came from, or made pale."""
    for source in map(int, np.unique(owner[owner != rank])):
        down, across = (np.unique(places) for places in np.nonzero(owner == source))
        x, y = place[0] + across[0] * PIXEL, place[1] + down[0] * PIXEL
        wide, tall = len(across) * PIXEL, len(down) * PIXEL
        fill = style.PAPER if pale else style.colour(source)
        board.cell(x, y, wide, tall, facecolor=fill, alpha=0.75, edgecolor="none", zorder=3)
        if not pale:
            board.tag(source, x + wide / 2, y + tall / 2)


def draw_rank(board: Board, rank: int, value: tuple) -> None:
    """One rank's tile, in each of the four columns."""
    latent, owner, made, own = value
    tile, outer = CUT.tile(rank), CUT.wide(rank, ((HALO, HALO),) * 2)
    rows, columns = (slice(a.start - b.start, a.stop - b.start) for a, b in zip(tile, outer, strict=True))
    small, large = ((len(box[1]) * PIXEL, len(box[0]) * PIXEL) for box in (tile, outer))
    x, y = corner(rank, tile, 0, APART)
    thumbnail(board, latent[rows, columns], x, y, small, (-8, 8))
    board.tag(rank, x + small[0] / 2, y + small[1] / 2)
    shift = 2 * HALO * PIXEL + APART  # so that tiles with their halos do not lie on each other
    thumbnail(board, latent, *corner(rank, outer, 1, shift), large, (-8, 8))
    photograph(board, made[..., ::2, ::2], *corner(rank, outer, 2, shift), large)
    photograph(board, own[0], *corner(rank, tile, 3, 0.0), small)
    for column, apart in enumerate((APART, shift, shift)):
        look = {"facecolor": "none", "edgecolor": style.colour(rank), "lw": 2.0, "zorder": 4}
        board.cell(*corner(rank, tile, column, apart), *small, **look)
        if column:
            draw_halo(board, owner, rank, corner(rank, outer, column, apart), column == 2)


def draw(language: str = "en") -> Figure:
    """The Figure: a column a step. Raises AssertionError if the joined picture is not that of one card."""
    run = ml.launch(experiment, ranks=4)
    decoder, latent = latent_of_photo()
    joined = join_tiles([own for *_, own in run.values], GRID)
    torch.testing.assert_close(joined, decoder(latent), atol=1e-4, rtol=0)  # rounding of seven norms
    norms = len(receptive_field(decoder).norms)
    size = units.size(sum(n for e in run.events if e.label == "halo" for _, n in e.sends))
    board = Board(None, style.FULL_WIDTH, 3.42, language)
    board.title(TITLE[language])
    for column, (head, said) in enumerate(zip(HEADS[language], SAID[language], strict=True)):
        x = 0.17 + column * COLUMN
        board.text(x, 0.7, f"{column + 1}  {head}", style.TEXT, ha="left", fontweight="bold")
        words = said.format(halo=HALO, size=size, norms=norms)
        board.text(x, 0.86, words, style.SMALL, ha="left", va="top")
    for rank, value in enumerate(run.values):
        draw_rank(board, rank, value)
    said = labels.say("from_calls", language, ranks=run.ranks, backend=run.backend)
    board.foot([KEY[language], f"{said}; {PHOTO[language].format(by=BY)}"])
    describe(board.ax, ALT[language])
    return board.figure
