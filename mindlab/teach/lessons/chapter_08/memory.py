"""Case 08-c: one memory for all requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from mindlab.teach.lesson import Case, Choice, Trial, Wrong
from mindlab.teach.lessons.chapter_08 import turns

Tensor = torch.Tensor


def one_memory(weight: Tensor, prompts: list[Tensor], tokens: int) -> Tensor | None:
    """On the last rank what the prompts have become after so many passes; None on the others."""
    rank, p = dist.get_rank(), dist.get_world_size()
    seen = torch.zeros_like(prompts[0])
    results, sending = [], []
    for step in range(tokens):
        for x in prompts:
            if rank > 0 or step > 0:
                x = torch.empty_like(x)
                dist.recv(x, (rank - 1) % p)
            out, seen = torch.tanh((x + seen) @ weight), seen + x
            if rank < p - 1 or step < tokens - 1:
                sending.append((dist.isend(out, (rank + 1) % p), out))
            else:
                results.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(results) if rank == p - 1 else None


def _by(weight: Tensor, prompts: list[Tensor], tokens: int, how: str) -> Any:
    """A memory that is kept in the wrong way."""
    rank, p = dist.get_rank(), dist.get_world_size()
    n = len(prompts)
    seen, results, sending = [torch.zeros_like(x) for x in prompts], [], []
    for step in range(tokens):
        for i, given in enumerate(prompts):
            x = given
            if rank > 0 or step > 0:
                x = torch.empty_like(given)
                dist.recv(x, (rank - 1) % p)
            at = (i + step) % n if how == "shifted" else i
            old = torch.zeros_like(x) if how == "emptied" else seen[at]
            out = torch.tanh((x + (seen[at] + x if how == "twice" else old)) @ weight)
            seen[at] = x if how == "last only" else old + (out if how == "output" else x)
            if rank < p - 1 or step < tokens - 1:
                sending.append((dist.isend(out, (rank + 1) % p), out))
            else:
                results.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(results) if rank == p - 1 else None


def emptied(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: emptied for every pass: no request sees another's, and none its own."""
    return _by(weight, prompts, tokens, "emptied")


def shifted(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: one for each request, but not always its own."""
    return _by(weight, prompts, tokens, "shifted")


def last_only(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: only the last input is remembered."""
    return _by(weight, prompts, tokens, "last only")


def output(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Wrong: the result is remembered, not the input."""
    return _by(weight, prompts, tokens, "output")


def by_dictionary(weight: Tensor, prompts: list[Tensor], tokens: int) -> Any:
    """Right: by number of the request."""
    rank, p = dist.get_rank(), dist.get_world_size()
    seen: dict[int, Tensor] = {}
    results, sending = [], []
    for turn in range(tokens * len(prompts)):
        step, request = divmod(turn, len(prompts))
        x = prompts[request]
        if rank or step:
            x = torch.empty_like(x)
            dist.recv(x, (rank - 1) % p)
        sum_so_far = seen.get(request, torch.zeros_like(x))
        out = torch.tanh((x + sum_so_far) @ weight)
        seen[request] = sum_so_far + x
        if rank < p - 1 or step < tokens - 1:
            sending.append((dist.isend(out, (rank + 1) % p), out))
        else:
            results.append(out)
    for work, _ in sending:
        work.wait()
    return torch.cat(results) if rank == p - 1 else None


REPAIR = replace(
    turns.REPAIR,
    name="08-c",
    title="Whose memory?",
    trials=(
        Trial(4, sizes={"prompts": 3, "tokens": 3}),
        Trial(4, sizes={"prompts": 1, "tokens": 4}),
        Trial(3, sizes={"prompts": 5, "tokens": 3}),
    ),
    hints=(
        "In which order do inputs reach a stage? After which of them is `seen` what the formula wants?",
        "Write down, for rank 0 and two requests, what is added to `seen`, pass by pass. Mark what belongs "
        "to request 1 in the colour of request 1.",
        """
    seen = ...                                   # how many of them?
    ...
        for i, x in enumerate(prompts):
            ...
            out, seen[...] = torch.tanh((x + seen[...]) @ weight), seen[...] + x
""",
    ),
    picture=(),
    solution=turns.repaired,
    explanation="""
A stage meets the requests in turns, so what it remembers must be kept for each of them: p stages and n
requests make p x n caches. With one request one cache is right, and so is every test with one request. In a
decoder the same mistake makes a request attend to another one's tokens; it leaks text as well.
""",
    right=(by_dictionary, turns.first_rank_asks_ahead),
    wrong=(
        Wrong(one_memory, r"Rank 3: element \["),
        Wrong(emptied, r"what comes out if a stage remembers nothing"),
        Wrong(shifted, r"Rank 3: element \["),
        Wrong(last_only, r"what comes out if a stage remembers its last input only"),
        Wrong(output, r"if a stage remembers its results, not its inputs"),
        Wrong(turns.one_request_at_a_time, r"one after the other|rounds"),
    ),
)

CASE = Case(
    name="08-c",
    title="Whose memory?",
    story="""
The pipeline decodes, and its stages keep a cache, so that earlier tokens need not be computed again. One
request gives the text that one card gives, letter by letter. With three requests in turns the shapes are
right, nothing hangs, every run gives the same; but no request gets the text that it gets alone.
""",
    program=one_memory,
    causes=(
        Choice(
            "The tokens that come back go to another request than they belong to.",
            "They come back in the order of the requests, and are taken in that order.",
            holds=False,
        ),
        Choice(
            "Sending without waiting: a tensor is overwritten before it has left.",
            "Each result is a new tensor, kept beside its handle until the end.",
            holds=False,
        ),
        Choice(
            "A stage adds up the inputs of all requests in one memory.",
            "There is one `seen` a stage. With one request it is that request's; with three each finds the "
            "others' inputs in it.",
            holds=True,
        ),
        Choice(
            "Floats are added in another order.",
            "The difference is in the first digits, and the order is the same in each run.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="made for this chapter: the mistake that a cache invites when requests take turns",
)
