"""Exercise 02.3: an embedding table cut along the vocabulary."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from mindlab.predict import volume
from mindlab.teach import amounts, inputs, likely
from mindlab.teach.lesson import Bound, Budget, Exercise, Trial, Wrong

Tensor = torch.Tensor


def my_embedding(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """The rows of all ids, on every rank."""
    own = (ids >= first) & (ids < first + len(rows))
    out = rows.new_zeros(*ids.shape, rows.shape[1])
    out[own] = rows[ids[own] - first]
    dist.all_reduce(out)
    return out


def with_a_factor(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Right: a row is read for every id, and those of others are multiplied by 0."""
    place = ids - first
    own = (place >= 0) & (place < len(rows))
    out = rows[place.clamp(0, len(rows) - 1)] * own[..., None]
    dist.all_reduce(out)
    return out


def as_a_product(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Right: one-hot rows times the table."""
    place = ids - first
    hot = (place[..., None] == torch.arange(len(rows))).to(rows.dtype)
    out = hot @ rows
    dist.all_reduce(out)
    return out


def another_row(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: an id of another rank reads the nearest row here."""
    out = rows[(ids - first).clamp(0, len(rows) - 1)]
    dist.all_reduce(out)
    return out


def from_the_end(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: an id below the first one is a negative index, which counts from the end."""
    place = ids - first
    out = rows.new_zeros(*ids.shape, rows.shape[1])
    own = (place < len(rows)) & (place >= -len(rows))
    out[own] = rows[place[own]]
    dist.all_reduce(out)
    return out


def one_id_too_many(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: the first id of the next rank counts as this rank's."""
    place = ids - first
    own = (place >= 0) & (place <= len(rows))
    out = rows[place.clamp(0, len(rows) - 1)] * own[..., None]
    dist.all_reduce(out)
    return out


def equal_shares(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: the first id is worked out from this rank's number of rows."""
    return my_embedding(ids, rows, dist.get_rank() * len(rows))


def nobody_asked(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: zeros stay where another rank has the row."""
    own = (ids >= first) & (ids < first + len(rows))
    out = rows.new_zeros(*ids.shape, rows.shape[1])
    out[own] = rows[ids[own] - first]
    dist.all_reduce(out.clone())
    return out


def the_largest(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong: the largest instead of the sum, and a negative number is smaller than 0."""
    own = (ids >= first) & (ids < first + len(rows))
    out = rows.new_zeros(*ids.shape, rows.shape[1])
    out[own] = rows[ids[own] - first]
    dist.all_reduce(out, op=dist.ReduceOp.MAX)
    return out


def the_whole_table(ids: Tensor, rows: Tensor, first: int) -> Tensor:
    """Wrong here: right values, but every rank collects the whole table."""
    size = torch.tensor([first + len(rows)])
    dist.all_reduce(size, op=dist.ReduceOp.MAX)
    table = rows.new_zeros(int(size), rows.shape[1])
    table[first : first + len(rows)] = rows
    dist.all_reduce(table)
    return F.embedding(ids, table)


def given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor, int]:
    """The ids, the same on all ranks; this rank's rows; the id of the first of them."""
    size, hidden, sequence = trial["vocabulary"], trial["hidden"], trial["sequence"]
    table = inputs.normal(seed, "table", size, hidden, dtype=trial.dtype)
    ends = torch.tensor([[0, size - 1]])
    drawn = inputs.normal(seed, "ids", 2, sequence - 2).abs().mul(997).long() % size
    ids = torch.cat([ends.expand(2, 2), drawn], dim=1)
    first = sum(size // trial.ranks + (other < size % trial.ranks) for other in range(rank))
    return ids, inputs.part(table, rank, trial.ranks), first


def one_card(given: list[tuple[Tensor, Tensor, int]]) -> list[Tensor]:
    """The whole table."""
    table = torch.cat([rows for _, rows, _ in given])
    return [F.embedding(given[0][0], table)] * len(given)


def mistakes(given: list[tuple[Tensor, Tensor, int]], rank: int) -> dict[str, Tensor]:
    """What may come out instead."""
    nearest = [rows[(ids - first).clamp(0, len(rows) - 1)] for ids, rows, first in given]
    own = [_read(ids, rows, first, 0, len(rows)) for ids, rows, first in given]
    longer = [_read(ids, rows, first, 0, len(rows) + 1) for ids, rows, first in given]
    wrapped = [_read(ids, rows, first, -len(rows), len(rows)) for ids, rows, first in given]
    return {
        "rows that other ranks read for ids they do not have": torch.stack(nearest).sum(0),
        "its own rows, and zeros for the ids of others": own[rank],
        "two rows added where an id is the first of a rank": torch.stack(longer).sum(0),
        "rows from the end of a rank's table, read with a negative index": torch.stack(wrapped).sum(0),
        "zeros in place of negative numbers": torch.stack(own).amax(0),
    }


def _read(ids: Tensor, rows: Tensor, first: int, least: int, end: int) -> Tensor:
    """The rows for ids whose place is from `least` up to `end`; zeros for the others."""
    place = ids - first
    own = (place >= least) & (place < end)
    return rows[place.clamp(-len(rows), len(rows) - 1)] * own[..., None]


EXERCISE = Exercise(
    name="02.3",
    title="A vocabulary in pieces",
    statement="""
Write `my_embedding(ids, rows, first)`. An embedding table is cut along the vocabulary: this rank has the
`rows` (own, hidden) of the ids from `first` on. `ids` (batch, sequence) are the same on every rank, each from
0 to vocabulary - 1.

Return the rows of all ids (batch, sequence, hidden), on every rank. Ranks may have different numbers of rows.
""",
    inputs=given,
    reference=one_card,
    calls=("all_reduce", "all_gather", "broadcast"),
    look=likely.named(mistakes),
    budget=Budget(
        sent=Bound(volume.ring_all_reduce, naive=amounts.to_every_other), collectives={"all_reduce": 1}
    ),
    whole=lambda trial: 2 * trial["sequence"] * trial["hidden"] * (2 if trial.dtype == "bfloat16" else 4),
    trials=(
        Trial(4, sizes={"vocabulary": 48, "sequence": 12, "hidden": 8}),
        Trial(4, sizes={"vocabulary": 50, "sequence": 12, "hidden": 8}),
        Trial(3, sizes={"vocabulary": 50, "sequence": 12, "hidden": 8}),
        Trial(4, sizes={"vocabulary": 50, "sequence": 12, "hidden": 8}, dtype="bfloat16"),
    ),
    dims=("batch", "sequence", "features"),
    hints=(
        "Each id has its row on exactly one rank. What may the other ranks give for it, so that a sum of all "
        "ranks is that row?",
        "Write the ids in a line. Colour those whose row you have. For a coloured one: where in your `rows` "
        "does it stand? For the others: 0, and not just any row.",
        """
    own = ...                                     # True where this rank has the id
    out = rows.new_zeros(*ids.shape, rows.shape[1])
    out[own] = ...                                # the id `first` is row 0 here
    ...                                           # every rank's out, added
""",
    ),
    solution=my_embedding,
    explanation="""
All ranks but one give 0, so the sum is exact in every dtype. Both borders matter: an id below `first` makes a
negative index, which Python reads from the end, without a word; an id behind the last row is an error at
best. The bytes are those of any all-reduce of (batch, sequence, hidden): the vocabulary does not matter.
""",
    right=(with_a_factor, as_a_product),
    wrong=(
        Wrong(another_row, r"rows that other ranks read"),
        Wrong(from_the_end, r"read with a negative index"),
        Wrong(one_id_too_many, r"where an id is the first of a rank"),
        Wrong(equal_shares, r"is 0 where .* it was right"),
        Wrong(nobody_asked, r"zeros for the ids of others"),
        Wrong(the_largest, r"zeros in place of negative numbers"),
        Wrong(the_whole_table, r"called all_reduce 2 times; the budget is 1"),
    ),
)
