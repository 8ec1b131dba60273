"""The picture of tokens and their experts: lines, boxes and stacks are those of the routes."""

from __future__ import annotations

import pytest
from draw_marks import fills, no_warning, texts  # noqa: F401 - the fixture works by being here

from mindlab import draw
from mindlab.draw import style
from mindlab.predict.placement import holders

TOKENS = [["a", "b"], [], ["c"]]
ROUTES = [[[0, 3], [3, 1]], [], [[3, 2]]]


def test_a_stack_has_a_square_for_each_token_that_came() -> None:
    """Would catch a load counted by sender, and squares in the colour of the expert's rank."""
    ax = draw.route(TOKENS, ROUTES, holders(4, 3))
    # tokens, boxes and squares: rank 0 has 2 + 2 + 4, rank 1 one box, rank 2 has 1 + 1 + 2
    assert [fills(ax).count(style.colour(rank)) for rank in range(3)] == [2 + 2 + 4, 1, 1 + 1 + 2]
    assert "expert 3 on rank 2: 3 tokens: 2 from rank 0, 1 from rank 2" in ax.alt
    assert [texts(ax).count(str(expert)) for expert in ("E0", "E1", "E2", "E3")] == [1, 1, 1, 1]


def test_each_choice_has_its_line() -> None:
    """Would catch one line a token, however many experts it has: each is drawn with a dark rim."""
    assert len(draw.route(TOKENS, ROUTES, holders(4, 3)).lines) == 2 * 6


def test_a_copied_expert_shares_its_tokens() -> None:
    """Would catch copies that are drawn and get nothing."""
    ax = draw.route(TOKENS, ROUTES, holders(4, 3, {3: 2}))
    assert texts(ax).count("E3") == 2
    assert "expert 3 on rank 2: 1 tokens" in ax.alt or "expert 3 on rank 2: 2 tokens" in ax.alt


def test_tokens_without_routes_are_refused() -> None:
    """Would catch a picture of the first tokens with the routes of others."""
    with pytest.raises(ValueError, match=r"tokens by rank \[2, 0, 1\], routes \[2, 0, 0\]"):
        draw.route(TOKENS, [*ROUTES[:2], []], holders(4, 3))


def test_experts_on_ranks_without_a_list_of_tokens_are_refused() -> None:
    """Would catch an expert that is left out of the picture in silence."""
    with pytest.raises(ValueError, match="an expert lies on rank 1, tokens are given for 1"):
        draw.route([["a"]], [[[0]]], holders(2, 2))
