"""A chapter in a real JupyterLab, as `bash launch/lab.sh` leaves it, worked on in a real browser.

The tests share one server and one browser and run in their order: each is a step of one person's hour.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import nbformat
import pytest
from browser import needs_chromium, window
from lab_page import LabPage
from lab_server import ROOT, Lab, is_alive, until

pytestmark = needs_chromium

WORKSHOP = """\
import os, time
import mindlab as ml
import torch
import torch.distributed as dist
---
def relay(numel):
    x, arriving = torch.ones(numel), torch.empty(numel)
    rank, p = dist.get_rank(), dist.get_world_size()
    pair = [dist.P2POp(dist.isend, x, (rank + 1) % p), dist.P2POp(dist.irecv, arriving, (rank - 1) % p)]
    for request in dist.batch_isend_irecv(pair):
        request.wait()
    return os.getpid()

def twice(numel):
    relay(numel)
    return relay(numel)

run = ml.launch(twice, 1200, ranks=4)
ml.play(run)
---
calls = []

def traffic(ranks, how):
    '''Who sends to whom'''
    calls.append(ranks)
    if how == "broken":
        raise ValueError("a mistake of mine")
    if how == "slow":
        time.sleep(600)
    return ml.draw.traffic(ml.launch(relay, 1200, ranks=ranks))

ml.explore(traffic, {"three": {"ranks": 3, "how": "relay"}, "six": {"ranks": 6, "how": "relay"}},
           ranks=(2, 8), how=["relay", "broken", "slow"])
---
print(calls)
---
ml.exercise("00.1")
---
def hand_on(x):
    return ...
---
ml.exercise("00.1").check(hand_on);
---
def endless():
    print("waiting as process", os.getpid(), flush=True)
    if dist.get_rank() == 0:
        dist.recv(torch.empty(1), 1)
    time.sleep(600)

