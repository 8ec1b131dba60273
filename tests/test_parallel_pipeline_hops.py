"""What travels between stages: any dtype, any strides; in groups side by side; what is no tensor is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.decoder import Cache, Decoder
from mindlab.parallel import hops
from mindlab.parallel.pipeline import decode, run_pipeline
from mindlab.parallel.stages import decoder_stages


def test_every_dtype_and_a_transposed_tensor_arrive() -> None:
    """Would catch a dtype that has no number in the header, and rows sent in the order of memory."""

    def all_kinds() -> list[torch.Tensor]:
        found = []
        for dtype in hops.DTYPES:
            out, _ = run_pipeline(
                [lambda x, to=dtype: x.to(to).t(), lambda x: x], [torch.arange(6).view(2, 3)]
            )
            found += out or []
        return found

    assert len(hops.DTYPES) >= 6
    for dtype, out in zip(hops.DTYPES, ml.launch(all_kinds, ranks=2).values[1], strict=True):
        assert out.dtype == dtype and out.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_slots_of_groups_have_the_ranks_of_the_world() -> None:
    """Would catch a rank of the group in a slot: two pipelines side by side would look like one."""

    def in_groups() -> set[int]:
        group = [dist.new_group([0, 2]), dist.new_group([1, 3])][dist.get_rank() % 2]
        return {slot.rank for slot in run_pipeline([lambda x: x] * 2, [torch.ones(1)], group)[1]}

    assert ml.launch(in_groups, ranks=4).values == [{0}, {1}, {2}, {3}]


@pytest.mark.parametrize(
    ("prompts", "tokens", "words"),
    [([torch.ones(1, 2).long()], -2, "tokens"), ([torch.ones(2).long()], 1, "prompts"),
     ([torch.ones(1, 0).long()], 1, "prompts"), ([torch.ones(1, 2).long()], 2.0, "tokens=2.0"),
     (torch.ones(1, 2).long(), 1, r"prompts is a tensor \(1, 2\)"), ([], 1, "prompts is empty")],
)  # fmt: skip
def test_decode_refuses_before_it_sends(prompts: Any, tokens: Any, words: str) -> None:
    """Would catch a shape that fails on the last rank, in torch's words, after the first ones have sent.

    A tensor (B, S) is no list of prompts: its rows would be taken for some.
    """
    with pytest.raises(Exception, match=words):
        ml.launch(
            lambda: decode(decoder_stages(Decoder(24, 4, 2, 3), 1), prompts, tokens, cache=Cache), ranks=1
        )


def test_a_stage_that_gives_no_tensor_is_named() -> None:
    """Would catch "'tuple' object has no attribute 'dtype'", and a None that is kept as a result."""
    same = [torch.nn.Identity()] * 2
    for rank, made, kind in ((0, (1, None), "tuple"), (0, None, "NoneType"), (1, None, "NoneType")):
        stages: Any = [*same]
        stages[rank] = lambda x, made=made: made
        with pytest.raises(ml.MindlabError, match=f"stage {rank} gave a {kind}: it must give one tensor"):
            ml.launch(lambda stages=stages: run_pipeline(stages, [torch.ones(1)]), ranks=2)
