"""One step of a run as an SVG: the ranks, what travels between them, what each has received so far."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mindlab.draw import style
from mindlab.draw.rounds import Joint, Move, Round
from mindlab.predict import units

Got = Mapping[int, Mapping[int, int]]
"""Receiver -> sender -> bytes received up to and including this step."""


@dataclass(frozen=True)
class Stage:
    """Where the ranks stand, in pixels: on a ring, clockwise from the top; two side by side."""

    ranks: int

    @property
    def radius(self) -> float:
        return 78.0 if self.ranks == 2 else max(98.0, self.box * self.ranks * 1.45 / math.pi)

    @property
    def box(self) -> float:
        return 40.0 if self.ranks <= 8 else 32.0

    @property
    def width(self) -> int:
        return round(2 * self.radius + self.box + 40)

    @property
    def height(self) -> int:
        return 110 if self.ranks == 2 else round(2 * self.radius + self.box + 48)

    def at(self, rank: int) -> tuple[float, float]:
        """The middle of a rank's box."""
        turn = 2 * math.pi * rank / self.ranks - (math.pi / 2 if self.ranks == 2 else 0.0)
        x, y = self.width / 2, 45.0 if self.ranks == 2 else self.radius + self.box / 2 + 8
        return x + self.radius * math.sin(turn), y - self.radius * math.cos(turn)


def frame(one: Round, stage: Stage, got: Got, most: int, label: str) -> str:
    """The SVG of one step. `most` is what the fullest rank has received at the end; `label` the alt text."""
    inside = [_joint(joint, stage) for joint in one.joint]
    inside += _transfers(one.moves, stage)
    inside += [
        _rank(rank, stage) + _meter(rank, stage, got.get(rank, {}), most) for rank in range(stage.ranks)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {stage.width} {stage.height}" '
        f'width="{stage.width}" height="{stage.height}" role="img" aria-label="{html.escape(label)}" '
        f'font-family="{FONTS}" text-anchor="middle">'
        f'<rect width="{stage.width}" height="{stage.height}" fill="{style.PAPER}"/>{"".join(inside)}</svg>'
    )


FONTS = style.FONT_STACK.replace('"', "'")


def text(x: float, y: float, said: str, size: float, *, fill: str = style.INK, extra: str = "") -> str:
    """An SVG text, centred on x unless `extra` says otherwise."""
    ink = "" if fill == style.INK else f' fill="{fill}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size:g}"{ink}{extra}>{html.escape(said)}</text>'


def _rank(rank: int, stage: Stage) -> str:
    x, y = stage.at(rank)
    side, fill = stage.box, style.colour(rank)
    left, top = x - side / 2, y - side / 2
    strokes = ""
    if style.hatch(rank):
        a, b, c, d = left + 2, top + 2, left + side - 2, top + side - 2
        cuts = (0.2 * side, 0.4 * side)
        lines = "".join(
            f"M{a:.0f} {b + k:.0f}L{a + k:.0f} {b:.0f}M{c:.0f} {d - k:.0f}L{c - k:.0f} {d:.0f}" for k in cuts
        )
        strokes = f'<path d="{lines}" stroke="{style.INK}" stroke-width="1.2"/>'
    box = (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{side:g}" height="{side:g}" rx="8" '
        f'fill="{fill}" stroke="{style.INK}"/>'
    )
    number = text(
        x, y + side * 0.14, str(rank), side * 0.42, fill=style.ink_on(fill), extra=' font-weight="bold"'
    )
    return box + strokes + number


def _meter(rank: int, stage: Stage, got: Mapping[int, int], most: int) -> str:
    """Under a rank: a bar of what it has received, in the colours of the senders, and the sum."""
    if not most:
        return ""
    x, y = stage.at(rank)
    wide, left, top = stage.box + 8, x - stage.box / 2 - 4, y + stage.box / 2 + 3
    edge = (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide:g}" height="7" fill="{style.PAPER}" '
        f'stroke="{style.FADED}" stroke-width="0.8"/>'
    )
    parts, at = [edge], left
    for source, nbytes in sorted(got.items()):
        span = wide * nbytes / most
        parts.append(
            f'<rect x="{at:.1f}" y="{top:.0f}" width="{span:.1f}" height="7" fill="{style.colour(source)}"/>'
        )
        at += span
    total = sum(got.values())
    return "".join(parts) + text(x, top + 17, units.size(total) if total else "0", 9.5, fill=style.FADED)


