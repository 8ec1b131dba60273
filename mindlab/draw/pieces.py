"""What a rank holds, as pieces: a text, and the ranks that it came from. Pure: it draws nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mindlab.trace.run import Run


class Piece(NamedTuple):
    """One cell. `sources` are the ranks whose data is in it: one rank, several for a sum, none if unknown."""

    text: str
    sources: tuple[int, ...] = ()


Row = list["Piece | None"]
"""What one rank holds; None is a slot that it does not hold."""


def held(data: Any) -> list[list[Any]]:
    """By rank, the cells of a Run's values, of tensors or arrays, or of nested sequences.

    Raises ValueError where there is nothing to draw.
    """
    rows = data.values if isinstance(data, Run) else data
    cells = [_row(row) for row in rows]
    if not cells:
        raise ValueError("no ranks to draw: give one row a rank, such as [['a0', 'a1'], ['b0', 'b1']]")
    return cells


def pieces(rows: Sequence[Sequence[Any]], origins: Mapping[str, int] | None = None) -> list[Row]:
    """By rank, the pieces. With `origins` (text -> rank) a text is traced back; without, it is its holder's.

    "a0+b0" is a sum of the pieces a0 and b0.
    """
    return [[_piece(cell, rank, origins) for cell in row] for rank, row in enumerate(rows)]


def origins_of(rows: Iterable[Row]) -> dict[str, int]:
    """Which rank a text belongs to, for the texts that only one rank holds."""
    holders: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        for piece in row:
            if piece is not None and len(piece.sources) == 1:
                holders[piece.text].add(piece.sources[0])
    return {text: next(iter(ranks)) for text, ranks in holders.items() if len(ranks) == 1}


def short_sum(text: str) -> str:
    """A sum's short name: "a0+b0+c0" is "Σ0", "a+b" is "Σ"; anything else is left as it is."""
    terms = [term.strip() for term in text.split("+")]
    if len(terms) < 2:
        return text
    tails = {term.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") for term in terms}
    return f"Σ{tails.pop()}" if len(tails) == 1 else "Σ"


def _row(row: Any) -> list[Any]:
    if hasattr(row, "tolist"):
        values = row.tolist()
        flat = values if isinstance(values, list) else [values]
        return [" ".join(map(_number, v)) if isinstance(v, list) else v for v in flat]
    if isinstance(row, (str, int, float, Piece)) or row is None:
        return [row]
    return list(row)


def _piece(cell: Any, rank: int, origins: Mapping[str, int] | None) -> Piece | None:
    if cell is None or isinstance(cell, Piece):
        return cell
    text = cell if isinstance(cell, str) else _number(cell)
    if origins is None:
        return Piece(text, (rank,))
    terms = [term.strip() for term in text.split("+")]
    known = [origins[term] for term in terms if term in origins]
    return Piece(text, tuple(known) if len(known) == len(terms) else ())


def _number(value: Any) -> str:
    if hasattr(value, "item"):
        value = value.item()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
