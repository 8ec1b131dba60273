"""Case 12-a: the best prefill and the best decoding, which are not the best pair."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Case, Choice, Exercise, Trial, Wrong

Seconds = list[float]
Table = list[Seconds]


def best_pair(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """The prefill layout and the decoding layout to take, as their numbers."""
    before = prefill.index(min(prefill))
    after = token.index(min(token))
    return [before, after]


def repaired(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """The prefill layout and the decoding layout to take, as their numbers."""
    pairs = itertools.product(range(len(prefill)), range(len(token)))
    i, j = min(pairs, key=lambda p: prefill[p[0]] + change[p[0]][p[1]] + output * token[p[1]])
    return [i, j]


def row_by_row(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """Right: the best decoding after each prefill, then the best of these."""
    found = []
    for i, first in enumerate(prefill):
        rests = [change[i][j] + output * each for j, each in enumerate(token)]
        j = rests.index(min(rests))
        found.append((first + rests[j], i, j))
    return list(min(found)[1:])


def in_a_table(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """Right: the whole table, then its smallest number."""
    whole = {
        (i, j): first + moved + output * token[j]
        for i, first in enumerate(prefill)
        for j, moved in enumerate(change[i])
    }
    i, j = min(whole, key=lambda pair: whole[pair])
    return [i, j]


def _by(weigh: Callable[..., float]) -> Callable[..., list[int]]:
    def answer(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
        pairs = itertools.product(range(len(prefill)), range(len(token)))
        i, j = min(pairs, key=lambda p: weigh(prefill[p[0]], token[p[1]], change[p[0]][p[1]], output))
        return [i, j]

    return answer


def prefill_decides(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """Wrong: the best prefill, then the best that can follow it."""
    i = prefill.index(min(prefill))
    rests = [change[i][j] + output * each for j, each in enumerate(token)]
    return [i, rests.index(min(rests))]


def decoding_decides(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """Wrong: the best decoding, then the best that can come before."""
    j = token.index(min(token))
    firsts = [each + change[i][j] for i, each in enumerate(prefill)]
    return [firsts.index(min(firsts)), j]


def never_changes(prefill: Seconds, token: Seconds, change: Table, output: int) -> list[int]:
    """Wrong: one layout for both stages."""
    whole = [first + output * each for first, each in zip(prefill, token, strict=True)]
    return [whole.index(min(whole))] * 2


TABLES: dict[str, tuple[Seconds, Seconds, Table, int]] = {
    "short answer": (
        [1.0, 1.4, 2.0],
        [0.020, 0.012, 0.010],
        [[0.0, 2.0, 2.0], [2.0, 0.0, 0.5], [2.0, 0.5, 0.0]],
        50,
    ),
    "long answer": (
        [1.0, 1.4, 2.0],
        [0.020, 0.012, 0.010],
        [[0.0, 2.0, 2.0], [2.0, 0.0, 0.5], [2.0, 0.5, 0.0]],
        2000,
    ),
    "cheap change": (
        [1.0, 3.0, 9.0],
        [0.09, 0.05, 0.02],
        [[0.0, 0.1, 0.1], [0.1, 0.0, 0.1], [0.1, 0.1, 0.0]],
        100,
    ),
    "dear change": (
        [1.0, 1.2, 3.5],
        [0.03, 0.02, 0.01],
        [[0.0, 9.0, 9.0], [9.0, 0.0, 9.0], [9.0, 9.0, 0.0]],
        100,
    ),
    "one token": ([2.0, 1.0, 1.5], [0.5, 2.0, 0.1], [[0.0, 1.0, 2.0], [1.0, 0.0, 1.4], [1.0, 1.0, 0.0]], 1),
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Seconds, Seconds, Table, int]:
    prefill, token, change, output = next(case for name, case in TABLES.items() if trial.sizes.get(name))
    return list(prefill), list(token), [list(row) for row in change], output


def _one_card(given: list[tuple[Seconds, Seconds, Table, int]]) -> list[list[int]]:
    return [row_by_row(*mine) for mine in given]


def _look(attempt: Attempt) -> str:
    """The pair, and what it takes beside what the best one takes."""
    seen, wanted = attempt.values[0], attempt.wanted[0]
    if not isinstance(seen, list) or len(seen) != 2 or seen == wanted:
        return ""
    prefill, token, change, output = attempt.given[0]

    def whole(pair: list[int]) -> float:
        i, j = pair
        return float(prefill[i] + change[i][j] + output * token[j])

    return (
        f"{output} token{'s' * (output > 1)}: layouts {seen} take {whole(seen):.2f} s with the change "
        f"from one to the other, layouts {wanted} take {whole(wanted):.2f} s."
    )


REPAIR = Exercise(
    name="12-a",
    title="The best of both",
    statement="""
`prefill[i]` is the seconds of a prompt with layout i, `token[j]` those of one token of the answer with
layout j, `change[i][j]` those of moving the cache from the one to the other. The answer has `output`
tokens. Return [i, j]: the pair of layouts that answers soonest.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=tuple(Trial(2, sizes={name: 1}) for name in TABLES),
    hints=(
        "What does a request wait for, from its prompt to its last token?",
        "Draw a table: a row for each prefill, a column for each decoding. What stands in a cell?",
        """
    pairs = itertools.product(range(len(prefill)), range(len(token)))
    i, j = min(pairs, key=lambda p: ...)           # three terms
    return [i, j]
""",
    ),
    solution=repaired,
    explanation="""
The seconds of a request are prefill + change + output x token: the change joins the two choices. A long
answer pays for it, a short one does not. The cache is not all that may have to move: where the layouts cut
weights in different ways, these must be there twice or be moved too, which is why a planner keeps them
where they are.
""",
    right=(row_by_row, in_a_table),
    wrong=(
        Wrong(best_pair, r"50 tokens: layouts \[0, 2\] take 3\.50 s .* layouts \[\d, \d\] take"),
        Wrong(prefill_decides, r"2000 tokens: layouts \[0, 2\] take 23\.00 s"),
        Wrong(decoding_decides, r"50 tokens: layouts \[1, 2\] take 2\.40 s"),
        Wrong(never_changes, r"2000 tokens: layouts \[2, 2\] take 22\.00 s"),
        Wrong(
            _by(lambda first, each, moved, n: first + n * (moved + each)),
            r"2000 tokens: layouts \[2, 2\] take",
        ),
        Wrong(
            _by(lambda first, each, moved, n: first + moved + each), r"2000 tokens: layouts \[0, 0\] take 41"
        ),
    ),
)

CASE = Case(
    name="12-a",
    title="The best of both",
    story="""
A team measures three layouts. It takes the quickest for prompts and the quickest for tokens, and a service
that switches from one to the other. With 50 tokens an answer it is slower than before, when one layout did
both.
""",
    program=best_pair,
    causes=(
        Choice(
            "Decoding was measured with too small a batch.",
            "All layouts were measured alike; the program does not even use the numbers that decide.",
            holds=False,
        ),
        Choice(
            "The two choices are made each by itself; moving the cache from the one layout to the other is "
            "in neither.",
            "`change` is an argument that nobody reads: two seconds that 50 tokens cannot win back.",
            holds=True,
        ),
        Choice(
            "`min` takes the first of equal numbers.",
            "No two numbers are equal here.",
            holds=False,
        ),
        Choice(
            "The number of tokens should multiply the prefill as well.",
            "A prompt is read once.",
            holds=False,
        ),
    ),
    repair=REPAIR,
    source="the second text, section 6: what a change of layout and moving the cache take belongs into the "
    "whole time; the numbers are made up",
)
