"""Stages that use their buffers again."""

import torch

import mindlab as ml
from mindlab.parallel.pipeline import run_pipeline


def test_a_last_stage_may_fill_its_buffer_again() -> None:
    """Results kept as they are: each one would be the last micro-batch's."""

    def reuses() -> list[float]:
        buffer = torch.empty(1)
        stages = [lambda x: x + 1, lambda x: torch.mul(x, 10, out=buffer)]
        outputs, _ = run_pipeline(stages, [torch.ones(1), torch.zeros(1)])
        return [float(out) for out in outputs or []]

    assert ml.launch(reuses, ranks=2).values[1] == [20.0, 10.0]
