"""The planner against published tables: row by row what it predicts, and from which constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, groupby
from typing import Any

from mindlab.bench.predicting import Row, as_shipped, predicted
from mindlab.bench.published_tables import tables, without_series
from mindlab.predict import memory, volume
from mindlab.predict.architectures import architecture, names

WITHIN = 0.15
"""The error up to which a row counts as predicted."""
APART = 0.10
"""Two rows of a series are ranked where they differ by more than this."""


def planner() -> dict[str, Any]:
    """The summary, and every row with its error and where its constants are from."""
    rows = predicted(tables())
    covered = [row for row in rows if row.kind == "covered"]
    near = [row for row in covered if abs(row.error or 0.0) <= WITHIN]
    right, ranked = ranking(rows)
    facts, own = exact(), [row for row in as_shipped(tables()) if row.kind == "covered"]
    own_right, own_ranked = ranking(own)
    half = [row for row in own if 2 / 3 <= 1 + (row.error or 0.0) <= 1.5]
    own_near = [row for row in own if abs(row.error or 0.0) <= WITHIN]
    farthest = max(abs(fact["error"]) for fact in facts)
    return {
        "what": "published numbers against the planner's model",
        "covered": f"{len(covered)} rows, {len(near)} within {WITHIN:.0%} ({len(near) / len(covered):.1%})",
        "ranking": f"{ranked} pairs that differ by more than {APART:.0%}, {right} in the right order "
        f"({right / ranked:.1%})",
        "nothing fitted": f"{len(own)} rows with the constants of the topologies' own files, "
        f"{len(own_near) / len(own):.0%} within {WITHIN:.0%}, {len(half) / len(own):.0%} within a factor of "
        f"1.5; {own_right / own_ranked:.1%} of {own_ranked} pairs in the right order",
        "not counted": ", ".join(
            f"{many} {kind}" for kind, many in _kinds(rows).items() if kind != "covered"
        ),
        "facts": f"{len(facts)} of shapes and formulas, the farthest {farthest:.2%} off",
        "honestly": "what is outside (tokens a card, rings, PCIe) was learned from these tables too",
        "table": [_row(row) for row in rows],
        "exact": facts,
        "left out": _left_out(rows),
    }


def ranking(rows: Sequence[Row]) -> tuple[int, int]:
    """(pairs in the right order, pairs) of rows of one series that differ enough, one of them predicted."""
    right = count = 0
    for _, group in groupby(rows, key=lambda row: row.series.name):
        known = [row for row in group if row.predicted is not None]
        for one, other in combinations(known, 2):
            if one.kind == other.kind == "fitted" or not _apart(one, other):
                continue
            count += 1
            right += (one.published < other.published) == (_known(one) < _known(other))
    return right, count


def exact() -> list[dict[str, Any]]:
    """Facts that hold without any constant: parameters, cache a token, Megatron's activations, volumes."""
    found = []
    for name in names():
        model = architecture(name)
        ours = {
            "parameters": model.parameters,
            "active parameters": model.active_parameters,
            "kv bytes a token": model.kv_bytes_per_token,
        }
        for one in model.published:
            value = float(ours[one.what]().value)
            found.append(_fact(f"{name}, {one.what}", one.value, value, one.source))
    return [*found, *_weights(), *_volumes()]


def text(result: dict[str, Any]) -> str:
    """The report for a terminal."""
    lines = []
    for table, group in groupby(result["table"], key=lambda row: (row["table"], row["series"])):
        lines.append(f"{table[0]}  {table[1]}")
        lines += [f"      {_line(row)}" for row in group]
    lines.append("without a constant")
    for fact in result["exact"]:
        numbers = f"{fact['published']:>14.6g} {fact['model']:>14.6g} {fact['error']:>+8.2%}"
        lines.append(f"      {fact['what']:<44} {numbers}")
    lines.append("not held against the model")
    lines += [f"      {one['table']}  {one['what']}: {one['why']}" for one in result["left out"]]
    heads = ("what", "covered", "ranking", "nothing fitted", "not counted", "facts", "honestly", "host")
    return "\n".join([*lines, *(f"{head}: {result[head]}" for head in heads if head in result)])


