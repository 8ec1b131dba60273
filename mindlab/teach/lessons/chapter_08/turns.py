"""Case 08-a: it stands still as soon as the pipeline is full."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mindlab.teach.lesson import Bound, Budget, Case, Choice, Exercise, OfTrial, Trial, Wrong
from mindlab.teach.lessons.chapter_08 import line

Tensor = torch.Tensor


def in_turns(weight: Tensor, prompts: list[Tensor], tokens: int) -> Tensor | None:
    """On the last rank what the prompts have become after so many passes; None on the others."""
    rank, p = dist.get_rank(), dist.get_world_size()
    seen = [torch.zeros_like(x) for x in prompts]
    results = []
    for step in range(tokens):
        for i, x in enumerate(prompts):
            if rank > 0 or step > 0:
                x = torch.empty_like(x)
                dist.recv(x, (rank - 1) % p)
            out, seen[i] = torch.tanh((x + seen[i]) @ weight), seen[i] + x
            if rank < p - 1 or step < tokens - 1:
                dist.send(out, (rank + 1) % p)
            else:
                results.append(out)
    return torch.cat(results) if rank == p - 1 else None


def repaired(weight: Tensor, prompts: list[Tensor], tokens: int) -> Tensor | None:
    """On the last rank what the prompts have become after so many passes; None on the others."""
    rank, p = dist.get_rank(), dist.get_world_size()
    seen = [torch.zeros_like(x) for x in prompts]
    results, sending = [], []
    for step in range(tokens):
        for i, x in enumerate(prompts):
            if rank > 0 or step > 0:
                x = torch.empty_like(x)
                dist.recv(x, (rank - 1) % p)
            out, seen[i] = torch.tanh((x + seen[i]) @ weight), seen[i] + x
            if rank < p - 1 or step < tokens - 1:
                sending.append((dist.isend(out, (rank + 1) % p), out))
            else:
                results.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(results) if rank == p - 1 else None


def first_rank_asks_ahead(weight: Tensor, prompts: list[Tensor], tokens: int) -> Tensor | None:
    """Right: the first rank has room for every token that comes back before it sends anything."""
    asked: Tensor | None = _turns(weight, prompts, tokens, "ask ahead")
    return asked


def only_the_way_back(weight: Tensor, prompts: list[Tensor], tokens: int) -> Tensor | None:
    """Right: it is enough that the last rank does not wait."""
    gone_on: Tensor | None = _turns(weight, prompts, tokens, "last one goes on")
    return gone_on


def _turns(weight: Tensor, prompts: list[Tensor], tokens: int, how: str) -> Any:
    """Requests that take turns, with one thing changed."""
    rank, p = dist.get_rank(), dist.get_world_size()
    n = len(prompts)
    seen = [torch.zeros_like(x) for x in prompts]
    results, sending, asked = [], [], []
    if how == "ask ahead" and rank == 0:
        rooms = [torch.empty_like(x) for _ in range(tokens - 1) for x in prompts]
        asked = [(dist.irecv(room, p - 1), room) for room in rooms]
    for step in range(tokens):
        for i, given in enumerate(prompts):
            x = torch.empty_like(given)
            if asked and step:
                work, x = asked[(step - 1) * n + i]
                work.wait()
            elif rank or (step and how != "no way back"):
                dist.recv(x, (rank - 1) % p)
            else:
                x = given
            out = torch.tanh((x + seen[i]) @ weight)
            seen[i] = torch.zeros_like(x) if how == "no memory" else seen[i] + x
            if rank < p - 1 or (step < tokens - 1 and how != "no way back"):
                work = dist.isend(out, (rank + 1) % p)
                if how == "last one goes on" and rank < p - 1:
                    work.wait()
                sending.append((work, out))
            if rank == p - 1 and (step == tokens - 1 or how == "all steps"):
                results.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(results) if rank == p - 1 else None


def no_way_back(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: it ends, for no token comes back: every pass begins with the prompt."""
    return _turns(weight, prompts, tokens, "no way back")


