"""Launching from a real kernel: cells travel, prints arrive, an interrupt ends the run and not the kernel."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from kernels import Notebook, text_of


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    with Notebook() as started:
        yield started


def test_functions_lambdas_closures_and_classes_of_cells_travel(notebook: Notebook) -> None:
    """Would catch "Can't get attribute 'f'", and a class that comes back as a stranger."""
    notebook.run(
        "class Box:\n    def __init__(self, x): self.x = x\nscale = 3\ndef helper(x): return Box(scale * x)"
    )
    text = notebook.text(
        "def experiment(): return helper(dist.get_rank())\n"
        "run = ml.launch(experiment, ranks=2)\n"
        "print(isinstance(run.values[1], Box), run.values[1].x)"
    )
    assert "True 3" in text, text


def test_an_error_shows_the_cell_its_line_and_nothing_of_ours(notebook: Notebook) -> None:
    """Would catch frames of the launcher in the person's face, and a cell without its number."""
    outputs = notebook.run("def bad():\n    x = 1\n    raise KeyError('k')\nml.launch(bad, ranks=2)")
    text = text_of(outputs)
    assert re.search(r"rank \d raised KeyError: 'k'", text), text
    assert re.search(r"cell \d+, line 3, in bad", text), text
    assert "launcher.py" not in text and len(text.splitlines()) < 15, text
    assert "[1, 1]" in notebook.text("ml.launch(lambda: 1, ranks=2).values")


def test_events_name_the_cell_and_the_line(notebook: Notebook) -> None:
    """Would catch source lines that end at the package's own code."""
    text = notebook.text(
        "def talk():\n    x = torch.ones(3)\n    dist.all_reduce(x)\n"
        "run = ml.launch(talk, ranks=2)\nprint(run.events[0].line, '|', run.events[0].code)"
    )
    assert re.search(r"cell \d+, line 3 \| dist.all_reduce\(x\)", text), text


def test_prints_arrive_while_the_experiment_runs(notebook: Notebook) -> None:
    """Would catch text that is held back until the end."""
    ident = notebook.send(
        "import time\ndef slow():\n    print('early', dist.get_rank())\n    time.sleep(3)\n"
        "ml.launch(slow, ranks=2);"
    )
    began = time.monotonic()
    first = notebook.client.get_iopub_msg(timeout=20)
    while first["msg_type"] != "stream":
        first = notebook.client.get_iopub_msg(timeout=20)
    assert time.monotonic() - began < 3 and "[rank " in first["content"]["text"]
    notebook.finish(ident)


def test_interrupt_ends_the_experiment_and_says_where_ranks_stood(notebook: Notebook) -> None:
    """Would catch an interrupt that is ignored, kills the kernel, or leaves the next cell broken."""
    ident = notebook.send(
        "def wait():\n    if dist.get_rank(): time.sleep(600)\n    dist.all_reduce(torch.ones(2))\n"
        "ml.launch(wait, ranks=2, timeout=300)"
    )
    time.sleep(1.5)
    notebook.manager.interrupt_kernel()
    began = time.monotonic()
    text = text_of(notebook.finish(ident, timeout=20))
    assert time.monotonic() - began < 10, "the interrupt took too long"
    assert "Interrupted" in text and re.search(r"rank 0 waits in all_reduce .*cell \d+, line 3", text), text
    assert "[0, 1]" in notebook.text("ml.launch(dist.get_rank, ranks=2).values")


def test_the_magic_keeps_names_and_prints_the_last_value(notebook: Notebook) -> None:
    """Would catch names lost between cells, and a last line that is not shown."""
    notebook.run("factor = 10\nml.shutdown()")
    assert notebook.text("%%ranks 3 -i factor\nmine = rank * factor") == ""
    text = notebook.text("%%ranks 3 -o run\nx = torch.tensor([float(mine)])\ndist.all_reduce(x)\nx.item()")
    assert [line for line in sorted(text.split("\n")) if line] == [f"[rank {r}] 30.0" for r in range(3)]
    assert "3" in notebook.text("len(run.events)")
    assert "no such name" in notebook.text("%%ranks 3 -i nothing\npass")
    assert "names that %%ranks cells left are gone" in notebook.text("ml.launch(int, ranks=2);")
    assert "invalid int value" in notebook.text("%%ranks many\npass")


def test_long_work_shows_that_it_runs(notebook: Notebook) -> None:
    """Would catch a cell that is silent for a minute."""
    outputs = notebook.run("ml.launch(lambda: time.sleep(3.6), ranks=2);")
    shown = [output for output in outputs if output["kind"] == "display_data"]
    assert shown and re.search(r"2 ranks, \d+ s", shown[0]["data"]["text/plain"])


def test_a_slip_in_a_ranks_cell_keeps_the_names_and_says_how_to_go_on(notebook: Notebook) -> None:
    """Would catch an hour's names lost to a typo, and a NameError that does not say how names get there."""
    notebook.run("numel = 5")
    notebook.run("%%ranks 3\nkept = rank + 1")
    assert "-i numel" in notebook.text("%%ranks 3\ntorch.ones(numel)")
    assert "SyntaxError" in notebook.text("%%ranks 3\nif True print(1)")
    assert "take a whole number from 1 to 64" in notebook.text("%%ranks 0\npass")
    assert "[rank 2] 3" in notebook.text("%%ranks 3\nkept")
    notebook.run("%%ranks 3\nif rank: dist.barrier()")
    assert "NameError" in notebook.text("%%ranks 3\nkept"), "ranks that waited were used again"


def test_a_call_outside_the_ranks_is_explained(notebook: Notebook) -> None:
    """Would catch torch's advice to call init_process_group, which leads a beginner away."""
    notebook.run("def hello(): return dist.get_rank()")
    assert "Hand over the function itself" in notebook.text("ml.launch(hello(), ranks=2)")
