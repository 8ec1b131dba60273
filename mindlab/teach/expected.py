"""A block that must fail, and how."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from mindlab.errors import CheckFailed, Interrupted
from mindlab.teach.verdict import EXPECTED_ERRORS, FAILED, NOT_ANSWERED, NOT_CHECKED, PASSED, Verdict, settle

_LONGEST = 2000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class expect_error:
    """A context manager for a block that must fail with `kind` and a message in which `match` is found.

    `kind` is an exception class or a tuple of them, `match` a regular expression (re.search). The error is
    shown as an expected one, without a traceback, and kept in `.error`. Raises CheckFailed if nothing or
    something else is raised. If a check in the block could not judge ("not checked",
    "not answered yet"), neither does this one.

    >>> with ml.expect_error(ValueError, match="negative"):
    ...     raise ValueError("negative size")
    """

    def __init__(self, kind: type[BaseException] | tuple[type[BaseException], ...], match: str | None = None):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not kinds or not all(isinstance(one, type) and issubclass(one, BaseException) for one in kinds):
            raise TypeError(f"expect_error({kind!r}): give an exception class, such as ml.MindlabError")
        self.kinds, self.match = kinds, re.compile(match) if match is not None else None
        self.error: BaseException | None = None
        self._unjudged: Verdict | None = None
        self._meant: Verdict | None = None
        self._token: Any = None

    def saw(self, verdict: Verdict) -> None:
        """Told of each verdict in the block: a failing one is meant, an unjudged one is remembered."""
        if verdict.passed is False:
            verdict.meant_to_fail = any(issubclass(CheckFailed, kind) for kind in self.kinds)
            self._meant = verdict
        elif verdict.passed is None:
            self._unjudged = self._unjudged or verdict

    def __enter__(self) -> expect_error:
        self._token = EXPECTED_ERRORS.set((*EXPECTED_ERRORS.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        EXPECTED_ERRORS.reset(self._token)
        if error is not None and self._is_the_persons_interrupt(error):
            return False
        self.error = error
        if error is None:
            self._nothing_raised()
            return False
        self._judge(error)
        return True

    def _is_the_persons_interrupt(self, error: BaseException) -> bool:
        """An interrupt or an exit is never swallowed by a wider kind."""
        leaving = (KeyboardInterrupt, SystemExit, GeneratorExit)
        named = any(issubclass(kind, (*leaving, Interrupted)) for kind in self.kinds)
        return isinstance(error, leaving) and not named

    def _nothing_raised(self) -> None:
        silent = self._unjudged
        if silent is not None:
            word = NOT_ANSWERED if silent.verdict == NOT_ANSWERED else NOT_CHECKED
            settle(self._verdict(word, None, silent.reason))
        else:
            settle(self._verdict(FAILED, "no error", f"nothing was raised; {self._wanted()} was expected"))

    def _judge(self, error: BaseException) -> None:
        seen = f"{type(error).__name__}: {_text(error)}"
        if not isinstance(error, self.kinds):
            reason = f"another error was raised: {seen}; {self._wanted()} was expected"
        elif self.match is not None and not self.match.search(_text(error)):
            reason = f"the message does not match {self.match.pattern!r}: {seen}"
        else:
            shown_above = self._meant is not None and isinstance(error, CheckFailed)
            settle(self._verdict(PASSED, type(error).__name__, "" if shown_above else _text(error)))
            return
        try:
            settle(self._verdict(FAILED, seen, reason))
        except CheckFailed as failed:
            raise failed from error

    def _verdict(self, word: str, seen: str | None, reason: str) -> Verdict:
        return Verdict("this block must fail", word, self._wanted(), seen, provenance="raised", reason=reason)

    def _wanted(self) -> str:
        names = " or ".join(kind.__name__ for kind in self.kinds)
        return names + (f" matching {self.match.pattern!r}" if self.match is not None else "")


def _text(error: BaseException) -> str:
    """The message, without colours, cut where it is very long."""
    text = _ANSI.sub("", str(error))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