def no_memory(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: what a stage remembers is lost."""
    return _turns(weight, prompts, tokens, "no memory")


def all_steps(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: the results of every pass."""
    return _turns(weight, prompts, tokens, "all steps")


def all_receive_first(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: the first rank waits for a token that nobody can have made yet."""
    rank, p = dist.get_rank(), dist.get_world_size()
    for x in prompts:
        dist.recv(torch.empty_like(x), (rank - 1) % p)
        dist.send(torch.tanh(x @ weight), (rank + 1) % p)
    return None


def one_request_at_a_time(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong here: right values, but each request waits until the one before has all its tokens."""
    parts = [in_turns(weight, [x], tokens) for x in prompts]
    return torch.cat([part for part in parts if part is not None]) if parts[0] is not None else None


def _rounds(trial: Trial) -> int:
    """Messages one after the other: a token takes as many as there are requests, or ranks."""
    return (trial["tokens"] - 1) * max(trial["prompts"], trial.ranks) + trial["prompts"] + trial.ranks - 2


REPAIR = Exercise(
    name="08-a",
    title="Full, and still",
    statement="What the prompts have become, on the last rank; None on the others. The requests take turns.",
    inputs=line.decoding,
    reference=line.decoded,
    budget=Budget(sent=Bound(OfTrial(line.taken)), rounds=Bound(OfTrial(_rounds))),
    whole=lambda trial: trial["prompts"] * line.HIDDEN * 4,
    grain=lambda trial: 0,
    look=line.looks_like,
    edges=lambda ranks: [(rank, (rank + 1) % ranks) for rank in range(ranks)],
    trials=(
        Trial(4, sizes={"prompts": 4, "tokens": 3}),
        Trial(4, sizes={"prompts": 3, "tokens": 3}),
        Trial(3, sizes={"prompts": 5, "tokens": 4}),
    ),
    hints=(
        "Read where each rank stands. Who would have to take the message that rank 3 sends, and what does "
        "that rank do instead?",
        "Draw an arrow from each rank to the one that it waits for. A pipeline is a line; what closes it to "
        "a circle? And why does the circle not close with fewer requests?",
        """
            if rank < p - 1 or step < tokens - 1:
                ...                          # begin to send, keep handle and tensor, go on
    ...
    for ... in ...:
        ...                                  # before the end, wait for all of them
""",
    ),
    picture=[
        [(0, 1, 0, "waits for"), (1, 2, 0, "waits for"), (2, 3, 0, "waits for"), (3, 0, 0, "waits for")]
    ],
    solution=repaired,
    explanation="""
Each stage can hold one request, in its `send`. With p requests under way on p ranks all of them are in
`send`, and the last one waits for the first: a token must come back, and rank 0 takes it only after it has
let the next prompt go. With p - 1 requests one rank is always free to receive. So the program stands still
exactly when the pipeline is full, which is what one wants a pipeline to be.

`isend` breaks the circle, and so does any one rank in it that does not wait. `decode` of the package sends
everything without waiting.
""",
    right=(first_rank_asks_ahead, only_the_way_back),
    wrong=(
        Wrong(in_turns, r"wait for each other"),
        Wrong(all_receive_first, r"wait for each other"),
        Wrong(no_way_back, r"what comes out if every pass begins with the prompt"),
        Wrong(no_memory, r"what comes out if a stage remembers nothing"),
        Wrong(all_steps, r"shape"),
        Wrong(one_request_at_a_time, r"one after the other|rounds"),
    ),
)

CASE = Case(
    name="08-a",
    title="Full, and still",
    story="""
Requests take turns in a pipeline of four ranks; after each pass the new token goes back to the first rank.
With one, two and three requests it was tested, and it is right. Four requests, one for each stage, were to
show how well the stages keep each other busy. It prints nothing and does not end. MindLab's watchdog ends it.
""",
    program=in_turns,
    causes=(
        Choice(
            "Four requests do not fit: the program has room for three.",
            "There is a memory and a place in the list for each request, however many there are.",
            holds=False,
        ),
        Choice(
            "The tokens come back in another order than they are taken in.",
            "They come back in the order of the requests, and are taken in that order.",
            holds=False,
        ),
        Choice(
            "Every rank is in `send`, and the last one waits for the first: the way back closes a circle.",
            "A `send` returns when the other side takes the message. With four requests each of the four "
            "ranks holds one in its `send`, and nobody is left to receive.",
            holds=True,
        ),
        Choice(
            "The last stage is slower than the others, so messages pile up in front of it.",
            "All stages are equal. And a slow stage delays, it does not stop.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="a classic of message passing (MPI 4.1, section 3.5, calls such programs unsafe), in the shape "
    "that decoding through a pipeline gives it",
)
