"""Exercise 09.1: which piece of the sequence a rank has."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from mindlab.parallel.mesh import split_hybrid
from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Tensor = torch.Tensor


def my_piece(x: Tensor, rank: int, ring: int, ulysses: int, inside: str) -> Tensor:
    """This rank's piece of a sequence that is cut in zigzag."""
    if inside == "ulysses":
        i, j = rank // ulysses, rank % ulysses
    else:
        i, j = rank % ring, rank // ring
    chunks = x.tensor_split(2 * ring)
    part = torch.cat([chunks[i], chunks[2 * ring - 1 - i]])
    return part.tensor_split(ulysses)[j]


def from_the_package(x: Tensor, rank: int, ring: int, ulysses: int, inside: str) -> Tensor:
    """Right: every rank's piece, and of these one."""
    return split_hybrid(x, ring=ring, ulysses=ulysses, inside=inside, layout="zigzag", dim=0)[rank]


def by_a_table(x: Tensor, rank: int, ring: int, ulysses: int, inside: str) -> Tensor:
    """Right: the numbers of the ranks stand in a table, and this rank looks where it is."""
    numbers = torch.arange(ring * ulysses)
    table = numbers.view(ring, ulysses) if inside == "ulysses" else numbers.view(ulysses, ring).T
    i, j = (int(at) for at in torch.nonzero(table == rank)[0])
    chunks = list(x.tensor_split(2 * ring))
    return torch.cat([chunks[i], chunks[-1 - i]]).tensor_split(ulysses)[j].clone()


def _by(how: str, x: Tensor, rank: int, ring: int, ulysses: int, inside: str) -> Tensor:
    """The piece with one thing made wrong."""
    i, j = (rank // ulysses, rank % ulysses) if inside == "ulysses" else (rank % ring, rank // ring)
    if how == "inside forgotten":
        i, j = rank // ulysses, rank % ulysses
    if how == "modulo outside":
        i, j = (rank % ring, rank // ring) if inside == "ulysses" else (rank // ulysses, rank % ulysses)
    if how == "zigzag by all ranks":
        chunks = x.tensor_split(2 * ring * ulysses)
        return torch.cat([chunks[rank], chunks[-1 - rank]])
    if how == "contiguous":
        return x.tensor_split(ring)[i].tensor_split(ulysses)[j]
    if how == "ulysses first":
        chunks = x.tensor_split(ulysses)[j].tensor_split(2 * ring)
        return torch.cat([chunks[i], chunks[-1 - i]])
    chunks = x.tensor_split(2 * ring)
    part = torch.cat([chunks[i], chunks[2 * i if how == "wrong partner" else -1 - i]])
    if how == "whole part":
        return part
    if how == "chunk":
        return [*part.chunk(ulysses), part[:0]][j]
    return part[j::ulysses] if how == "every second" else part.tensor_split(ulysses)[j]


def asks_the_others(x: Tensor, rank: int, ring: int, ulysses: int, inside: str) -> Tensor:
    """Wrong: right, but the ranks need not talk for it."""
    dist.barrier()
    return my_piece(x, rank, ring, ulysses, inside)


def _given(seed: int, rank: int, trial: Trial) -> tuple[Tensor, int, int, int, str]:
    x = inputs.numbers(seed, 0, trial["length"])
    inside = "ring" if trial.sizes.get("ring_inside") else "ulysses"
    return x, rank, trial["ring"], trial["ulysses"], inside


def _one_card(given: list[tuple[Tensor, int, int, int, str]]) -> list[Tensor]:
    return [from_the_package(*mine) for mine in given]


def _first_wrong(attempt: Attempt) -> str:
    """The first rank with another piece, and where on the mesh it stands."""
    for rank, (seen, wanted) in enumerate(zip(attempt.values, attempt.wanted, strict=True)):
        if not isinstance(seen, Tensor) or torch.equal(seen, wanted):
            continue
        x, _, ring, ulysses, inside = attempt.given[rank]
        i, j = (rank // ulysses, rank % ulysses) if inside == "ulysses" else (rank % ring, rank // ring)
        where = f"ring place {i}, ulysses place {j}"
        return (
            f"Of {len(x)} positions on ring={ring} x ulysses={ulysses}, {inside} inside: rank {rank} is at "
            f"{where} and has {_listed(wanted)}; the answer is {_listed(seen)}."
        )
    return ""


def _listed(x: Tensor) -> str:
    values = [f"{one:g}" for one in x.flatten().tolist()]
    return " ".join(values[:6]) + (" …" if len(values) > 6 else "") or "nothing"


EXERCISE = Exercise(
    name="09.1",
    title="Which piece is mine?",
    statement="""
Write `my_piece(x, rank, ring, ulysses, inside)`. `x` is a whole sequence (positions), `ring` and `ulysses`
are the sizes of the axes, `inside` names the inner one: "ulysses" or "ring". Ranks are numbered row by row,
the inner axis running fastest.

The sequence is cut twice. First into 2 `ring` chunks (`tensor_split`): the part of ring place i is the chunks
i and 2 `ring` - 1 - i, joined. Then each part, as it lies, into `ulysses` pieces (`tensor_split`): piece j is
that of ulysses place j. Return this rank's piece. Nothing is to be sent.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_first_wrong,
    trials=(
        Trial(4, sizes={"ring": 2, "ulysses": 2, "length": 16}),
        Trial(4, sizes={"ring": 2, "ulysses": 2, "length": 17, "ring_inside": 1}),
        Trial(6, sizes={"ring": 3, "ulysses": 2, "length": 29}),
        Trial(6, sizes={"ring": 2, "ulysses": 3, "length": 29, "ring_inside": 1}),
        Trial(4, sizes={"ring": 1, "ulysses": 4, "length": 5}),
    ),
    hints=(
        "A rank has two places, one on each axis. Find them first, and forget its number then.",
        "Write the ranks into a table with a row for each place on the outer axis. Which of division and "
        "remainder is the row? Then cut a strip of paper twice: zigzag into parts, each part into pieces.",
        """
    if inside == "ulysses":
        i, j = ...                       # ring place, ulysses place
    else:
        i, j = ...
    chunks = x.tensor_split(2 * ring)
    part = torch.cat([...])              # two of the chunks
    return part...                       # one of its pieces
""",
    ),
    solution=my_piece,
    explanation="""
The order of the axes says where a rank stands, and nothing more. What a place holds does not depend on it.

Zigzag is for the ring: its parts should have the same number of visible pairs. Within a part Ulysses gives
every rank the whole part, so the cut there is plain.
""",
    right=(from_the_package, by_a_table),
    wrong=(
        Wrong(partial(_by, "inside forgotten"), r"ring inside: rank 1 is at ring place 1, ulysses place 0"),
        Wrong(partial(_by, "modulo outside"), r"ulysses inside: rank 1 is at ring place 0, ulysses place 1"),
        Wrong(partial(_by, "zigzag by all ranks"), r"rank 0 is at ring place 0, ulysses place 0 and has"),
        Wrong(partial(_by, "contiguous"), r"rank \d is at"),
        Wrong(partial(_by, "ulysses first"), r"rank \d is at"),
        Wrong(partial(_by, "wrong partner"), r"rank \d is at"),
        Wrong(partial(_by, "whole part"), r"rank 0 is at"),
        Wrong(partial(_by, "chunk"), r"rank \d is at"),
        Wrong(partial(_by, "every second"), r"rank \d is at"),
        Wrong(asks_the_others, r"It calls barrier"),
    ),
)
