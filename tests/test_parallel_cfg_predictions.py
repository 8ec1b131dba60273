"""Guidance: what a model gives is one tensor of the shape of x, any strides; conditions are alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mindlab as ml
from mindlab.parallel.cfg import cfg_fused, cfg_parallel

ONE, THREE = torch.ones(()), torch.tensor(3.0)


def guide(made: Any) -> Any:
    return cfg_parallel(made, torch.arange(9.0).view(3, 3), ONE, THREE, ONE, 2.0)


def test_a_transposed_prediction_arrives() -> None:
    """Would catch a view sent in the order of memory: partners would have different results."""
    values = ml.launch(guide, lambda x, t, condition: (x * condition).t(), ranks=2).values
    assert all(torch.equal(value, (torch.arange(9.0).view(3, 3) * 5).t()) for value in values)


@pytest.mark.parametrize("made", [lambda x, t, c: x[:2], lambda x, t, c: (x, None)])
def test_another_shape_is_refused(made: Any) -> None:
    """Would catch predictions of (3, 2) and (2, 3) added up, with another result on each rank."""
    with pytest.raises(Exception, match="one tensor of that shape"):
        ml.launch(guide, made, ranks=2)


def test_conditions_of_two_dtypes_do_not_lie_in_one_batch() -> None:
    """Would catch labels that torch.cat casts without a word."""
    labels = torch.tensor([3, 4]), torch.ones(2, dtype=torch.int32)
    with pytest.raises(ValueError, match="cannot lie in one batch"):
        cfg_fused(lambda x, t, c: x * c[:, None], torch.ones(2, 1), torch.ones(2), *labels, 2.0)
    with pytest.raises(ValueError, match="scale"):
        cfg_fused(lambda x, t, c: x, torch.ones(2, 1), torch.ones(2), labels[0], labels[0], float("nan"))
