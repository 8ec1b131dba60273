"""Search in both languages: English by words and stems, Chinese by pairs of characters.

Chinese has no spaces. Sphinx's own Chinese search cuts the pages into words with a dictionary but the query
not at all, so that a compound the dictionary does not know finds nothing. Pairs need no dictionary: a page is
found if it has every pair of the query.
"""

from __future__ import annotations

import re

from sphinx.search.en import SearchEnglish

_HAN = r"\u3400-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{_HAN}]+|[^\\W{_HAN}]+")
_SPLITTER = """
function splitQuery(query) {
  const runs = query.match(/[HAN]+|(?:(?![HAN])[\\p{L}\\p{N}_])+/gu) || [];
  return runs.flatMap((run) => {
    if (!/^[HAN]/.test(run) || run.length === 1) return [run];
    return Array.from({ length: run.length - 1 }, (_, k) => run.slice(k, k + 2));
  });
}
""".replace("HAN", _HAN)


class SearchBoth(SearchEnglish):
    """Sphinx's English search, with Chinese beside it."""

    lang = "en-zh"
    language_name = "English and Chinese"
    js_splitter_code = _SPLITTER

    def split(self, input: str) -> list[str]:
        """The words of a text; of a Chinese run each character and each pair."""
        return [word for run in _RUN.findall(input) for word in words_of(run)]


def words_of(run: str) -> list[str]:
    """What one run of characters is indexed under."""
    if not re.match(f"[{_HAN}]", run):
        return [run]
    return [*run, *(run[k : k + 2] for k in range(len(run) - 1))]
