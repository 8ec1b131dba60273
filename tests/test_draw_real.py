"""Pictures of real runs: what hand-made events cannot show, such as jitter between ranks."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.draw.rounds import in_rounds


@pytest.fixture(scope="module", autouse=True)
def _pool() -> Iterator[None]:
    yield
    ml.shutdown()


def experiment(name: str) -> None:
    getattr(ml.collectives, name)(torch.ones(840) * (dist.get_rank() + 1))


ROUNDS = {
    "ring_all_reduce": [4] * 6,
    "tree_broadcast": [1, 2],
    "halving_doubling_all_reduce": [4] * 4,
    "bruck_all_to_all": [4] * 2,
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_of_a_real_run_do_not_depend_on_its_timing(name: str) -> None:
    """Would catch rounds torn apart because one rank was late: no step labels, three runs each."""
    for _ in range(3):
        run = ml.launch(experiment, name, ranks=4)
        assert [len(one.moves) for one in in_rounds(run.events)] == ROUNDS[name]


def test_every_picture_of_a_real_run_draws() -> None:
    """Would catch an event that the recorder writes and a picture cannot draw."""

    def mixed() -> torch.Tensor:
        x = torch.ones(64) * dist.get_rank()
        ml.step("reduce")
        dist.all_reduce(x)
        ml.step("gather")
        parts = [torch.empty(64) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        dist.barrier()
        return x[:3]

    run = ml.launch(mixed, ranks=3)
    for picture in (ml.draw.shards(run), ml.draw.moves(run), ml.draw.traffic(run), ml.draw.timeline(run)):
        assert run.provenance.split(" · ")[0] in picture.alt
    said = ml.play(run).text()
    assert "call all_reduce on 256 B each" in said and "every rank sends 256 B to every other rank" in said
