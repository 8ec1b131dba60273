"""The stamp: a second set-up is quick, an interrupted one is noticed, a changed one is done again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from setup_modules import environment, stamp, vendor

WANTED = stamp.Stamp(base="base", wanted="wanted", extras=("docs", "lab"))


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A .venv whose Python is this one, with two packages."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("papermill-2.7.0", "torch-2.13.0+cpu"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    return tmp_path


@pytest.fixture(autouse=True)
def python_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether .venv's Python runs is a test of its own."""
    monkeypatch.setattr(stamp, "starts", lambda venv, code: True)


def test_a_finished_environment_is_current(venv: Path) -> None:
    """Would catch a set-up that installs again at every start."""
    stamp.write(venv, stamp.finished(venv, WANTED))
    assert stamp.is_current(venv, stamp.read(venv), WANTED)
    assert stamp.is_current(venv, stamp.read(venv), replace(WANTED, extras=("lab",)))


def test_an_interrupted_set_up_is_not_current(venv: Path) -> None:
    """Would catch a half-installed environment used as if it were whole."""
    stamp.write(venv, WANTED)
    assert not stamp.is_current(venv, stamp.read(venv), WANTED)


@pytest.mark.parametrize("changed", [{"base": "x"}, {"wanted": "x"}, {"extras": ("dev", "docs", "lab")}])
def test_a_changed_wish_is_noticed(venv: Path, changed: dict[str, str]) -> None:
    """Would catch another Python, a new lock or another extra served by the old environment."""
    stamp.write(venv, stamp.finished(venv, WANTED))
    assert not stamp.is_current(venv, stamp.read(venv), replace(WANTED, **changed))


def test_a_package_that_went_is_noticed(venv: Path) -> None:
    """Would catch an environment from which a person removed a package; one that was added is theirs."""
    stamp.write(venv, stamp.finished(venv, WANTED))
    site = venv / "lib" / "python3.11" / "site-packages"
    (site / "mine-1.0.dist-info").mkdir()
    assert stamp.is_current(venv, stamp.read(venv), WANTED)
    (site / "papermill-2.7.0.dist-info").rename(site / "papermill-2.6.0.dist-info")
    assert not stamp.is_current(venv, stamp.read(venv), WANTED)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"base": "b"}', '{"base": 1, "surprise": 2, "extras": []}'])
def test_a_broken_stamp_is_no_stamp(venv: Path, text: str) -> None:
    """Would catch a traceback at a stamp cut short by a full disk."""
    (venv / stamp.NAME).write_text(text)
    assert stamp.read(venv) is None


def test_what_lies_there_is_read_from_names(venv: Path) -> None:
    """Would catch a version's own hyphens or local part misread."""
    assert stamp.packages(venv) == {"papermill": "2.7.0", "torch": "2.13.0+cpu"}


def test_the_base_knows_place_and_image(tmp_path: Path) -> None:
    """Would catch a moved checkout, or an image with another torch, that keeps its old .venv."""
    image = {"torch": vendor.Package("torch", "2.7.1", "/opt/site-packages", "")}
    newer = {"torch": vendor.Package("torch", "2.8.0", "/opt/site-packages", "")}
    digests = {
        stamp.base_digest(tmp_path, {}),
        stamp.base_digest(tmp_path / "moved", {}),
        stamp.base_digest(tmp_path, image),
        stamp.base_digest(tmp_path, newer),
    }
    assert len(digests) == 4


def test_the_wish_knows_packages_and_lock(tmp_path: Path) -> None:
    """Would catch a new lock that nobody installs."""
    (tmp_path / "pyproject.toml").write_text("a")
    first = stamp.wanted_digest(tmp_path)
    (tmp_path / "constraints.txt").write_text("b")
    assert stamp.wanted_digest(tmp_path) != first


def test_which_environments_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch an interrupted or moved .venv patched up, or one made by hand thrown away."""
    whole = replace(WANTED, complete=True)
    image = {"torch": vendor.Package("torch", "2.7.1", "/opt/site-packages", "")}
    assert environment.can_keep(replace(whole, wanted="older lock"), WANTED, {})
    assert environment.can_keep(None, WANTED, {})
    assert not environment.can_keep(None, WANTED, image)
    assert not environment.can_keep(WANTED, WANTED, {})
    assert not environment.can_keep(replace(whole, base="moved"), WANTED, {})
    monkeypatch.setattr(stamp, "starts", lambda venv, code: False)
    assert not environment.can_keep(whole, WANTED, {})


def test_a_python_that_does_not_start_is_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch a .venv whose Python was removed from the system, taken for a good one."""
    monkeypatch.undo()
    (tmp_path / "bin").mkdir()
    assert not stamp.starts(tmp_path, "pass")
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert stamp.starts(tmp_path, "pass")
    assert not stamp.starts(tmp_path, "raise SystemExit(1)")
