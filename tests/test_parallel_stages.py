"""A decoder cut into stages: one card's logits and text, stages that are copies, work stated, refusals."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.decoder import Cache, Decoder, continued
from mindlab.models.moe import MoEDecoder
from mindlab.parallel import stages
from mindlab.parallel.pipeline import decode, run_pipeline
from mindlab.parallel.stages import decoder_stages

HIDDEN = 24


def model(layers: int = 8, kind: type[Decoder] = Decoder) -> Decoder:
    """A decoder with biases that are not zero, the same everywhere."""
    torch.manual_seed(2)
    more: dict[str, Any] = {"experts": 4, "top_k": 2} if kind is MoEDecoder else {}
    made = kind(HIDDEN, heads=4, kv_heads=2, layers=layers, inner=36, context=40, **more)
    return made.requires_grad_(False)


def prompts(count: int) -> list[torch.Tensor]:
    """Ids (B, S) with other batches and lengths each."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(90, (1 + index % 3, 4 + index), generator=draw) for index in range(count)]


@pytest.mark.parametrize("kind", [Decoder, MoEDecoder])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_one_card(ranks: int, kind: type[Decoder]) -> None:
    """Would catch a block left out or computed twice, an embedding on every stage, 8 blocks on 3 ranks."""
    made = model(kind=kind)

    def forward() -> Any:
        return run_pipeline(decoder_stages(made, dist.get_world_size()), prompts(3))[0]

    for out, ids in zip(ml.launch(forward, ranks=ranks).values[-1], prompts(3), strict=True):
        # the same float32 operations, on another number of threads
        assert float((out - made(ids)).abs().max()) <= 1e-5


@pytest.mark.parametrize("kind", [Decoder, MoEDecoder])
@pytest.mark.parametrize("cached", [True, False])
def test_text_token_by_token(kind: type[Decoder], cached: bool) -> None:
    """Would catch a cache whose layers are counted from the model's first, positions that start anew."""
    made = model(4, kind)

    def run_decode() -> Any:
        return decode(decoder_stages(made, 3), prompts(3), 5, cache=Cache if cached else None)[0]

    for ids, prompt in zip(ml.launch(run_decode, ranks=3).values[-1], prompts(3), strict=True):
        assert torch.equal(ids, continued(made, prompt, 5))


def test_stages_are_copies_and_state_their_work() -> None:
    """Would catch stages that keep the whole model alive, and work that replay cannot see."""
    made = model(5)
    parts = decoder_stages(made, 3)
    assert [len(part.blocks) for part in parts] == [2, 2, 1]
    names = [{name.split(".")[0] for name in part.state_dict()} for part in parts]
    assert names == [{"blocks", "embedding", "positions"}, {"blocks"}, {"blocks", "norm", "logits"}]
    assert sum(t.numel() for p in parts for t in p.parameters()) == sum(t.numel() for t in made.parameters())

    def forward() -> None:
        run_pipeline(decoder_stages(made, 3), prompts(2))

    run = ml.launch(forward, ranks=3)
    tokens = sum(ids.numel() for ids in prompts(2))
    block = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN // 2 + 2 * HIDDEN * 36
    for rank, blocks in enumerate([2, 2, 1]):
        linear = sum(work.flop for work in run.work if work.rank == rank and work.what == "linear")
        assert linear == 2 * tokens * (blocks * block + (rank == 2) * made.logits.out_features * HIDDEN)


def test_a_mixture_s_work_is_that_of_the_chosen_experts() -> None:
    """Would catch all experts counted, where a token meets two of four."""
    plain, mixed = (stages.linear_weights(model(1, kind)) for kind in (Decoder, MoEDecoder))
    one = 2 * HIDDEN * 36
    assert mixed - plain == HIDDEN * 4 + one  # the router, and two experts for one MLP


def test_refusals() -> None:
    """Would catch a stage without a block, and ids that are no tokens."""
    with pytest.raises(ValueError, match="3 stages of 2 blocks: choose 1 to 2"):
        decoder_stages(model(2), 3)
    with pytest.raises(ValueError, match="ids from 99999 to 99999"):
        decoder_stages(model(2), 2)[0](torch.tensor([[99999]]))


def test_examples() -> None:
    """Would catch an example in a docstring that was right once."""
    assert doctest.testmod(stages).failed == 0


def test_positions_go_on_and_the_model_stays_trainable() -> None:
    """Would catch positions that start anew behind a cache, and gradients switched off in the full model."""
    made = model(3)
    made.positions.mul_(50)
    ids, cache = prompts(4)[3].repeat(1, 1), Cache()
    stage = decoder_stages(made, 1)[0]
    stage(ids[:, :5], cache)
    assert float((stage(ids[:, 5:], cache) - made(ids)[:, 5:]).abs().max()) <= 1e-4
    made.requires_grad_(True)
    decoder_stages(made, 3)
    assert all(part.requires_grad for part in made.parameters())
