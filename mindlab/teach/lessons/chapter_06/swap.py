"""Exercise 06.1: an exchange of which nobody knows the sizes yet."""

from __future__ import annotations

import torch
import torch.distributed as dist

from mindlab.predict.quantity import Quantity
from mindlab.predict.sent import counted
from mindlab.predict.sources import COUNTED_BY_HAND
from mindlab.teach import inputs
from mindlab.teach.lesson import Bound, Budget, Exercise, OfTrial, Trial, Wrong

HIDDEN = 8
Tensor = torch.Tensor


def my_swap(x: Tensor, sent: Tensor) -> Tensor:
    """The rows that all ranks have for this one, in the order of ranks."""
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    out = x.new_empty(int(coming.sum()), x.shape[1])
    dist.all_to_all_single(out, x, coming.tolist(), sent.tolist())
    return out


def counts_one_by_one(x: Tensor, sent: Tensor) -> Tensor:
    """Right: the counts travel as a list of tensors."""
    leaving = [sent[i : i + 1].clone() for i in range(len(sent))]
    arriving = [torch.empty_like(one) for one in leaving]
    dist.all_to_all(arriving, leaving)
    sizes = [int(one) for one in arriving]
    out = torch.empty(sum(sizes), x.shape[1], dtype=x.dtype, device=x.device)
    dist.all_to_all_single(out, x.contiguous(), sizes, sent.tolist())
    return out


def flat(x: Tensor, sent: Tensor) -> Tensor:
    """Right: numbers instead of rows are counted."""
    width = x.shape[1]
    coming = torch.zeros_like(sent)
    dist.all_to_all_single(coming, sent)
    out = x.new_empty(int(coming.sum()) * width)
    dist.all_to_all_single(out, x.flatten(), (coming * width).tolist(), (sent * width).tolist())
    return out.view(-1, width)


def as_many_as_it_sends(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: room for what it sends, not for what comes."""
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, sent.tolist(), sent.tolist())
    return out


def swapped_sizes(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: the two lists in each other's place."""
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    out = x.new_empty(int(coming.sum()), x.shape[1])
    dist.all_to_all_single(out, x, sent.tolist(), coming.tolist())
    return out


def equal_parts(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: rows are cut into equal parts, and the lists are left out."""
    room = -(-len(x) // len(sent))
    leaving = torch.cat([x, x.new_zeros(room * len(sent) - len(x), x.shape[1])])
    out = torch.empty_like(leaving)
    dist.all_to_all_single(out, leaving)
    return out


def filled_up(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: right values, but every part is filled up to a length that is enough."""
    most = 8
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    leaving = x.new_zeros(len(sent), most, x.shape[1])
    for rank, part in enumerate(x.split(sent.tolist())):
        leaving[rank, : len(part)] = part
    out = torch.empty_like(leaving)
    dist.all_to_all_single(out, leaving)
    return torch.cat([part[:count] for part, count in zip(out, coming.tolist(), strict=True)])


def gathered(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong here: all ranks learn all counts, by another collective."""
    table = [torch.empty_like(sent) for _ in range(len(sent))]
    dist.all_gather(table, sent)
    coming = [int(row[dist.get_rank()]) for row in table]
    out = x.new_empty(sum(coming), x.shape[1])
    dist.all_to_all_single(out, x, coming, sent.tolist())
    return out


def last_rank_first(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: what came is joined from the last rank to the first."""
    coming = torch.empty_like(sent)
    dist.all_to_all_single(coming, sent)
    return torch.cat(my_swap(x, sent).split(coming.tolist())[::-1])


def idle_rank_stays_away(x: Tensor, sent: Tensor) -> Tensor:
    """Wrong: a rank that has nothing to send takes no part."""
    return my_swap(x, sent) if len(x) else x


def _counts(trial: Trial) -> list[list[int]]:
    """By sender and receiver the rows: no two lists alike, and rank 1 sends nothing."""
    table = [[(3 * s + 2 * d + trial["more"]) % 5 for d in range(trial.ranks)] for s in range(trial.ranks)]
    table[1] = [0] * trial.ranks if trial["more"] % 2 else table[1]
    return table


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, Tensor]:
    sent = torch.tensor(_counts(trial)[rank])
    return inputs.normal(seed, "rows", int(sent.sum()), HIDDEN, rank=rank), sent


def _one_card(given: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    parts = [x.split(sent.tolist()) for x, sent in given]
    return [torch.cat([part[rank] for part in parts]) for rank in range(len(given))]


def _bytes(trial: Trial) -> Quantity:
    rows = [sum(row) - row[rank] for rank, row in enumerate(_counts(trial))]
    by_rank = [n * HIDDEN * 4 + 8 * (trial.ranks - 1) for n in rows]
    return counted("swap", by_rank, r"h\,e \sum_{d \ne r} n_{rd} + 8(p-1)", COUNTED_BY_HAND)


def _padded(trial: Trial) -> int:
    most = max(max(row) for row in _counts(trial))
    return (trial.ranks - 1) * (most * HIDDEN * 4 + 8)


EXERCISE = Exercise(
    name="06.1",
    title="Uneven, and not known before",
    statement="""
The router has chosen, and each rank knows how many of its rows go to which rank. It does not know how many
come. Write `my_swap(x, sent)`.

`x` is (rows, 8): first the rows for rank 0, then those for rank 1, and so on, those for the rank itself in
their place. `sent` has p whole numbers (int64): how many go to each rank; some are 0, and a rank may have no
row at all. Return the rows that all ranks have for this one, in the order of ranks.

Two calls: one for numbers, one for rows. No row may travel that nobody wants.
""",
    inputs=_given,
    reference=_one_card,
    budget=Budget(
        sent=Bound(OfTrial(_bytes), naive=OfTrial(_padded)),
        collectives={"all_to_all": 2},
    ),
    calls=("all_to_all",),
    whole=lambda trial: sum(map(sum, _counts(trial))) * HIDDEN * 4,
    grain=lambda trial: 0,
    dims=("row", "feature"),
    trials=(
        Trial(4, sizes={"more": 0}),
        Trial(4, sizes={"more": 1}),
        Trial(3, sizes={"more": 2}),
        Trial(3, sizes={"more": 1}),
    ),
    hints=(
        "`all_to_all_single(output, input, output_split_sizes, input_split_sizes)`. Which of the two lists "
        "does a rank know, and who knows the other one?",
        "Rank s knows what it sends to rank d. Rank d needs this very number: one number from each rank to "
        "each rank. That is an all-to-all, too, of p numbers.",
        """
    coming = ...
    dist.all_to_all_single(coming, sent)          # one number for each rank
    out = x.new_empty(...)                        # room for all that comes
    dist.all_to_all_single(out, x, ..., ...)      # what comes, what goes: lists
""",
    ),
    solution=my_swap,
    explanation="""
The numbers that come are a column of the table whose rows the ranks know: an all-to-all of one number each
transposes it. 8 bytes a rank, and every size fits.

A rank without rows sends zeros and takes part all the same: it may be about to receive.
""",
    right=(counts_one_by_one, flat),
    wrong=(
        Wrong(as_many_as_it_sends, r"do not fit together"),
        Wrong(swapped_sizes, r"Split sizes doesn't match"),
        Wrong(equal_parts, r"do not fit together"),
        Wrong(filled_up, r"times the allowed"),
        Wrong(gathered, r"It calls all_gather"),
        Wrong(last_rank_first, r"right values in another order"),
        Wrong(idle_rank_stays_away, r"do not fit together"),
    ),
)
