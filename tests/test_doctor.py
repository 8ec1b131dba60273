"""`mindlab doctor`: what it says of a host, and that it touches neither torch nor a card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mindlab import doctor


def names(found: list[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in found}


def test_it_looks_at_everything_without_importing_torch() -> None:
    """Catches a doctor that dies on the very host it should explain (torch_npu without CANN)."""
    code = (
        "import sys, mindlab.doctor as d; names = {f.name for f in d.examine()}; "
        "assert {'python', 'torch', 'cores', 'open files', 'chromium', 'leftovers'} <= names, names; "
        "assert 'backend gloo' in names; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_trouble_has_a_remedy_or_a_reason() -> None:
    """Catches findings that only complain."""
    for finding in doctor.examine():
        assert finding.value
        assert finding.state == doctor.OK or finding.remedy or finding.name.startswith(("backend", "wire"))


def test_the_command_gives_json_and_an_exit_code() -> None:
    """Catches output that a script cannot read, and a code that says nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "mindlab", "doctor", "--json"], capture_output=True, text=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert {"name", "state", "value", "remedy"} == set(found[0])
    assert done.returncode == any(one["state"] == "problem" for one in found)


def test_a_missing_torch_and_a_wrong_pair_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a doctor that finds a broken installation healthy."""
    monkeypatch.setattr(doctor, "version", lambda name: "")
    assert names(list(doctor._torch()))["torch"].state == doctor.PROBLEM
    monkeypatch.setattr(doctor, "version", {"torch": "2.9.0", "torch_npu": "2.7.1"}.get)
    pair = names(list(doctor._torch_npu()))["torch_npu"]
    assert pair.state == doctor.PROBLEM and "install torch 2.7.1" in pair.remedy
    monkeypatch.setattr(doctor, "version", {"torch": "2.6.0+cpu"}.get)
    assert names(list(doctor._torch()))["torch"].state == doctor.PROBLEM


def test_cann_must_be_loaded_where_torch_npu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the commonest fault on an NPU host: set_env.sh was not sourced."""
    monkeypatch.setattr(doctor, "version", {"torch": "2.7.1", "torch_npu": "2.7.1"}.get)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    assert "npu_env.sh" in names(list(doctor._torch_npu()))["CANN"].remedy
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend/cann")
    assert names(list(doctor._torch_npu()))["CANN"].state == doctor.OK


def test_a_kernel_of_another_environment_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches JupyterLab starting an old environment's Python under the name python3."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert list(doctor._kernel()) == []
    (tmp_path / "kernels/python3").mkdir(parents=True)
    (tmp_path / "kernels/python3/kernel.json").write_text('{"argv": ["/old/bin/python", "-m", "x"]}')
    assert "/old/bin/python" in next(iter(doctor._kernel())).value


def test_orphans_are_ranks_whose_parent_is_gone(tmp_path: Path) -> None:
    """Catches a search that reports living experiments or finds nothing."""
    for pid, parent, command in (
        (11, 1, b"python\0mindlab.ranks"),
        (12, 5, b"python\0mindlab.ranks"),
        (13, 1, b"sh"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(command)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a b) S {parent} 0 0")
    assert doctor.orphans(tmp_path) == [11]


def test_memory_is_known_or_unknown_but_never_guessed(tmp_path: Path) -> None:
    """Catches a made-up number where /proc is missing."""
    assert doctor.available_memory(tmp_path / "none") is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 1024 kB\n")
    assert 0 < (doctor.available_memory(tmp_path / "meminfo") or 0) <= 2**20


def test_the_text_counts_the_problems() -> None:
    """Catches a summary that contradicts its lines."""
    good = doctor.Finding("a", doctor.OK, "fine")
    bad = doctor.Finding("b", doctor.PROBLEM, "broken", "mend it")
    assert "Nothing keeps" in doctor.as_text([good])
    assert "1 problem." in doctor.as_text([good, bad]) and "-> mend it" in doctor.as_text([bad])
