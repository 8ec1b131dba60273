"""The glossary: the workbook's terms in both languages, from notebooks/src/terms.csv."""

from __future__ import annotations

import csv
from pathlib import Path

_HEAD = """# Glossary · 术语表

The words that the workbook uses, in English and in Chinese, and where the Chinese comes from.

| English | 中文 | source |
|---|---|---|
"""


def terms(root: Path) -> list[dict[str, str]]:
    """The rows of terms.csv: "en", "zh", "source"."""
    with (root / "notebooks" / "src" / "terms.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page(root: Path) -> str:
    """The page's text, terms in the order of the alphabet."""
    rows = sorted(terms(root), key=lambda row: row["en"].lower())
    return _HEAD + "".join(f"| {row['en']} | {row['zh']} | {row['source']} |\n" for row in rows)
