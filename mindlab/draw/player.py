"""Step through a run: each step a frame, with what moves, what has moved, and a caption in words.

One object, three forms. `text/html` is a list of all frames; a few lines of script turn the list into a
stepper. It needs no kernel, network or widget; without JavaScript, or printed, the list stays: a film strip.
`image/svg+xml` is the film strip as one picture (Markdown, PDF), `text/plain` the captions.
"""

from __future__ import annotations

import hashlib
import html
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mindlab.draw import captions, cjk, labels, page, style
from mindlab.draw.board import wrap
from mindlab.draw.frames import FONTS, Stage, frame, text
from mindlab.draw.rounds import Move, Round, as_rounds, bundled, fold, in_rounds
from mindlab.trace.run import Run

_STRIP_WIDTH = 800
_STRIP_FRAMES = 12


class Frame(NamedTuple):
    """One step: its SVG, and its caption."""

    svg: str
    caption: str


class Player:
    """The frames of a run. As the last line of a cell it shows the stepper."""

    def __init__(self, frames: Sequence[Frame], title: str, line: str, language: str = "en") -> None:
        self.frames = list(frames)
        self.title, self.line, self.language = title, line, language

    @property
    def key(self) -> str:
        """The hash of the content. Equal players on a page share it; the script finds each of them."""
        content = "\0".join([self.title, self.line, *(f"{f.svg}\0{f.caption}" for f in self.frames)])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def alt(self) -> str:
        """The whole in words."""
        return ". ".join([self.title, *(f.caption.rstrip(".") for f in self.frames), self.line]) + "."

    def html(self) -> str:
        """The stepper: self-contained, the same text for the same run."""
        return page.stepper(self.key, self.title, [tuple(f) for f in self.frames], self.line, self.language)

    def svg(self) -> str:
        """The film strip as one SVG: at most 12 steps, the first and the last among them."""
        return _strip(self)

    def text(self) -> str:
        """The captions, one a line."""
        return "\n".join([self.title, *(f.caption for f in self.frames), self.line])

    def save(self, path: str | Path) -> Path:
        """The path, after the stepper (.html), the film strip (.svg) or the captions (.txt) went there."""
        path = Path(path)
        made = {
            ".html": lambda: page.document(self.title, self.html(), self.language),
            ".svg": self.svg,
            ".txt": self.text,
        }
        if path.suffix not in made:
            raise ValueError(f"suffix {path.suffix!r}: choose one of {', '.join(made)}")
        path.write_text(made[path.suffix](), encoding="utf-8")
        return path

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"text/html": self.html(), "image/svg+xml": self.svg(), "text/plain": self.text()}
        return data, {"image/svg+xml": {"alt": self.alt}}

    def __repr__(self) -> str:
        return f"Player({self.title!r}, {len(self.frames)} steps)"


def play(
    run: Run | Sequence[Round | Sequence[Move | tuple[Any, ...]]],
    *,
    title: str = "",
    limit: int = 40,
    provenance: str | None = None,
    language: str | None = None,
) -> Player:
    """The Player of a run: a frame a round, neighbouring rounds put together beyond `limit` of them.

    `run` is a Run, or rounds made by hand: lists of (source, target[, bytes[, name]]). The colour of a piece
    is the rank that sends it; the bar under a rank is what it has received, by sender.

        >>> len(ml.play([[(0, 1)], [(1, 2)]]).frames)
        2
    """
    lang = labels.choose(language)
    if isinstance(run, Run):
        rounds, ranks = in_rounds(run.events), run.ranks
        line = f"{labels.say('counted', lang)}: {labels.say('counted_by', lang)} · {run.provenance}"
    else:
        rounds = as_rounds(run)
        ranks = 1 + max((max(m.source, m.target) for one in rounds for m in one.moves), default=0)
        line = labels.say("by_hand", lang)
    line = line if provenance is None else provenance
    name = title or (run.name.replace("_", " ") if isinstance(run, Run) and run.name else "run")
    shown = [bundled(one) for one in fold(rounds, limit)]
    return Player(frames_of(shown, ranks, lang), name, line, lang)


