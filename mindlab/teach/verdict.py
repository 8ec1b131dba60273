"""One row of judgement: a claim, what was predicted, what was measured, and the verdict.

A verdict shows itself once in a notebook, wherever in the cell it was made and also if it then raises. It
travels in the executed notebook as `application/vnd.mindlab.check+json`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mindlab import notebook
from mindlab.errors import CheckFailed
from mindlab.predict import units
from mindlab.trace.run import Run

MIME = "application/vnd.mindlab.check+json"
PASSED, FAILED = "passed", "failed"
NOT_CHECKED, NOT_ANSWERED = "not checked", "not answered yet"
_MARKS = {PASSED: "✓", FAILED: "✗", NOT_CHECKED: "–", NOT_ANSWERED: "…"}
# Each is read on white and on the near-black of a dark theme: contrast 3.5 or more with both.
_COLOURS = {PASSED: "#178a3c", FAILED: "#d6402f", NOT_CHECKED: "#7a7a7a", NOT_ANSWERED: "#7a7a7a"}

Number = int | float


@dataclass(eq=False)
class Verdict:
    """What a check found. `passed` is True, False, or None where nothing was judged.

    `predicted` and `measured` are a number, a tuple by rank (or rank x rank, flat), a text, or None.
    """

    claim: str
    verdict: str
    predicted: Any = None
    measured: Any = None
    unit: str = ""
    provenance: str = ""
    within: Number = 0
    ranks: int | None = None
    formula: str = ""
    source: str = ""
    reason: str = ""
    """Why it failed or was not judged; for check_close also where the tolerance comes from."""
    graded: dict[str, Any] = field(default_factory=dict)
    """What was graded: ranks, backend, seed, hash of the code (where a run was given)."""
    allowed: Number | None = None
    """Of a comparison of values: how large the largest difference may be, at the element where it is."""
    meant_to_fail: bool = False
    _shown_in: Any = None

    @property
    def passed(self) -> bool | None:
        """True, False, or None where nothing was judged."""
        return {PASSED: True, FAILED: False}.get(self.verdict)

    @property
    def ratio(self) -> str:
        """Measured over predicted: one number, or the smallest and the largest of all ranks."""
        said, seen = _numbers(self.predicted), _numbers(self.measured)
        said = said * len(seen) if len(said) == 1 else said
        ratios = [float(b) / float(a) for a, b in zip(said, seen, strict=False) if a]
        if not ratios or not all(math.isfinite(ratio) for ratio in ratios):
            return ""
        low, high = min(ratios), max(ratios)
        return f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} … {high:.4g}"

    def data(self) -> dict[str, Any]:
        """The verdict as JSON-able data."""
        return {
            "claim": self.claim,
            "predicted": _plain(self.predicted),
            "measured": _plain(self.measured),
            "unit": self.unit,
            "provenance": self.provenance,
            "within": self.within,
            "passed": self.passed,
            "verdict": self.verdict,
            "ranks": self.ranks,
            "ratio": self.ratio,
            "formula": self.formula,
            "source": self.source,
            "reason": self.reason,
            "graded": self.graded,
        }

    def __bool__(self) -> bool:
        return self.passed is True

    def __repr__(self) -> str:
        cells = [f"{head} {text}" for head, text in self._cells() if text and head != "formula"]
        why = f" ({self.reason})" if self.reason else ""
        return f"{self._word()}: {self.claim}: {', '.join(cells)}{why}".replace(": (", " (")

    def _repr_html_(self) -> str:
        heads = "".join(f'<th style="text-align:left">{head}</th>' for head in self._heads())
        cells = "".join(f'<td style="text-align:left">{text}</td>' for text in self._html_cells())
        style = "opacity:.8;white-space:pre-wrap"  # the message of a rank has several lines
        below = [_math(self.formula)] if self._formula_below else []
        below += [html.escape(self.reason)] if self.reason else []
        why = "".join(f'<div style="{style}">{text}</div>' for text in below)
        kind = "mindlab-check" + " values" * (self.allowed is not None)
        table = f'<table class="{kind}"><tr>{heads}</tr><tr>{cells}</tr></table>'
        return f"<div>{table}{why}</div>"

    def _repr_markdown_(self) -> str:
        heads = self._heads()
        texts = [text and f"${text}$" if head == "formula" else _cell(text) for head, text in self._cells()]
        rows = (heads, ["---"] * len(heads), [_cell(self.claim), *texts, self._word()])
        lines = [" | ".join(["", *row, ""]).strip() for row in rows]
        why = f"```text\n{self.reason}\n```" if "\n" in self.reason else self.reason
        return "\n".join(lines) + (f"\n\n{why}" if why else "")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {
            "text/plain": repr(self),
            "text/html": self._repr_html_(),
            "text/markdown": self._repr_markdown_(),
        }
        return bundle if self.meant_to_fail else {**bundle, MIME: self.data()}

    def _ipython_display_(self) -> None:
        """Called by IPython when a cell ends with the verdict: shows it unless this cell already did."""
        shell = notebook.shell()
        if shell is not None and self._shown_in != shell.execution_count:
            show(self)

    @property
    def _formula_below(self) -> bool:
        """Whether the formula is too long for its column: a formula is not broken into lines."""
        return _signs(self.formula) > _LONG

    def _word(self) -> str:
        return f"{_MARKS[self.verdict]} {self.verdict}" + (", as meant" if self.meant_to_fail else "")

    def _cells(self) -> list[tuple[str, str]]:
        ranks = f"{self.ranks} rank{'s' * (self.ranks != 1)}" if self.ranks else ""
        where = ", ".join(text for text in (self.provenance, ranks) if text)
        if self.allowed is not None:
            most = max(_numbers(self.measured), default=math.nan)
            shown = ["" if math.isnan(number) else f"{number:.3g}" for number in (most, self.allowed)]
            return [("largest difference", shown[0]), ("allowed there", shown[1]), ("on", where)]
        return [
            ("formula", self.formula),
            ("predicted", _shown(self.predicted, self.unit)),
            ("measured", _shown(self.measured, self.unit)),
            ("ratio", self.ratio),
            ("provenance", where),
        ]

    def _heads(self) -> list[str]:
        return ["claim", *(head for head, _ in self._cells()), "verdict"]

    def _html_cells(self) -> Iterable[str]:
        yield html.escape(self.claim)
        for head, text in self._cells():
            formula = "below" if self._formula_below else _math(text)
            yield formula if head == "formula" else html.escape(text)
        yield f'<b style="color:{_COLOURS[self.verdict]}">{html.escape(self._word())}</b>'


_LONG = 13.0
"""Signs that fit into the column of formulas, which cells.css makes 8.2rem wide."""
EXPECTED_ERRORS: ContextVar[tuple[Any, ...]] = ContextVar("expected_errors", default=())
"""The `expect_error` blocks that are open, the innermost last."""


def _signs(formula: str) -> float:
    """How wide a formula in LaTeX becomes, in letters: of a fraction the wider half counts, in small."""
    fraction = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
    while found := fraction.search(formula):
        half = max(_signs(found[1]), _signs(found[2]))
        formula = formula.replace(found[0], "x" * round(0.8 * half + 0.5), 1)
    thin = len(re.findall(r"\\[,:;]", formula))
    plain = re.sub(r"\\(?:left|right|[,:;! ])|[{}_^\s]", "", formula)
    plain = re.sub(r"\\(max|min|log|sum)", r"\1", plain)
    plain = re.sub(r"\\[A-Za-z]+", "x", plain)
    return len(plain) + len(re.findall(r"[-+=]|\\cdot", formula)) + 0.25 * thin


def _math(formula: str) -> str:
    return f'<span class="math">${html.escape(formula)}$</span>' if formula else ""


def graded_of(run: Run) -> dict[str, Any]:
    """What a check of this run graded: ranks, backend, seed, name and hash of the code."""
    return {
        "ranks": run.ranks,
        "backend": run.backend,
        "seed": run.seed,
        "name": run.name,
        "code": run.code_hash,
    }


def settle(verdict: Verdict) -> Verdict:
    """The verdict, shown; raises CheckFailed with its reason where it failed."""
    open_blocks = EXPECTED_ERRORS.get()
    if open_blocks:
        open_blocks[-1].saw(verdict)
    show(verdict)
    if verdict.passed is False:
        raise CheckFailed(f"{verdict.claim}: {verdict.reason}")
    return verdict


def show(verdict: Verdict) -> None:
    """Shows the verdict in the notebook; outside of one it stays silent."""
    shell = notebook.shell()
    if shell is None:
        return
    from IPython.display import publish_display_data

    publish_display_data(  # type: ignore[no-untyped-call]
        verdict._repr_mimebundle_()
    )
    verdict._shown_in = shell.execution_count


def _numbers(value: Any) -> list[Number]:
    """The numbers of one side; none where it is a text or nothing."""
    values = list(value) if isinstance(value, tuple) else [value]
    return values if all(isinstance(item, (int, float)) for item in values) else []


def _shown(value: Any, unit: str) -> str:
    if value is None or value is ...:
        return "" if value is None else "…"
    if not isinstance(value, tuple):
        return units.with_base(value, unit) if isinstance(value, (int, float)) else str(value)
    if len(set(value)) == 1:
        return units.with_base(value[0], unit) + ", every rank" * (len(value) > 1)
    return ", ".join(units.number(item) for item in value) + (f" {unit}" if unit else "")


def _plain(value: Any) -> Any:
    """Data that strict JSON can hold: infinities and NaN as text, tuples as lists."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (int, float, str)) else None


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
