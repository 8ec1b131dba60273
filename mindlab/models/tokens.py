"""Text to tokens and back: byte-pair encoding (Sennrich, Haddow and Birch 2016), over bytes.

The first 256 tokens are the bytes, so every text can be written. Each further token joins two earlier ones
that often follow each other in the text that was learned; a text is written with the earliest joins first.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from itertools import pairwise

import torch
from torch import Tensor

from mindlab.models.weights import FOLDER
from mindlab.predict.shapes import check_whole

Pair = tuple[int, int]

BYTES = 256
WORDS = re.compile(r" ?[A-Za-z]+| ?[0-9]|.", re.DOTALL)
"""What joins never cross: an English word with the space before it, a digit, any other character alone.

So a token is never the end of one Chinese character and the start of the next.
"""


def shipped_text() -> str:
    """The text that tokens and language models learned: prose of this workbook and of the pages behind it.

    >>> shipped_text().splitlines()[0]
    '多卡并行'
    """
    return (FOLDER / "text.txt").read_text(encoding="utf-8")


@functools.cache
def joins() -> dict[Pair, int]:
    """The pairs that are joined, and the token that each becomes: 256, 257, …, in the order of learning.

    >>> max(joins().values())
    767
    """
    lines = (FOLDER / "joins.txt").read_text(encoding="ascii").splitlines()
    return {(int(a), int(b)): BYTES + at for at, (a, b) in enumerate(line.split() for line in lines)}


def vocabulary() -> int:
    """How many tokens there are.

    >>> vocabulary()
    768
    """
    return BYTES + len(joins())


def encode(text: str) -> Tensor:
    """The tokens of a text, (1, S) int64.

    >>> encode("Every rank").shape, encode("q").tolist()
    (torch.Size([1, 2]), [[113]])
    """
    tokens = [token for word in WORDS.findall(text) for token in written(list(word.encode()), joins())]
    return torch.tensor([tokens], dtype=torch.int64)


def decode(tokens: Tensor) -> str:
    """The text of tokens (S,). Bytes that make no whole character, as at a cut, show as the sign U+FFFD.

    >>> decode(encode("每张卡 holds a shard")[0]), decode(torch.tensor([97, 229]))
    ('每张卡 holds a shard', 'a\ufffd')
    """
    parts = spellings()
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(parts):
        raise ValueError(
            f"tokens from {int(tokens.min())} to {int(tokens.max())}: they lie between 0 and {len(parts) - 1}"
        )
    return b"".join(parts[token] for token in tokens.tolist()).decode(errors="replace")


@functools.cache
def spellings() -> list[bytes]:
    """The bytes of every token."""
    spelt = [bytes([byte]) for byte in range(BYTES)]
    for first, second in joins():
        spelt.append(spelt[first] + spelt[second])
    return spelt


def written(word: list[int], known: dict[Pair, int]) -> list[int]:
    """The word's tokens: of the pairs in it the earliest learned is joined, again and again.

    >>> written([1, 2, 1, 2, 3], {(1, 2): 256, (256, 3): 257})
    [256, 257]
    """
    while pair := min(
        (each for each in pairwise(word) if each in known), key=known.__getitem__, default=None
    ):
        word = joined(word, pair, known[pair])
    return word


def joined(word: list[int], pair: Pair, token: int) -> list[int]:
    """The word with `token` wherever `pair` stood, from the left.

    >>> joined([7, 7, 7], (7, 7), 256)
    [256, 7]
    """
    out: list[int] = []
    for each in word:
        if out and (out[-1], each) == pair:
            out[-1] = token
        else:
            out.append(each)
    return out


def learn(text: str, count: int) -> dict[Pair, int]:
    """`count` joins for a text: each time the pair that is there most often; of equals, the smaller numbers.

    Raises ValueError where the text has no pair left.

    >>> learn("aaab aaab", 2)
    {(97, 97): 256, (97, 98): 257}
    """
    check_whole(0, count=count)
    words = Counter(tuple(word.encode()) for word in WORDS.findall(text))
    known: dict[Pair, int] = {}
    for token in range(BYTES, BYTES + count):
        pairs: Counter[Pair] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        if not pairs:
            raise ValueError(
                f"the text has no pair left after {len(known)} joins: ask for fewer than {count}"
            )
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        known[best] = token
        again: Counter[tuple[int, ...]] = Counter()
        for word, times in words.items():
            again[tuple(joined(list(word), best, token))] += times
        words = again
    return known