def frames_of(rounds: Sequence[Round], ranks: int, lang: str = "en") -> list[Frame]:
    """A Frame a round. With no round, one Frame that says so."""
    stage = Stage(ranks)
    got: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    most = max(_received(rounds).values(), default=0)
    moved, made = 0, []
    for number, one in enumerate(rounds):
        for move in one.moves:
            got[move.target][move.source] += move.nbytes
            moved += move.nbytes
        said = _caption(one, number, len(rounds), ranks, lang) + (
            " " + captions.so_far(moved, lang) if most else ""
        )
        made.append(Frame(frame(one, stage, got, most, said), said))
    if made:
        return made
    nothing = labels.say("nothing", lang)
    return [Frame(frame(Round(), stage, {}, 0, nothing), nothing)]


def _caption(one: Round, number: int, total: int, ranks: int, lang: str) -> str:
    where = f"第 {number + 1}/{total} 步" if lang == "zh" else f"Step {number + 1} of {total}"
    label = f" ({one.label})" if one.label else ""
    stop = "。" if lang == "zh" else "."
    return f"{where}{label}: {captions.sentence(one, ranks, lang)}{stop}"


def _received(rounds: Sequence[Round]) -> dict[int, int]:
    total: dict[int, int] = defaultdict(int)
    for move in (m for one in rounds for m in one.moves):
        total[move.target] += move.nbytes
    return total


def _picked(frames: list[Frame]) -> list[Frame]:
    if len(frames) <= _STRIP_FRAMES:
        return frames
    last = len(frames) - 1
    return [frames[round(i * last / (_STRIP_FRAMES - 1))] for i in range(_STRIP_FRAMES)]


def _strip(player: Player) -> str:
    """All frames in a grid, each with its caption below it."""
    shown = _picked(player.frames)
    wide, tall = _size_of(shown[0].svg)
    across = max(1, min(len(shown), 3 if wide < 320 else 2))
    column = _STRIP_WIDTH / across
    scale = min(1.0, (column - 16) / wide)
    lines = [wrap(f.caption, (column - 24) / 96, 9) for f in shown]
    row = tall * scale + 14 * max(len(one) for one in lines) + 26
    height = round(44 + row * -(-len(shown) // across) + 22)
    parts = [text(12, 26, player.title, 15, extra=' font-weight="bold"')]
    for i, (one, said) in enumerate(zip(shown, lines, strict=True)):
        x, y = (i % across) * column, 44 + (i // across) * row
        left = x + (column - wide * scale) / 2
        placed = f'<svg x="{left:.1f}" y="{y:.1f}" width="{wide * scale:.1f}" height="{tall * scale:.1f}" '
        inner = one.svg.replace('<svg xmlns="http://www.w3.org/2000/svg" ', placed, 1)
        parts.append(inner.replace(f' width="{wide}" height="{tall}" role="img"', ' role="img"', 1))
        below = y + tall * scale + 14
        parts += [text(x + 12, below + 14 * k, words, 11.5) for k, words in enumerate(said)]
    note = f"{len(shown)} / {len(player.frames)} · " if len(shown) < len(player.frames) else ""
    parts.append(text(12, height - 10, note + player.line, 11, fill=style.FADED))
    alt = html.escape(player.alt)
    rule = cjk.face("".join(parts))
    letters = f"<style>{rule}</style>" if rule else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_STRIP_WIDTH} {height}" '
        f'width="{_STRIP_WIDTH}" height="{height}" role="img" aria-label="{alt}" font-family="{FONTS}">'
        f"<title>{html.escape(player.title)}</title><desc>{alt}</desc>{letters}"
        f'<rect width="100%" height="100%" fill="{style.PAPER}" stroke="{style.GRID}"/>{"".join(parts)}</svg>'
    )


def _size_of(svg: str) -> tuple[int, int]:
    wide, tall = svg.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    return int(wide), int(tall)
