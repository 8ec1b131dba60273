"""This host as a topology: what was timed comes back from the replay, and from the file."""

from dataclasses import replace
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
    assert read.levels == made.levels and read.titles == made.titles
    assert "ring_shift" in read.levels[0].sizes_source and read.levels[0].sizes_date == "2026-12-01"
    assert (read.card.rate.value, read.card.memory_rate.value) == (5e10, 8e9)
    assert "matrix product" in read.card.rate.source and "copy" in read.card.memory_rate.source
    assert read.card.memory.value is None and "timed here: ring_shift" in read.levels[0].alpha.source
    with pytest.raises(ValueError, match=r"ends in \.yaml"):
        TIMED.topology(tmp_path / "host.json")


def test_a_table_that_is_not_right_names_line_and_field(tmp_path: Path) -> None:
    """A table out of order, with a word or a third number, that is read as something."""
    path = hosts.write(TIMED.topology(), tmp_path / "host.yaml")
    good = path.read_text()
    first = f"- bytes: {4096.0}"
    assert good.count(first) == 1
    at = r"line \d+, levels\[0\]\.by_size"
    for bad, words in (
        (f"- bytes: {1e9}", at + r"\.rows\[1\]\.bytes: 65536 does not come after 1e\+09"),
        ("- bytes: unknown", at + r"\.rows\[0\]\.bytes: a table has no unknown numbers"),
        ("- bytes: many", at + r"\.rows\[0\]\.bytes: 'many' is no number"),
        (f"- size: {4096.0}", at + r"\.rows\[0\]: unknown field 'size'; known: bytes, value"),
        (f"- [1, 2]\n    {first}", at + r"\.rows\[0\]: give a mapping with bytes, value"),
    ):
        path.write_text(good.replace(first, bad))
        with pytest.raises(ml.MindlabError, match=words):
            ml.topology(path)


def test_a_table_without_its_origin_is_refused(tmp_path: Path) -> None:
    """Rates by size that nobody vouches for, in another unit, or none at all, that pass."""
    path = hosts.write(TIMED.topology(), tmp_path / "host.yaml")
    head, table = path.read_text().split("by_size:\n")
    for old, new, words in (
        ("source:", "sauce:", "unknown field 'sauce'"),
        ("unit: B/s", "unit: GB/s", r"unit: 'GB/s': give the number in B/s"),
        ("2026-12-01'", "today'", r"date: '.*today': write it as"),
        (table[table.index("rows:") :], "rows: []\n", r"rows: give a list of \{bytes, value\}"),
    ):
        assert old in table
        path.write_text(f"{head}by_size:\n{table.replace(old, new)}")
        with pytest.raises(ml.MindlabError, match=r"host\.yaml, line \d+, levels\[0\]\.by_size.*" + words):
            ml.topology(path)
    path.write_text(head + "by_size: [[1024, 1e9]]\n")
    with pytest.raises(ml.MindlabError, match="by_size: give a mapping with unit, source, date, rows"):
        ml.topology(path)


def test_a_slow_moment_does_not_make_links_free() -> None:
    """A shortest message timed in a slow moment, after which all others seem to cost a hundredth of it."""
    slow = replace(TIMED, points=((4, 30e-6), (1024, 10e-6), (4096, 22e-6), (1_048_576, 700e-6)))
    level = slow.topology().levels[0]
    assert level.alpha.value == pytest.approx(20e-6)
    assert [size for size, _ in level.by_size] == [4096, 1_048_576]
    assert level.at(1_048_576) == pytest.approx(1_048_576 / 680e-6)
    assert hosts.rising([(1, 3.0), (2, 2.0), (3, 1.0)]) == [(1, 2.0), (2, 2.0), (3, 2.0)]
    falling = replace(TIMED, points=((4, 30e-6), (1024, 10e-6))).topology()
    assert falling.levels[0].by_size == () and falling.levels[0].bandwidth.value == 1024 / 20e-6
    assert "no message took longer than the shortest" in falling.assumptions[0]


def test_every_level_and_every_guess_is_written(tmp_path: Path) -> None:
    """A file of the innermost level alone, or one in which a guess has become a fact."""
    for name in ("two-atlas-a2", "pcie-two-roots"):
        shipped = ml.topology(name)
        assert ml.topology(hosts.write(shipped, tmp_path / "same.yaml")) == shipped


def test_a_replay_says_that_its_rates_depend_on_size() -> None:
    """One bandwidth in the sentences of a replay that used a table."""
    host = TIMED.topology()
    said = timeline.simulate(moves.ring_all_gather([4096, 0, 0, 0]), host).assumptions[0]
    assert "by size, " in said and "at 1 MiB" in said and "by size" in repr(host)
    flat = host.assume(bandwidth=1e9)
    assert "by size" not in repr(flat) and flat.levels[0].at(4096) == 1e9 and not flat.levels[0].sizes_source


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
    assert "rate of a rank:" in said and "FLOP/s, matrix product" in said
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
    attentions = [
        {"program": "ring attention", "bytes": 1, "timed": 5.0, "replay": 5.0},
        {"program": "Ulysses attention", "bytes": 1, "timed": 1.0, "replay": 1.0},
    ]
    summary = replaying._summary(rows + attentions)
    assert "0 of 1" in summary["order"] and "ring against Ulysses at one size: 1 of 1" in summary["attention"]


def test_the_middle_of_calibrations_counts() -> None:
    """The last calibration alone, or a mean that one slow moment moves."""
    fits = [
        replace(TIMED, points=((4, a), (65_536, b))) for a, b in ((1e-6, 9e-6), (2e-6, 4e-6), (9e-6, 7e-6))
    ]
    level = (host := replaying.middle(fits, [(1e9, 1.0), (3e9, 5.0), (2e9, 3.0)])).levels[0]
    assert level.alpha.value == 2e-6 and level.by_size == ((65_536.0, pytest.approx(65_536 / 5e-6)),)
    assert (host.card.rate.value, host.card.memory_rate.value) == (2e9, 3.0)
