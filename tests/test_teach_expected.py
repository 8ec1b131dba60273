"""expect_error: a block that must fail, and how."""

from __future__ import annotations

import pytest

from mindlab.errors import CheckFailed, Interrupted, MindlabError, RankFailed
from mindlab.teach.checks import check, expect_error


def test_the_expected_error_is_kept() -> None:
    """Would catch an expected error that stops the cell, or is lost."""
    with expect_error(ValueError, match="neg.*size") as caught:
        raise ValueError("negative size")
    assert str(caught.error) == "negative size"
    with expect_error((KeyError, MindlabError)):
        raise RankFailed("rank 1 raised", rank=1)


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (None, "nothing was raised; ValueError matching 'size' was expected"),
        (TypeError("size"), "another error was raised: TypeError: size"),
        (ValueError("other"), "does not match 'size': ValueError: other"),
    ],
)
def test_anything_else_fails(raised: Exception | None, sentence: str) -> None:
    """Would catch a block that passes without failing, or fails for another reason."""
    with pytest.raises(CheckFailed) as failed, expect_error(ValueError, match="size"):
        if raised is not None:
            raise raised
    assert sentence in str(failed.value)
    assert failed.value.__cause__ is raised


def test_an_interrupt_is_the_persons() -> None:
    """Would catch a stop button that a wide kind swallows."""
    for kind in (MindlabError, BaseException):
        with pytest.raises(Interrupted), expect_error(kind):
            raise Interrupted("stopped")
    with expect_error(Interrupted):
        raise Interrupted("stopped")


def test_a_check_that_did_not_judge() -> None:
    """Would catch an open exercise, or a run on two ranks, that fails where a check should have failed."""
    with expect_error(CheckFailed, match="times"):
        check("open", ..., 3)
    with expect_error(CheckFailed, match="times"):
        check("two ranks", 4, [4, 4])
    with pytest.raises(CheckFailed, match="nothing was raised"), expect_error(CheckFailed):
        check("right", 4, 4)


def test_blocks_nest() -> None:
    """Would catch an inner block's verdict that the outer one takes for its own."""
    with expect_error(CheckFailed, match="nothing was raised"), expect_error(ValueError):
        pass
    with expect_error(CheckFailed, match="2 times"):
        check("wrong", 2, 4)
    with pytest.raises(CheckFailed):
        check("wrong, outside of a block", 2, 4)


def test_kind_must_be_an_exception() -> None:
    """Would catch a message given in place of a class."""
    with pytest.raises(TypeError, match="give an exception class"):
        expect_error("boom")  # type: ignore[arg-type]
