"""The 2(p - 1) steps of a ring all-reduce on four ranks: what travels, and what each rank then holds."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from mindlab.draw import Move, Piece, labels, moves, shards, style
from mindlab.draw.board import Board
from mindlab.draw.rounds import Round

RANKS = 4

ALT = {
    "en": "The six steps of a ring all-reduce on four ranks, each rank's data cut into four chunks. In every "
    "step each rank sends one chunk to the next rank. Steps 1 to 3, reduce-scatter: the receiver adds "
    "the chunk to its own; after step 3 each rank holds one chunk summed over all four ranks. Steps 4 "
    "to 6, all-gather: the summed chunks travel on; after step 6 every rank holds all four.",
    "zh": "4 卡环形全归约的六步，每张卡的数据切成四块。每一步中每张卡向下一张卡发送一块。第 1 到 3 步为 "
    "ReduceScatter：接收方把收到的块加到自己的块上；第 3 步之后每张卡持有一块四卡之和。第 4 到 6 步为 "
    "AllGather：这些和继续传递；第 6 步之后每张卡都有全部四块。",
}

TITLE = {
    "en": "Ring all-reduce on 4 ranks: 2(p − 1) = 6 steps, one chunk to the next rank in each",
    "zh": "4 卡环形全归约：2(p − 1) = 6 步，每步向下一张卡发送一块",
}
LEGEND = {
    "en": "Strips: what each rank holds after the step. The band under a chunk: whose data it sums.",
    "zh": "色条：该步之后各卡持有的数据。每块下方的色带：其中累加了哪些卡的数据。",
}

State = list[list[frozenset[int]]]
"""By rank, by chunk: the ranks whose data is in it."""


def steps(ranks: int) -> Iterator[tuple[Round, State]]:
    """Each step of the ring: its moves, and the state after it."""
    state = [[frozenset({rank}) for _ in range(ranks)] for rank in range(ranks)]
    for step in range(2 * (ranks - 1)):
        phase = "reduce-scatter" if step < ranks - 1 else "all-gather"
        sent = [(rank, (rank - step) % ranks) for rank in range(ranks)]
        arriving = [(rank, chunk, state[rank][chunk]) for rank, chunk in sent]
        for rank, chunk, data in arriving:
            target = (rank + 1) % ranks
            state[target][chunk] = state[target][chunk] | data if phase == "reduce-scatter" else data
        moved = tuple(Move(rank, (rank + 1) % ranks, 0, f"c{chunk}") for rank, chunk in sent)
        yield Round(moved, label=f"{step + 1}. {phase}"), [list(row) for row in state]


def draw(language: str = "en") -> Figure:
    """The Figure: a panel a step, arrows above, strips below."""
    board = Board(None, style.FULL_WIDTH, 8.2, language)
    board.title(TITLE[language])
    for i, (one, state) in enumerate(steps(RANKS)):
        x, y = 0.05 + 2.75 * (i % 3), 0.4 + 3.75 * (i // 3)
        moves([one], board.inset(x, y, 2.7, 2.15), provenance="", language=language)
        rows = [[Piece(f"c{c}", tuple(sorted(ranks))) for c, ranks in enumerate(row)] for row in state]
        shards(rows, ax=board.inset(x + 0.3, y + 2.15, 2.1, 1.5), provenance="", language=language)
    board.foot([LEGEND[language], labels.say("by_definition", language)])
    return board.figure
