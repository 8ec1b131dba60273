"""The chapters as a reader meets them: both editions run to their end, the skeleton is kept."""

from __future__ import annotations

import ast
import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from mindlab.book import runner
from mindlab.book.editions import Edition, code_of
from mindlab.book.grading.asked import chapters as chapters_of
from mindlab.book.solutions import has_region
from mindlab.book.source import Chapter, read_chapter
from mindlab.teach import registry
from mindlab.teach.hints import source_of

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "notebooks" / "src"
CHAPTERS = sorted(path.stem for path in SOURCES.glob("[0-8][0-9]_*.md"))
MIME = "application/vnd.mindlab.check+json"
MOST_ROWS = {"01": 50, "03": 50}
"""Chapters that check in loops: more rows than calls in the source."""
FORMULAS = {
    "01": (r"2\frac{p-1}{p}D", r"\frac{p-1}{p}D", r"2(p-1)", r"\lceil\log_2p\rceil"),
    "02": (r"2\cdot2\frac{p-1}{p}bshe", r"\frac{p-1}{p}D"),
    "03": (r"2\cdot2\frac{p-1}{p}bshe", r"2\cdot3\frac{p-1}{p}bshe", r"10+\frac{24}{p}"),
    "04": (r"\frac{p-1}{p}2bsKde", r"p-1", r"\frac{s(s+1)}{2p}"),
    "05": (r"\frac{p-1}{p}(2H+2K)db\frac{s}{p}e", r"(2H+2p)", r"\frac{p-1}{p}2bsKde"),
    "07": {"ranks": 3, "steps": 5},
