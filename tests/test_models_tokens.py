"""Tokens: every text comes back, joins are those of the shipped text, and they stop at the edge of a word."""

from __future__ import annotations

import doctest

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindlab.models import tokens
from mindlab.models.tokens import decode, encode, joined, joins, learn, shipped_text, spellings


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    """Would catch a character that no word of the pattern holds: it would vanish in silence."""
    ids = encode(text)
    assert ids.shape[0] == 1 and ids.dtype == torch.int64
    assert decode(ids[0]) == text


def test_the_shipped_joins_are_learned_from_the_shipped_text() -> None:
    """Would catch a text that was changed without learning its tokens, and so its models, anew."""
    assert learn(shipped_text(), len(joins())) == joins()


def test_tokens_are_fewer_than_bytes() -> None:
    """Would catch joins that are learned and then not used."""
    text = shipped_text()
    assert encode(text).shape[1] < len(text.encode()) / 2
    assert len(encode("AllReduce 并行")[0]) <= 5


def test_no_token_crosses_a_word() -> None:
    """Would catch a token for the end of one word and the start of the next."""
    for spelt in spellings():
        assert b" " not in spelt[1:] and b"\n" not in spelt[1:]
        assert spelt.isascii() or all(byte >= 128 for byte in spelt)


def test_joins_of_overlapping_pairs() -> None:
    """Would catch a byte that is used twice: aaa has one pair and a rest."""
    assert joined([7, 7, 7, 7, 7], (7, 7), 300) == [300, 300, 7]
    assert joined([1, 2, 2, 1, 2], (1, 2), 300) == [300, 2, 300]


def test_earlier_joins_go_first() -> None:
    """Would catch joins from left to right: what was learned as a whole would be written in other parts."""
    known = {(2, 3): 300, (1, 2): 301}
    assert tokens.written([1, 2, 3], known) == [1, 300]


def test_more_joins_than_pairs_are_refused() -> None:
    """Would catch fewer tokens than were asked for, in silence."""
    with pytest.raises(ValueError, match="no pair left after 1 joins: ask for fewer than 5"):
        learn("ab", 5)


def test_examples() -> None:
    """Would catch an example in a docstring that is no longer true."""
    assert doctest.testmod(tokens, extraglobs={"torch": torch}).failed == 0


def test_numbers_that_are_no_tokens() -> None:
    """Would catch -1 read as the last token, and a negative count of joins taken for none."""
    for bad in (-1, 768):
        with pytest.raises(ValueError, match=f"tokens from {bad} to {bad}: they lie between 0 and 767"):
            tokens.decode(torch.tensor([bad]))
    with pytest.raises(ValueError, match="count=-3"):
        tokens.learn("text", -3)
