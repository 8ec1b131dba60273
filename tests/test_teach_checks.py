"""check: what passes, what fails and with which sentence, what is not judged."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mindlab.errors import CheckFailed
from mindlab.predict import volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.checks import check
from mindlab.teach.verdict import FAILED, MIME, Verdict
from mindlab.trace.measured import Measured
from mindlab.trace.run import Run

D, P = 4096, 4
RING = volume.ring_all_reduce(D, P)


def seen(*values: float, unit: str = "B", provenance: str = "wire", note: str = "") -> Measured:
    """What a run measured, by rank."""
    return Measured(list(values), unit=unit, provenance=provenance, note=note)


def refused(predicted: Any, measured: Any, **options: Any) -> str:
    """The sentence with which a claim fails."""
    with pytest.raises(CheckFailed) as caught:
        check("a claim", predicted, measured, **options)
    return str(caught.value)


def a_run(ranks: int = P) -> Run:
    """A run by hand."""
    seconds = Measured([0.1] * ranks, unit="s", provenance="timed")
    return Run([0] * ranks, [""] * ranks, seconds, [], "gloo", 7, name="f", code_hash="abc123")


def test_a_right_claim_passes_and_says_what_it_compared() -> None:
    """Would catch a verdict without its numbers, unit, provenance or formula."""
    verdict = check("a ring", RING, seen(*[6144] * P))
    assert verdict.passed is True and verdict and verdict.verdict == "passed"
    data = verdict.data()
    assert data["claim"] == "a ring" and data["predicted"] == 6144 and data["measured"] == [6144] * P
    assert (data["unit"], data["provenance"], data["within"], data["ranks"]) == ("B", "wire", 0, 4)
    assert data["ratio"] == "1" and data["formula"] == RING.formula and data["source"] == RING.source
    for text in (repr(verdict), verdict._repr_html_(), verdict._repr_markdown_()):
        assert "6 KiB (6,144 B)" in text and "wire" in text and "✓ passed" in text


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        (seen(*[12288] * P), "At p = 4 several mistakes make this factor. p/2 = 2: does the whole tensor"),
        (seen(*[3072] * P), "one of two phases missing"),
        (seen(*[6144 * P] * P), "p = 4: is the measured number the total of all ranks"),
        (seen(6144, 6144, 6144, 3072), "rank 3: measured 3 KiB (3,072 B), 0.5 times the predicted"),
        (seen(6144, 6144, 6144, 3072), "(ranks 0, 1, 2 as predicted)"),
        (seen(*[6148] * P), "4 B more than the predicted"),
        (
            seen(*[0] * P, note="without all_reduce x3"),
            "nothing was measured: 0 B everywhere (without all_reduce",
        ),
        (seen(*[float("nan")] * P), "measured nan"),
    ],
)
def test_a_wrong_claim_fails_with_its_sentence(measured: Any, sentence: str) -> None:
    """Would catch a wrong number that passes, and a message that does not help."""
    assert sentence in refused(RING, measured)


@pytest.mark.parametrize(
    ("guess", "ranks", "sentence"),
    [
        (3 * 4096, 4, "2/p = 0.5: is the prediction a whole tensor a step"),
        (6144 / 1.048576, 4, "takes MB for MiB"),
        (6144 * 8, 4, "in bits"),
        (6144 * 4, 4, "1/p = 0.25: is the prediction the total"),
        (12288, 3, "Half: is one of two phases missing"),
        (6144 * 3 / 4, 4, "does a rank also send its own part"),
        (6144 * 4 / 3, 4, "forget that a rank's own part stays"),
        (6144 * 2, 8, "the prediction add send and receive"),
    ],
)
def test_a_wrong_guess_is_recognised(guess: float, ranks: int, sentence: str) -> None:
    """Would catch a well-known mistake that is only called wrong."""
    assert sentence in refused(guess, seen(*[6144] * ranks))


def test_every_rank_counts() -> None:
    """Would catch a mean that hides one rank: the ranks' sum is right here."""
    assert "rank 0" in refused(RING, seen(6140, 6148, 6144, 6144))
    uneven = volume.ring_all_reduce(40, 4, itemsize=4)
    assert check("uneven", uneven, seen(56, 60, 64, 60)).passed
    assert "right numbers on the wrong ranks" in refused(uneven, seen(60, 56, 60, 64))
    assert "give itemsize=" in refused(volume.ring_all_reduce(40, 4), seen(56, 60, 64, 60))


def test_a_mean_is_compared_with_the_mean() -> None:
    """Would catch a root's bytes held against the mean, and a mean that cannot be claimed."""
    tree = volume.tree_broadcast(1024, 4)
    assert check("by rank", tree, seen(2048, 1024, 0, 0)).passed
    assert check("the mean", tree, seen(2048, 1024, 0, 0).mean()).passed
    assert "0.5 times" in refused(tree, seen(1024, 512, 0, 0).mean())


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("sent", [4096, 5000])
def test_few_ranks_are_never_a_pass(ranks: int, sent: int) -> None:
    """Would catch a pass at p = 2, where (p-1) D is 2(p-1)/p D, or at p = 1, where nothing moves."""
    for measured in (seen(*[sent] * ranks), sent):
        verdict = check("few", volume.ring_all_reduce(4096, ranks), measured, run=a_run(ranks))
        assert verdict.passed is None and verdict.verdict == "not checked" and not verdict
        assert f"{ranks} rank" in verdict.reason
    assert check("stated", 3, 3, run=a_run(2)).passed is None


