"""The command `mindlab bench`."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(argv: list[str] | None = None) -> int:
    """Exit code of `mindlab bench …`; prints ratios and writes build/bench/NAME.json."""
    parser = argparse.ArgumentParser(prog="mindlab bench", description=__doc__)
    parser.add_argument("what", choices=sorted(_BENCHES), help="what to measure")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args(argv)
    result = _BENCHES[options.what](options.ranks, options.repeats)
    result["host"] = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.what}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(_SHOWN.get(options.what, _text)(result))
    return 0


def _launch(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.launching import report

    return report(ranks, repeats)


def _recording(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.recording import recording

    return recording(ranks, 5 * repeats)


def _ring(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.recording import ring

    return ring(ranks, repeats)


def _parallel(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.parallel import parallel

    return parallel(ranks, repeats)


def _pipeline(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.pipelining import pipeline

    return pipeline(ranks, repeats)


def _planner(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.planner import planner

    return planner()


def _planner_text(result: dict[str, Any]) -> str:
    from mindlab.bench.planner import text

    return text(result)


def _replay(ranks: int, repeats: int) -> dict[str, Any]:
    from mindlab.bench.replaying import replaying

    return replaying(ranks, repeats)


def _replay_text(result: dict[str, Any]) -> str:
    from mindlab.bench.replaying import text

    return text(result)


_SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {"planner": _planner_text, "replay": _replay_text}
_BENCHES: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "launch": _launch,
    "parallel": _parallel,
    "pipeline": _pipeline,
    "planner": _planner,
    "recording": _recording,
    "replay": _replay,
    "ring": _ring,
}


def _text(result: dict[str, Any]) -> str:
    lines = []
    for name, value in result.items():
        if name != "rows":
            lines.append(f"{name}: {_shown(value)}")
            continue
        lines.append(f"{'way':<18} {'cold s':>8} {'warm s':>8} {'memory MB':>10} {'warm / ours':>12}")
        for row in value:
            if row["error"]:
                lines.append(f"{row['name']:<18} failed: {row['error']}")
                continue
            ratio = row["median"] / value[0]["median"]
            numbers = f"{row['cold']:8.3f} {row['median']:8.4f} {row['memory'] / 1e6:10.0f} {ratio:12.2f}"
            lines.append(f"{row['name']:<18} {numbers}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_shown(part)}" for key, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