def _transfers(moves: Sequence[Move], stage: Stage) -> list[str]:
    pairs = {(move.source, move.target) for move in moves}
    crowded = len(moves) > 24
    alike = len({(move.nbytes, move.name) for move in moves}) <= 1
    named = not alike and len(moves) <= stage.ranks
    return [_transfer(m, stage, (m.target, m.source) in pairs, crowded, named) for m in moves]


def _transfer(move: Move, stage: Stage, both: bool, crowded: bool, named: bool) -> str:
    """An arrow in the sender's colour, and the piece that travels along it."""
    (x0, y0), (x1, y1) = stage.at(move.source), stage.at(move.target)
    length = math.dist((x0, y0), (x1, y1))
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    aside = 7.0 if both else 0.0
    leave, reach = _clear(stage, ux, uy), _clear(stage, -ux, -uy)
    start = (x0 + ux * leave - uy * aside, y0 + uy * leave + ux * aside)
    end = (x1 - ux * reach - uy * aside, y1 - uy * reach + ux * aside)
    fill = style.colour(move.source)
    if crowded:
        return _arrow(start, end, 1.0, 6.0, f'fill="{fill}"')
    words = (move.name or units.size(move.nbytes)) if named or move.name else ""
    arrow = _arrow(start, end, 4.0, 10.0, f'fill="{fill}" stroke="{style.INK}" stroke-width="0.8"')
    return arrow + _piece(start, end, fill, words)


def _arrow(start: tuple[float, float], end: tuple[float, float], thick: float, head: float, look: str) -> str:
    """An arrow as one outline: a shaft `thick` pixels wide, and a head as long and as wide as `head`."""
    length = math.dist(start, end)
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    neck = (end[0] - ux * head, end[1] - uy * head)
    corners = [
        *((start, thick / 2), (neck, thick / 2), (neck, head / 2)),
        *((end, 0.0), (neck, -head / 2), (neck, -thick / 2), (start, -thick / 2)),
    ]
    points = " ".join(f"{x - uy * off:.1f},{y + ux * off:.1f}" for (x, y), off in corners)
    return f'<polygon points="{points}" {look}/>'


def _clear(stage: Stage, ux: float, uy: float) -> float:
    """How far from a rank's middle an arrow towards (ux, uy) is clear of its box and of the bar below."""
    across, down = stage.box / 2 + 6, stage.box / 2 + (24 if uy > 0 else 3)
    return min(
        across / abs(ux) if abs(ux) > 1e-9 else math.inf, down / abs(uy) if abs(uy) > 1e-9 else math.inf
    )


def _piece(start: tuple[float, float], end: tuple[float, float], fill: str, words: str) -> str:
    """The travelling piece, drawn on the arrow before its middle, where the arrows of two diagonals cross."""
    x, y = start[0] + 0.4 * (end[0] - start[0]), start[1] + 0.4 * (end[1] - start[1])
    wide = max(15.0, 6.2 * len(words) + 8)
    shape = (
        f'<rect x="{x - wide / 2:.1f}" y="{y - 7.5:.1f}" width="{wide:.1f}" height="15" rx="3" '
        f'fill="{fill}" stroke="{style.INK}" stroke-width="1.2"/>'
    )
    said = text(x, y + 3.5, words, 9.5, fill=style.ink_on(fill)) if words else ""
    return f'<g class="mk" style="--dx:{start[0] - x:.0f}px;--dy:{start[1] - y:.0f}px">{shape}{said}</g>'


def _joint(joint: Joint, stage: Stage) -> str:
    """A dashed shape around the ranks of one collective, its name inside."""
    points = [stage.at(rank) for rank in sorted(joint.ranks)]
    ring = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points)
    look = f'fill="{style.EMPTY}" stroke="{style.FADED}" stroke-width="2" stroke-dasharray="6 4"'
    name = text(x, y + (-8 if len(points) == 2 else 4), joint.op, 11)
    return f'<polygon points="{ring}" {look}/>{name}'
