"""This host as a topology: what was timed comes back from the replay, and from the file."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.bench import replaying
from mindlab.planning import hosts, moves, timeline
from mindlab.planning.calibration import Calibration

POINTS = ((1024, 20e-6), (4096, 22e-6), (65_536, 60e-6), (1_048_576, 700e-6))
TIMED = Calibration(
    19e-6, 6.5e-10, POINTS, 0.1, "ring_shift", 4, "gloo", "4 ranks · gloo · torch · x86_64 · 2026-12-01"
)


def test_a_message_takes_what_was_timed() -> None:
    """One bandwidth for all sizes, or alpha counted twice: each timed size comes back as it was."""
    host = TIMED.topology()
    for size, spent in POINTS[1:]:
        replayed = timeline.simulate(moves.ring_all_gather([size, 0, 0, 0]), host).seconds
        assert float(replayed) == pytest.approx(3 * spent)
    assert host.levels[0].alpha.value == 20e-6 and host.cards == 4


def test_the_file_is_the_topology(tmp_path: Path) -> None:
    """A file that cannot be read again, or that has lost the table, a rate or a source."""
    path = tmp_path / "host.yaml"
    made = hosts.as_topology(TIMED, rates=(5e10, 8e9))
    hosts.write(made, path)
    read = ml.topology(path)
    assert read.levels[0].by_size == made.levels[0].by_size and read.titles == made.titles
    assert (read.card.rate.value, read.card.memory_rate.value) == (5e10, 8e9)
    assert read.card.memory.value is None and "timed here: ring_shift" in read.levels[0].alpha.source
    with pytest.raises(ValueError, match=r"ends in \.yaml"):
        TIMED.topology(tmp_path / "host.json")


def test_a_table_that_is_not_right_names_line_and_field(tmp_path: Path) -> None:
    """A table out of order, with a word or a third number, that is read as something."""
    path = hosts.write(TIMED.topology(), tmp_path / "host.yaml")
    good = path.read_text()
    first = f"- - {4096.0}"
    assert first in good
    for bad, words in (
        (f"- - {1e9}", r"line \d+, levels\[0\].by_size\[1\]: 65536 B does not come after 1e\+09 B"),
        ("- - unknown", r"by_size\[0\]: a table has no unknown numbers"),
        ("- - many", r"by_size\[0\]: 'many' is no number"),
        (f"- - 1\n    - {4096.0}", r"by_size\[0\]: give two numbers"),
    ):
        path.write_text(good.replace(first, bad))
        with pytest.raises(ml.MindlabError, match=words):
            ml.topology(path)


def test_a_calibrated_host_replays_a_recorded_run(tmp_path: Path) -> None:
    """A topology from real ranks that the replay cannot use: no rate, too few cards, no date."""
    fit = ml.calibrate(2, sizes=(1024, 65_536), repeats=3)
    host = fit.topology(tmp_path / "laptop.yaml", compute=True)
    run = ml.launch(lambda: dist.all_reduce(torch.ones(4096)), ranks=2)
    again = ml.topology(tmp_path / "laptop.yaml")
    assert float(ml.replay(run, again).seconds) == float(ml.replay(run, host).seconds) > 0
    assert host.card.rate.value and host.card.rate.value > 1e8


def test_the_bench_prints_every_program_and_its_error() -> None:
    """A report that leaves a program, or the error, out."""
    result = replaying.replaying(2, 1, sizes=(1024, 16_384))
    said = replaying.text(result)
    assert all(said.count(name) == 2 for name in replaying.PROGRAMS)
    assert "replay / timed:" in said and "of" in result["order"]
    rows = [
        {"program": "a", "bytes": 1, "timed": 1.0, "replay": 2.0},
        {"program": "b", "bytes": 1, "timed": 2.0, "replay": 1.0},
        {"program": "a", "bytes": 2, "timed": 3.0, "replay": 3.0},
    ]
    summary = replaying._summary(rows)
    assert summary["order"].startswith("algorithms at one size: 0 of 1")
    assert summary["sizes"].startswith("sizes of one algorithm: 1 of 1")
