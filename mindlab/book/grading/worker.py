"""The process that grades submissions, one after the other: `python -m mindlab.book.grading.worker FD`.

As `mindlab.book.worker`: tasks come on stdin, news go out on a pipe, and its end ends the running kernel.
"""

from __future__ import annotations

from mindlab.book.grading.session import Session
from mindlab.book.grading.sitting import Sitting, sit
from mindlab.book.worker import serve


def _lost() -> None:
    if Session.current:
        Session.current.kill()


if __name__ == "__main__":
    serve(Sitting, sit, _lost)
