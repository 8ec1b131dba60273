"""Search on the site, in both languages, from a disk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import site_project as made

from mindlab.book.site.search import SearchBoth

needs_browser = pytest.mark.skipif(made.CHROMIUM is None, reason="no chromium on this host")


@pytest.fixture
def site() -> Path:
    return made.built()[0]


def index(site: Path) -> dict[str, Any]:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("Search.setIndex(").rstrip(";\n").removesuffix(")"))


def found(index: dict[str, Any], word: str) -> set[str]:
    """The pages that have a term, in their text or in a heading."""
    pages: set[str] = set()
    for kind in ("terms", "titleterms"):
        numbers = index[kind].get(word, [])
        pages |= {index["docnames"][n] for n in ([numbers] if isinstance(numbers, int) else numbers)}
    return pages


def test_a_text_is_cut_into_words_and_pairs() -> None:
    """Would catch Chinese that is indexed as one long word, or Latin letters inside it that are lost."""
    cut = SearchBoth({}).split("KV缓存 per-rank reduce_scatter 环")
    assert cut == ["KV", "缓", "存", "缓存", "per", "rank", "reduce_scatter", "环"]


def test_the_index_has_words_of_both_languages(site: Path) -> None:
    """Would catch an index that leaves one language out, or the text inside of outputs and code."""
    made_index = index(site)
    assert found(made_index, "quokka") == {"01_one", "index"}
    assert found(made_index, "归约") >= {"03_three"} and found(made_index, "环境") >= {"03_three"}
    assert found(made_index, "张量") >= {"03_three", "glossary"}
    assert "reference_volume" in {name for term in made_index["terms"] if "tree_broadcast" in term
                                  for name in found(made_index, term)}  # fmt: skip


def test_the_index_is_a_script(site: Path) -> None:
    """Would catch an index that is fetched, which a browser refuses on a disk."""
    text = (site / "search.html").read_text(encoding="utf-8")
    assert 'src="searchindex.js"' in text and 'src="_static/excerpts.js' in text


@needs_browser
@pytest.mark.parametrize(
    ("query", "name", "excerpt"),
    [
        ("quokka", "01_one.html", "It costs"),
        ("measuring sockets", "measured.html", "socket"),
        ("全归约", "03_three.html", "环形全归约需要"),
        ("环境准备", "03_three.html", "环境准备"),
        ("KV缓存", "03_three.html", "缓存按头切分"),
        ("latency 延迟", "glossary.html", "延迟"),
    ],
)
def test_a_search_from_the_disk_finds_and_quotes(
    site: Path, tmp_path: Path, query: str, name: str, excerpt: str
) -> None:
    """Would catch a search that needs a server, a compound that finds nothing, a hit without its words."""
    dom = made.opened(f"{(site / 'search.html').as_uri()}?q={quote(query)}", tmp_path)
    results = re.search(r'id="search-results">(.*)</article>', dom, re.DOTALL)
    assert results, made.plain(dom)[-500:]
    assert f'href="{name}' in results[1] and excerpt in made.plain(results[1]).replace(" ", "") + made.plain(
        results[1]
    )


@needs_browser
def test_what_is_nowhere_is_not_found(site: Path, tmp_path: Path) -> None:
    """Would catch a search that finds everything."""
    dom = made.opened(f"{(site / 'search.html').as_uri()}?q={quote('量子纠缠')}", tmp_path)
    assert "did not match any documents" in dom