def _row(row: Row) -> dict[str, Any]:
    return {
        "table": row.series.table,
        "series": row.series.name,
        "row": str(row.name),
        "unit": row.series.unit,
        "published": row.published,
        "model": row.predicted,
        "error": row.error,
        "kind": row.kind,
        "why": row.why or _constants(row),
        "source": row.series.source,
    }


def _constants(row: Row) -> str:
    """Where the constants of a covered row are from."""
    series = row.series
    if series.carry:
        return f"constants of: {series.carry}"
    return ", ".join(f"{name} from row {used}" for name, used in series.fit.items())


def _line(row: dict[str, Any]) -> str:
    numbers = f"{row['row']:<26} {row['published']:>11.5g} {row['unit']}"
    if row["model"] is None:
        return f"{numbers}  outside: {row['why']}"
    error = "taken from here" if row["kind"] == "fitted" else f"{row['error']:+.1%}"
    return f"{numbers} {row['model']:>11.5g}  {error}"


def _left_out(rows: Sequence[Row]) -> list[dict[str, str]]:
    series = {row.series.name: row.series for row in rows}.values()
    parts = [
        {"table": one.table, "what": f"{one.name}, {what}", "why": why}
        for one in series
        for what, why in one.left_out.items()
    ]
    whole = [{"table": one["table"], "what": one["title"], "why": one["why"]} for one in without_series()]
    return [*parts, *whole]


def _kinds(rows: Sequence[Row]) -> Counter[str]:
    return Counter(row.kind for row in rows)


def _apart(one: Row, other: Row) -> bool:
    low, high = sorted((one.published, other.published))
    return high > low * (1 + APART)


def _known(row: Row) -> float:
    assert row.predicted is not None
    return row.predicted


def _weights() -> list[dict[str, Any]]:
    """What a card saves by tensor and not by sequence parallel: W (1 - 1/p), in MiB (table A27)."""
    source = "xdit-project/xDiT 175e0bf, Step-Video-T2V 30B, 8 x H20: peak of SP less peak of TP"
    published = {2: 86258 - 57458, 4: 78226 - 36566, 8: 79684 - 30028}
    whole = 30e9 * 2 / 2**20
    return [
        _fact(f"Step-Video-T2V, weights that TP {ranks} saves, MiB", gap, whole * (1 - 1 / ranks), source)
        for ranks, gap in published.items()
    ]


def _volumes() -> list[dict[str, Any]]:
    """Formulas of papers, at one size each: bytes of an element are 1."""
    s, b, h, a, t = 2048, 1, 6144, 64, 8
    megatron = "Korthikanti et al. 2022 (arXiv 2205.05198)"
    ulysses = "microsoft/DeepSpeed 1661cf6, blogs/deepspeed-ulysses"
    one = s * b * h
    scores = 5 * a * s / h
    taken = memory.activations(b, s, h, a)
    cut = memory.activations(b, s, h, a, t)
    both = memory.activations(b, s, h, a, t, sequence_parallel=True)
    link = volume.ulysses_attention(b, s, a, a, h // a, t, itemsize=1).value * t / (t - 1)
    return [
        _fact("activations a layer, one card", one * (34 + scores), float(taken.value), megatron),
        _fact("activations a layer, TP 8", one * (10 + 24 / t + scores / t), float(cut.value), megatron),
        _fact("activations a layer, TP 8 with SP", one / t * (34 + scores), float(both.value), megatron),
        _fact("Ulysses, 4Nh/P with the part a rank keeps", 4 * s * h / t, float(link), ulysses),
        _fact("Megatron SP, 4Nh with the part a rank keeps", 4 * s * h,
              float(volume.sequence_parallel(b, s, h, t, itemsize=1).value) * t / (t - 1), ulysses),
    ]  # fmt: skip


def _fact(what: str, published: float, model: float, source: str) -> dict[str, Any]:
    error = model / published - 1
    return {"what": what, "published": published, "model": model, "error": error, "source": source}
