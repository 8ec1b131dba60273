"""Wrong arguments are refused before any rank works; what cannot travel is named."""

from __future__ import annotations

import threading

import pytest

import mindlab as ml
from mindlab.errors import CannotTravel, MindlabError


@pytest.mark.parametrize("ranks", [0, -1, 65, 2.0, "4", True, None])
def test_a_wrong_number_of_ranks_is_refused(ranks: object) -> None:
    """Would catch a silent default."""
    with pytest.raises(ValueError, match="ranks="):
        ml.launch(lambda: None, ranks=ranks)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("timeout", 0), ("timeout", "9"), ("seed", -1), ("seed", 1.5)])
def test_other_wrong_arguments_are_refused(name: str, value: object) -> None:
    """Would catch a deadline or seed that cannot be meant."""
    with pytest.raises(ValueError, match=f"{name}="):
        ml.launch(lambda: None, **{name: value})  # type: ignore[arg-type]


def test_a_misspelt_keyword_is_refused_before_any_rank_works() -> None:
    """Would catch `rank=2` that silently runs on four."""
    with pytest.raises(TypeError, match="launch itself knows ranks, backend, timeout, seed"):
        ml.launch(lambda: None, rank=2)


def test_not_a_function() -> None:
    """Would catch launch(experiment()) with a message about pickling."""
    with pytest.raises(TypeError, match="not its result"):
        ml.launch(None)  # type: ignore[arg-type]


def test_an_argument_that_cannot_travel_is_named() -> None:
    """Would catch a pickling error that does not say which argument."""
    with pytest.raises(CannotTravel, match=r"lock\['a'\] \(a lock\)"):
        ml.launch(lambda lock: None, lock={"a": threading.Lock()}, ranks=2)


def test_a_result_that_cannot_travel_is_named_and_the_next_call_works() -> None:
    """Would catch a rank that hangs or dies over its result."""
    with pytest.raises(CannotTravel, match=r"the returned value\[1\] \(a generator\)"):
        ml.launch(lambda: (1, (n for n in range(3))), ranks=2)
    assert ml.launch(lambda: 1, ranks=2).values == [1, 1]


def test_a_torch_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Would catch a parent of ranks that dies without a word, for instance of a broken torch."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ml.shutdown()
    with pytest.raises(MindlabError, match=r"libfoo.so is missing"):
        ml.launch(int, ranks=2)
    monkeypatch.undo()
    assert ml.launch(int, ranks=2).values == [0, 0]


def test_a_keyword_that_looks_like_a_known_one_is_named() -> None:
    """Would catch `nume=5` answered by "missing argument 'numel'"."""

    def relay(numel: int) -> int:
        return numel

    with pytest.raises(TypeError, match=r"nume: did you mean numel\?"):
        ml.launch(relay, nume=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"rank: did you mean ranks\?"):
        ml.launch(relay, 5, rank=4)