def test_nothing_measured_proves_nothing() -> None:
    """Would catch 0 = 0 that passes because nothing was recorded."""
    sentence = refused(0, seen(0, 0, 0, note="without all_reduce x1: what these send is on the wire only"))
    assert "nothing was measured" in sentence and "on the wire only" in sentence
    assert check("no communication", 0, seen(0, 0, 0), allow_zero=True).passed
    assert check("no difference", 0, 0).passed, "only bytes can be vacuous"


@pytest.mark.parametrize(
    ("predicted", "measured", "run"),
    [(..., seen(1, 2, 3), None), (5, ..., None), ([1, ..., 3], seen(1, 2, 3), None), (None, 4, None)],
)
def test_an_open_answer_is_not_judged(predicted: Any, measured: Any, run: Any) -> None:
    """Would catch an unsolved exercise that stops the notebook, or passes."""
    verdict = check("open", predicted, measured, run=run)
    assert verdict.passed is None and verdict.verdict == "not answered yet"
    assert "not answered yet" in repr(verdict)


def test_no_wire_is_not_judged() -> None:
    """Would catch a host without counters that fails, or passes, a claim about the wire."""
    run = a_run()
    run.why_no_wire = "macOS has no such counters"
    verdict = check("wire", RING, None, run=run)
    assert verdict.verdict == "not checked" and verdict.reason == run.why_no_wire


def test_within() -> None:
    """Would catch a tolerance that is absolute, one-sided, or hides an exact comparison."""
    assert check("near", 100, 104.9, within=0.05).passed
    assert check("near", 100, 95.1, within=0.05).passed
    assert "allowed: 5 %" in refused(100, 105.1, within=0.05)
    assert refused(2**60, 2**60 + 1)
    assert check("floats", 0.3, 0.1 + 0.2).passed
    for wrong in (-0.1, 1, float("nan")):
        with pytest.raises(ValueError, match="within="):
            check("x", 1, 1, within=wrong)


def test_units_must_fit() -> None:
    """Would catch seconds held against bytes."""
    with pytest.raises(ValueError, match="predicted is in 's', measured in 'B'"):
        check("x", Quantity(1, "s"), seen(1, 1, 1))
    with pytest.raises(ValueError, match="for ranks=4, not for 3"):
        check("x", volume.ring_all_reduce(D, 4), seen(1, 1, 1))


def test_shapes_must_fit() -> None:
    """Would catch a rank x rank matrix judged as if it were by rank, and a whole Run judged as a number."""
    matrix = Measured(np.full((3, 3), 5), unit="B", provenance="counted")
    with pytest.raises(ValueError, match="such as run"):
        check("x", 5, matrix)
    assert check("edges", [[5] * 3] * 3, matrix).passed
    assert refused([[5] * 3, [5] * 3, [5, 5, 6]], matrix)
    with pytest.raises(ValueError, match="in one shape"):
        check("x", [5, 5], seen(5, 5, 5))
    with pytest.raises(ValueError, match="measured is empty"):
        check("x", 5, [])
    with pytest.raises(TypeError, match="whole Run: choose the numbers"):
        check("x", 5, a_run())
    with pytest.raises(TypeError, match="shape \\(3,\\)"):
        check("x", 5, [np.ones(3)] * 3)


def test_where_a_number_comes_from() -> None:
    """Would catch a typed-in number that looks measured."""
    assert check("x", 5, [5, 5, 5]).provenance == "stated"
    assert check("x", 5, 5, provenance="timed").provenance == "timed"
    with pytest.raises(ValueError, match="derived, counted, wire"):
        check("x", 5, 5, provenance="guessed")


def test_a_check_names_what_it_graded() -> None:
    """Would catch a verdict that cannot be traced to its run."""
    graded = check("x", 5, seen(5, 5, 5, 5), run=a_run()).data()["graded"]
    assert graded == {"ranks": 4, "backend": "gloo", "seed": 7, "name": "f", "code": "abc123"}


def test_the_bundle_is_strict_json() -> None:
    """Would catch a number that only Python's json understands, or a numpy scalar in it."""
    torch = pytest.importorskip("torch")
    verdict = check("x", 5, [torch.tensor(5), np.int64(5), 5.0])
    bundle = verdict._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "text/markdown", MIME}
    json.dumps(bundle[MIME], allow_nan=False)
    infinite = Verdict("x", FAILED, 5, (5, float("inf"), float("nan"))).data()
    assert infinite["measured"] == [5, "inf", "nan"]
    json.dumps(infinite, allow_nan=False)


def test_the_claim_is_escaped() -> None:
    """Would catch a claim that breaks the page or the table."""
    verdict = check("a<b | c", 1, 1)
    assert "a&lt;b" in verdict._repr_html_() and r"a<b \| c" in verdict._repr_markdown_()


def test_checking_needs_no_torch() -> None:
    """Would catch an import that makes the first check wait for torch."""
    code = (
        "import sys, mindlab as ml; ml.check('x', ml.volume.ring_all_reduce(12, 3), [16, 16, 16]); "
        "ml.seconds; assert 'torch' not in sys.modules and 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_run_whose_function_is_a_stub_is_not_judged() -> None:
    """Would catch an unsolved function that fails its budget with "0 B everywhere"."""
    run = a_run()
    run.values = [...] * len(run.values)
    verdict = check("open", 5, seen(0, 0, 0), run=run)
    assert verdict.passed is None and verdict.verdict == "not answered yet"


@pytest.mark.parametrize("predicted", [float("inf"), float("nan")])
def test_a_prediction_that_is_no_number_never_passes(predicted: float) -> None:
    """Would catch infinity, within whose tolerance everything lies."""
    with pytest.raises(CheckFailed):
        check("a claim", predicted, seen(*[5] * P))
