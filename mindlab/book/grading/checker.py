"""The process that judges: `python -m mindlab.book.grading.checker FD`.

It imports mindlab itself and holds no line of a learner's. Questions come as JSON lines on stdin, verdicts go
out on a pipe; when stdin ends, so does it, and its ranks with it.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any

from mindlab.book.grading import plain


def main() -> None:
    """Judges answers until there are no more."""
    plain.only_data()
    verdicts = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what the answers print is nobody's to read
    questions: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    while True:
        verdicts.write(json.dumps(_judged(json.loads(questions.get()))) + "\n")


def _read(questions: queue.Queue[str]) -> None:
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)  # nobody waits for a verdict; the ranks end because we do


def _judged(question: dict[str, Any]) -> dict[str, Any]:
    """{"state", "says", "graded"} for {"exercise", "answer", "seed", "backend", "timeout"}."""
    from mindlab import errors
    from mindlab.book.grading.carried import Carried
    from mindlab.ranks.launcher import shutdown
    from mindlab.teach.grade import grade
    from mindlab.teach.registry import find_task

    exercise, answer = find_task(question["exercise"]), Carried(question["answer"])
    try:
        backend = question["backend"] or None
        found = grade(exercise, answer, seed=question["seed"], backend=backend, timeout=question["timeout"])
    except errors.BackendUnavailable as error:
        return {"state": "did not run", "says": str(error)}
    except plain.Refused as error:
        why = f"A rank returned something else than tensors, numbers, texts, lists and dicts: {error}."
        return {"state": "failed", "says": why}
    except errors.MindlabError as error:  # an answer that ended the process which starts ranks, for one
        return {"state": "failed", "says": f"The check broke off: {error}."}
    except Exception as error:  # noqa: BLE001 - one answer that breaks its check must not stop the next
        return {"state": "did not run", "says": f"the check broke off: {type(error).__name__}: {error}"}
    finally:
        shutdown()  # the next answer gets ranks that this one never touched
    graded = {**(found.graded or {}), "code": answer.code}
    state = {True: "passed", False: "failed", None: "not answered"}[found.passed]
    return {"state": state, "says": found.sentence, "detail": found.detail, "graded": graded}


if __name__ == "__main__":
    main()
