"""Without network: which indexes lie on this disk, and the wheels inside pip's cache."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from setup_modules import installer, wheelhouse

# As `pip config list` prints them.
CONFIGURATION = """\
:env:.default-timeout='180'
global.extra-index-url='file:///srv/one https://mirror.example/simple'
global.index-url='https://main.example/simple'
install.extra-index-url='file:///srv/two'
"""


def wheel(path: Path, stem: str, *tags: str, build: str = "") -> Path:
    """A stand-in wheel under any file name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["Wheel-Version: 1.0", *([f"Build: {build}"] if build else []), *(f"Tag: {tag}" for tag in tags)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/__init__.py", "")
        archive.writestr(f"{stem}.dist-info/WHEEL", "\n".join(lines) + "\n")
    return path


def test_the_narrower_setting_rules() -> None:
    """Would catch an index that pip does not use, or the default one asked though another is set."""
    assert wheelhouse.indexes(CONFIGURATION) == ["https://main.example/simple", "file:///srv/two"]
    assert (
        wheelhouse.indexes(":env:.index-url='https://mine.example'\n" + CONFIGURATION)[0]
        == "https://mine.example"
    )
    assert wheelhouse.indexes("") == ["https://pypi.org/simple"]


def test_several_extra_indexes_are_several() -> None:
    """Would catch two addresses taken for one."""
    both = wheelhouse.indexes("global.extra-index-url='file:///srv/one\\nfile:///srv/two'")
    assert both[1:] == ["file:///srv/one", "file:///srv/two"]


def test_which_indexes_are_near() -> None:
    """Would catch a remote index asked, package by package, on a host without network."""
    assert wheelhouse.is_local("file:///srv/simple") and wheelhouse.is_local("/srv/simple")
    assert not wheelhouse.is_local("https://main.example/simple")


def test_arguments_without_network(tmp_path: Path) -> None:
    """Would catch an index on disk left out, or pip left to its remote default."""
    assert installer._local(["https://x.example"], tmp_path) == ("--no-index", "--find-links", str(tmp_path))
    near = installer._local(["https://x.example", "file:///a", "file:///b"], tmp_path)
    assert near[:4] == ("--index-url", "file:///a", "--extra-index-url", "file:///b")


@pytest.mark.parametrize(
    ("stem", "tags", "build", "name"),
    [
        ("six-1.17.0", ("py2-none-any", "py3-none-any"), "", "six-1.17.0-py2.py3-none-any.whl"),
        (
            "torch-2.13.0+cpu",
            ("cp311-cp311-linux_x86_64",),
            "",
            "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
        ),
        ("a-1", ("py3-none-any",), "2", "a-1-2-py3-none-any.whl"),
    ],
)
def test_a_cached_wheel_has_its_name_again(
    tmp_path: Path, stem: str, tags: tuple[str, ...], build: str, name: str
) -> None:
    """Would catch a wheel that pip does not take because its name or its tags are wrong."""
    body = wheel(tmp_path / "http-v2" / "0" / "1" / "abc.body", stem, *tags, build=build)
    assert wheelhouse.wheel_name(body) == name


def test_an_older_cache_wraps_the_wheel(tmp_path: Path) -> None:
    """Would catch the caches of pip before 23.3 passed over: there, other bytes stand around the wheel."""
    body = wheel(tmp_path / "plain", "six-1.17.0", "py3-none-any")
    wrapped = tmp_path / "http" / "1" / "2" / "abc"
    wrapped.parent.mkdir(parents=True)
    wrapped.write_bytes(b"cc=4,\x82\xa8response" + body.read_bytes() + b"\xa7headers\x80")
    assert wheelhouse.link_cached(tmp_path, tmp_path / "wheels") == 1
    with zipfile.ZipFile(tmp_path / "wheels" / "six-1.17.0-py3-none-any.whl") as archive:
        assert "package/__init__.py" in archive.namelist()


def test_what_is_no_wheel_is_left_alone(tmp_path: Path) -> None:
    """Would catch an index page, a zip of something else or a cut wheel offered to pip."""
    (tmp_path / "http-v2").mkdir()
    (tmp_path / "http-v2" / "page.body").write_text("<html>")
    with zipfile.ZipFile(tmp_path / "http-v2" / "other.body", "w") as archive:
        archive.writestr("readme.txt", "")
    whole = wheel(tmp_path / "http-v2" / "cut.body", "six-1.17.0", "py3-none-any")
    whole.write_bytes(whole.read_bytes()[:-30])
    assert wheelhouse.link_cached(tmp_path, tmp_path / "wheels") == 0


def test_links_are_made_again(tmp_path: Path) -> None:
    """Would catch a second set-up without network that stops at the first one's links."""
    wheel(tmp_path / "http-v2" / "a.body", "six-1.17.0", "py3-none-any")
    for _ in range(2):
        assert wheelhouse.link_cached(tmp_path, tmp_path / "links") == 1


class Answers(installer.Installer):
    """A pip whose settings are these, and whose indexes do not answer."""

    def ask(self, *arguments: str, environment: object = None) -> str | None:
        """What `pip config list`, `pip cache dir` and `pip index versions` print."""
        return {"config": CONFIGURATION, "cache": f"{self.root}/cache\n"}.get(arguments[0])


def test_no_answer_means_this_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Would catch minutes of retries, package after package, where no index can be reached."""
    wheel(tmp_path / "cache" / "http-v2" / "a.body", "six-1.17.0", "py3-none-any")
    pip = installer.from_here(Answers("python", tmp_path))
    assert pip.offline and pip.sources[:2] == ("--index-url", "file:///srv/two")
    assert "1 wheels" in capsys.readouterr().out


def test_settings_that_install_elsewhere_are_overridden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch PIP_USER or PIP_TARGET sending packages past .venv, or a person's index forgotten."""
    seen: dict[str, str] = {}
    monkeypatch.setattr(installer.subprocess, "run", lambda *a, env, **k: seen.update(env))
    for name in ("PIP_USER", "PIP_TARGET", "PIP_INDEX_URL", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "given")
    installer.Installer("python", tmp_path)._run(("list",), {})
    assert seen["PIP_USER"] == "0" and "PIP_TARGET" not in seen
    assert seen["PIP_INDEX_URL"] == seen["HTTPS_PROXY"] == "given"
