"""The lines of source that stand in messages: a person's own code, without remarks for checkers."""

import linecache

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.trace.places import Place, plain_code, text


def test_remarks_for_checkers_are_left_out() -> None:
    """A person's own comment cut off, or a `noqa` that a learner has to read over."""
    assert plain_code("x = f(1)  # type: ignore[arg-type]  # noqa: F821 - why\ny = 2  # two") == (
        "x = f(1)\ny = 2  # two"
    )
    linecache.cache["remarked.py"] = (
        1,
        None,
        ["    send(k)  # noqa: F821\n", "    recv(k)  # it comes\n"],
        "",
    )
    assert [text(Place("remarked.py", line)) for line in (1, 2)] == ["send(k)", "recv(k)  # it comes"]
    del linecache.cache["remarked.py"]


def test_neither_an_error_nor_a_record_shows_them() -> None:
    """The line of a traceback, and that of a call, taken from the file as they stand there."""

    def program(fail: bool) -> None:
        dist.all_reduce(torch.ones(1))
        if fail:
            raise KeyError("none")  # type: ignore[misc]

    run = ml.launch(program, False, ranks=2)
    assert {event.code for event in run.events} == {"dist.all_reduce(torch.ones(1))"}
    with pytest.raises(ml.MindlabError) as caught:
        ml.launch(program, True, ranks=2)
    assert 'raise KeyError("none")' in str(caught.value)
    assert "noqa" not in str(caught.value) and "type: ignore" not in str(caught.value)