ml.launch(endless, ranks=3, timeout=600)
---
print(ml.launch(os.getpid, ranks=3).values)
"""
START, PLAY, EXPLORE, CALLS, TASK, ANSWER, CHECK, ENDLESS, PIDS = range(9)
WRONG = """\
def hand_on(x):
    arriving = torch.empty_like(x)
    sending = dist.isend(x, (dist.get_rank() - 1) % dist.get_world_size())
    dist.recv(arriving, (dist.get_rank() + 1) % dist.get_world_size())
    sending.wait()
    return arriving"""
RIGHT = WRONG.replace("- 1", "* 1").replace("+ 1", "- 1").replace("* 1", "+ 1")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    shutil.copytree(
        ROOT / "figures", made.work / "figures", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    (made.work / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "00_start_here.ipynb", made.work / "notebooks")
    cells = [nbformat.v4.new_code_cell(code.strip()) for code in WORKSHOP.split("---\n")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(book, made.work / "workshop.ipynb")
    with made:
        yield made


@pytest.fixture(scope="module")
def book(lab: Lab) -> Iterator[LabPage]:
    with window(lab.folder / "profile") as opened:
        yield LabPage(lab, opened)


def ranks_of(book: LabPage) -> list[int]:
    """The processes below the kernels: the ranks, and what starts them."""
    return [
        pid
        for pid, line in book.lab.processes().items()
        if not re.search("jupyterlab|ipykernel|lab.sh", line)
    ]


def test_lab_opens_chapter_00_and_every_cell_runs(book: LabPage) -> None:
    """Would catch a lab.sh that opens something else, a cell that only runs headless, a dead widget."""
    book.page.goto(f"{book.lab.url}/?token={book.lab.token}")
    book.is_open("notebooks/00_start_here.ipynb")
    book.run_all(2 * 60_000)
    assert book.errors() == []
    assert all(cell["count"] for cell in book.cells() if cell["kind"] == "code" and cell["source"].strip())
    dead = re.compile("Error displaying widget|Failed to load model|could not be displayed|Javascript Error")
    assert book.page.locator(".jp-OutputArea-output").get_by_text(dead).count() == 0
    book.page.locator(".jp-OutputArea-output figure.ml-play").first.wait_for(state="attached")
    book.lab.close_kernels()


def test_the_player_steps_by_buttons_and_by_keys(book: LabPage) -> None:
    """Would catch a script that Lab does not run, and keys that reach Lab: B would insert a cell."""
    book.open("workshop.ipynb")
    book.run(START)
    book.run(PLAY)
    player = book.shown(PLAY).locator("figure.ml-play.on")
    said, following = player.locator("output"), player.get_by_role("button", name="next step")
    player.scroll_into_view_if_needed()
    assert said.inner_text().startswith("Step 1 of 2")
    following.click()
    assert said.inner_text().startswith("Step 2 of 2")
    for key, step in (("ArrowLeft", 1), ("ArrowLeft", 1), ("End", 2), ("Home", 1), ("ArrowRight", 2)):
        book.page.keyboard.press(key)
        assert said.inner_text().startswith(f"Step {step} of 2"), key
    player.get_by_role("slider", name="step").focus()
    for key in ("b", "ArrowLeft", "Home"):
        book.page.keyboard.press(key)
    assert said.inner_text().startswith("Step 1 of 2")
    assert player.locator("li:visible").count() == 1
    assert len(book.cells()) == PIDS + 1
    assert player.get_by_role("button", name="play").inner_text() == "▶ play"


def test_a_moved_slider_launches_and_draws_again(book: LabPage) -> None:
    """Would catch a slider without effect, an older value drawn last, an error that kills the widget."""
    book.run(EXPLORE)
    shown = book.shown(EXPLORE)
    picture, state = shown.locator(".ml-explore"), shown.get_by_role("status")
    state.get_by_text("ranks = 3, how = relay", exact=True).wait_for()
    before = picture.inner_html()
    shown.locator(".noUi-handle").focus()
    book.page.keyboard.press("ArrowRight")
    state.get_by_text("ranks = 4, how = relay", exact=True).wait_for()
    assert picture.inner_html() != before
    assert "rank 3 sent 4.688 KiB to 0" in (picture.locator("svg").get_attribute("aria-label") or "")
    for _ in range(4):
        book.page.keyboard.press("ArrowRight")
    state.get_by_text("ranks = 8, how = relay", exact=True).wait_for()
    book.run(CALLS)
    drawn = json.loads(book.text(CALLS))
    assert drawn[:3] == [3, 6, 4] and drawn[-1] == 8 and drawn == [*drawn[:2], *sorted(set(drawn[2:]))]


def test_an_error_an_interrupt_and_a_preset_in_the_explorer(book: LabPage) -> None:
    """Would catch a widget that an error breaks, one that Interrupt misses, a preset without keys."""
    shown = book.shown(EXPLORE)
    shown.get_by_role("button", name="broken").focus()
    book.page.keyboard.press("Space")
    shown.get_by_role("alert").get_by_text("ValueError: a mistake of mine").wait_for()
    shown.get_by_role("button", name="slow").click()
    shown.get_by_role("status").get_by_text("how = slow: drawing").wait_for()
    book.press("notebook:interrupt-kernel")
    shown.get_by_role("alert").get_by_text("Interrupted. Move a slider").wait_for()
    shown.get_by_role("button", name="six").focus()
    book.page.keyboard.press("Enter")
    shown.get_by_role("status").get_by_text("ranks = 6, how = relay", exact=True).wait_for()
    shown.locator(".ml-explore svg").wait_for()
    assert shown.locator(".noUi-handle").get_attribute("aria-valuetext") == "6"
    assert "mod-active" in (shown.get_by_role("button", name="relay").get_attribute("class") or "")


def test_a_wrong_and_then_a_right_answer(book: LabPage) -> None:
    """Would catch a verdict that stays as it was, and a wrong answer without a word on why."""
    box = book.shown(CHECK).locator(".ml-exercise")
    for code, verdict, state in (
        (None, "not answered yet", None),
        (WRONG, "not yet right", "failed"),
        (RIGHT, "passed", "passed"),
    ):
        if code:
            book.write(ANSWER, code)
        book.run(ANSWER)
        book.run(CHECK)
        box.get_by_text(verdict).wait_for()
        assert box.count() == 1 and len(box.inner_text()) > (60 if code else 20)
        kept = book.lab.folder / "progress.json"
        if state:
            assert json.loads(kept.read_text())["exercises"]["00.1"]["state"] == state
    assert book.errors() == []


def test_interrupt_ends_the_experiment_and_the_next_one_runs(book: LabPage) -> None:
    """Would catch a kernel that hangs in a launch, ranks that go on, a notebook that needs a restart."""
    book.start("notebook:run-cell", ENDLESS)
    until(lambda: len(set(_waiting(book))) == 3, 60, "three ranks at work", lambda: book.text(ENDLESS))
    ranks = _waiting(book)
    state = book.shown(EXPLORE).get_by_role("status")
    book.shown(EXPLORE).locator(".noUi-handle").focus()
    book.page.keyboard.press("ArrowLeft")  # a slider moved meanwhile waits for the cell
    assert state.inner_text() == "ranks = 6, how = relay"
    book.press("notebook:interrupt-kernel")
    book.finish()
    state.get_by_text("ranks = 5, how = relay", exact=True).wait_for()
    (error,) = [one for one in book.outputs(ENDLESS) if one["output_type"] == "error"]
    assert error["ename"] == "Interrupted"
    until(lambda: not any(map(is_alive, ranks)), 20, "the interrupted ranks are gone")
    book.run(PIDS)
    assert len(json.loads(book.text(PIDS))) == 3


def _waiting(book: LabPage) -> list[int]:
    return [int(pid) for pid in re.findall(r"waiting as process (\d+)", book.text(ENDLESS))]


def test_restart_leaves_no_rank(book: LabPage) -> None:
    """Would catch ranks, or what starts them, that outlive the kernel and hold their cards."""
    before = ranks_of(book)
    assert len(before) >= 3
    book.press("notebook:restart-kernel")
    book.page.locator(".jp-Dialog").get_by_role("button", name="Confirm").click()
    until(lambda: not any(map(is_alive, before)), 30, "the old kernel's ranks are gone", book.lab.processes)
    book.wait("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'")
    assert ranks_of(book) == []
    book.run(START)
    book.run(PIDS)
    assert len(json.loads(book.text(PIDS))) == 3


def test_a_notebook_opened_again_shows_the_explorers_picture(book: LabPage) -> None:
    """Would catch "Error displaying widget" where the picture was: the kernel that drew it is gone."""
    book.run(PLAY)
    book.run(EXPLORE)
    book.shown(EXPLORE).locator(".ml-explore svg").wait_for()
    book.start("docmanager:save")
    book.finish()
    book.lab.close_kernels()
    book.open("workshop.ipynb")
    book.shown(EXPLORE).locator(".ml-explore svg").wait_for()
    book.run(START)
    book.run(PIDS)


def test_nothing_outside_this_host_was_asked_and_no_script_failed(book: LabPage) -> None:
    """Would catch a font, script or telemetry from the net, and errors that only the console shows."""
    assert book.window.outside == []
    assert book.window.faults == []


def test_after_shutdown_no_process_is_left(book: LabPage) -> None:
    """Would catch a rank, a kernel or a server that stays behind when the person has gone."""
    assert ranks_of(book)
    book.lab.close_kernels()
    until(lambda: book.lab.ask("/api/kernels") == [], 20, "no kernel")
    until(lambda: ranks_of(book) == [], 20, "no rank", book.lab.processes)
    book.lab.end()
    until(lambda: book.lab.processes() == {}, 20, "no process", book.lab.processes)
