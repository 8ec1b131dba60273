"""The reference and the glossary: complete, and what they show is what there is."""

from __future__ import annotations

import csv
import html
import inspect
import re
from pathlib import Path

import pytest
import site_project as made

import mindlab
from mindlab.book.site import glossary, reference


@pytest.fixture
def site() -> Path:
    return made.built()[0]


def ids(site: Path, name: str) -> set[str]:
    """The places of a page."""
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    return {given["id"] or "" for _, given in made.Tags(text).seen if "id" in given}


def test_every_public_name_has_an_entry(site: Path) -> None:
    """Would catch a new public name that the reference does not tell of."""
    entries = ids(site, "reference")
    assert {f"ml.{name}" for name in reference.names()} <= entries
    assert set(mindlab._HOMES) == {*reference.names(), *reference.modules()}


@pytest.mark.parametrize("module", sorted(reference.modules()))
def test_every_name_of_a_module_has_an_entry(site: Path, module: str) -> None:
    """Would catch a formula, an algorithm or a picture that the reference leaves out."""
    names = {f"ml.{module}.{name}" for name in reference.members(getattr(mindlab, module))}
    assert names and names <= ids(site, f"reference_{module}")


def test_an_entry_shows_the_signature_with_its_defaults(site: Path) -> None:
    """Would catch annotations in quotation marks, a lost default, a lost star."""
    assert reference.signature(mindlab.launch).startswith(
        "(fn: Callable[..., Any], *args: Any, ranks: int = 4, "
    )
    assert reference.signature(mindlab.Run).endswith(")") and "factory" not in reference.signature(
        mindlab.Run
    )
    text = re.sub(r"\s", "", html.unescape(made.plain((site / "reference.html").read_text("utf-8"))))
    assert "ranks:int=4," in text and "→Run" in text


def test_every_example_is_shown(site: Path) -> None:
    """Would catch an example that is cut off: tests run the docstrings, the reader sees the pages."""
    text = html.unescape(re.sub(r"<[^<>]*>", "", (site / "reference.html").read_text(encoding="utf-8")))
    for name, value in reference.names().items():
        for line in reference.examples(value).splitlines():
            assert line.split("  # doctest")[0].rstrip() in text, (name, line)


def test_the_fields_of_a_run_are_described(site: Path) -> None:
    """Would catch a page on Run that says nothing of run.wire or run.traffic."""
    described = {name.split("(")[0] for name, _ in reference.attributes(mindlab.Run)}
    assert {
        "values",
        "printed",
        "seconds",
        "events",
        "wire",
        "traffic",
        "sent",
        "received",
        "save",
    } <= described
    assert {f"ml.Run.{name}" for name in described} <= ids(site, "reference")


def test_a_docstring_is_shown_as_it_is_written() -> None:
    """Would catch stars that become italics, and brackets that become links."""
    shown = reference.described(type("T", (), {"__doc__": "All of [0, p), 2*a*b and `x[0]`."}))
    assert shown == "All of \\[0, p), 2\\*a\\*b and `x[0]`."


def test_the_glossary_has_every_term_in_both_languages(site: Path) -> None:
    """Would catch a term that is lost on the way from terms.csv."""
    with (made.ROOT / "notebooks/src/terms.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    text = (site / "glossary.html").read_text(encoding="utf-8")
    cells = [
        html.unescape(made.plain(cell)).strip() for cell in re.findall(r"<td>(.*?)</td>", text, re.DOTALL)
    ]
    shown = set(zip(cells[::3], cells[1::3], strict=False))
    assert {(row["en"], row["zh"]) for row in rows} == shown
    assert len(glossary.terms(made.ROOT)) == len(rows)


def test_no_page_beside_the_chapters_shows_python_that_nobody_ran(site: Path) -> None:
    """Would catch a block of Python in docs/: code stands in chapters and docstrings, which are executed."""
    for name in ("index", "install", "running", "instructors", "measured", "design", "glossary"):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert "highlight-python" not in text and "highlight-ipython3" not in text, name


def test_the_page_of_pictures_draws_every_picture() -> None:
    """Would catch a new picture that nobody sees in its place among the others."""
    source = (made.ROOT / "notebooks/src/90_pictures.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```\{code-cell\}\n(.*?)```", source, re.DOTALL))
    missing = [name for name in mindlab.draw.__all__ if not re.search(rf"ml\.(draw\.)?{name}\(", code)]
    assert not missing
    assert inspect.getdoc(mindlab.draw)
