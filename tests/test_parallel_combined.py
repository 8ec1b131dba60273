"""The digits model on cfg x tensor x ring x ulysses: as on one card, and each axis sends what it should."""

import pytest
import torch
from torch import Tensor

import mindlab as ml
from mindlab.models.digits import NULL, TOKENS, DigitsModel, guided, load_digits, sample
from mindlab.parallel.combined import MeshDigits, mesh_guided
from mindlab.parallel.mesh import device_mesh
from mindlab.predict.combined import COMBINED, guided_step
from mindlab.predict.meshes import axis_groups

SHAPE = {"sequence": TOKENS, "hidden": 64, "heads": 4, "layers": 4, "outputs": 4, "itemsize": 4}
LAYOUTS = {
    1: [(1, 1, 1, 1)],
    2: [(2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2)],
    3: [(1, 1, 3, 1)],
    4: [(2, 2, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2), (1, 2, 2, 1), (1, 2, 1, 2), (1, 1, 2, 2), (1, 4, 1, 1)],
    6: [(2, 1, 3, 1), (1, 2, 3, 1), (1, 1, 3, 2)],
    8: [(2, 2, 2, 1), (2, 2, 1, 2), (2, 1, 2, 2), (1, 2, 2, 2), (2, 4, 1, 1), (2, 1, 1, 4), (1, 1, 8, 1)],
}


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(3, 1, 8, 8, generator=draw).to(dtype)
    return x, torch.tensor([0.9, 0.5, 0.1]), torch.tensor([3, 0, 9]), torch.full((3,), NULL)


def step(full: DigitsModel, axes: dict[str, int], given: tuple[Tensor, ...]) -> Tensor:
    """One guided step on the mesh."""
    return mesh_guided(MeshDigits.from_full(full, device_mesh(axes)), *given, 4.0)


@pytest.mark.parametrize("ranks", LAYOUTS)
def test_every_layout_is_the_one_card_step_and_sends_by_the_formula(ranks: int) -> None:
    """A token at another's place, a half swapped, a head computed twice, bytes that go over another axis."""
    full, given = load_digits(), inputs()
    want = guided(full, *given, 4.0)
    for sizes in LAYOUTS[ranks]:
        axes = dict(zip(COMBINED, sizes, strict=True))
        run = ml.launch(step, full, axes, given, ranks=ranks)
        for rank, value in enumerate(run.values):
            assert torch.allclose(value, want, atol=1e-5), (axes, rank)
        for axis, groups in axis_groups(axes).items():
            predicted = guided_step(axes, batch=3, **SHAPE, axis=axis).by_rank(ranks)
            wire = run.wire_within(groups)
            assert wire is not None and tuple(wire) == tuple(predicted), (axes, axis)
            if axis != "tensor":  # what an all-reduce sends is the library's affair: no call says so
                assert tuple(run.sent_within(groups)) == tuple(predicted), (axes, axis)
        whole = guided_step(axes, batch=3, **SHAPE).by_rank(ranks)
        assert run.wire_sent is not None and tuple(run.wire_sent) == tuple(whole), axes


def test_the_order_of_the_axes_does_not_matter() -> None:
    """Places of a mesh taken for the numbers of its ranks."""
    full, given = load_digits(), inputs()
    want = guided(full, *given, 4.0)
    axes = {"ulysses": 2, "cfg": 2, "ring": 2, "tensor": 1}
    run = ml.launch(step, full, axes, given, ranks=8)
    assert all(torch.allclose(value, want, atol=1e-5) for value in run.values)
    for axis, groups in axis_groups(axes).items():
        predicted = guided_step(axes, batch=3, **SHAPE, axis=axis).by_rank(8)
        wire = run.wire_within(groups)
        assert wire is not None and tuple(wire) == tuple(predicted), axis


def test_bfloat16_is_as_far_off_as_on_one_card() -> None:
    """A cast on the way: the error against float32 is that of one card's bfloat16, twice at most."""
    full, given = load_digits(), inputs()
    want = guided(full, *given, 4.0)
    half, rounded = load_digits().to(torch.bfloat16), inputs(torch.bfloat16)
    alone = (guided(half, *rounded, 4.0).float() - want).abs().max()
    run = ml.launch(step, half, {"cfg": 2, "tensor": 1, "ring": 1, "ulysses": 2}, rounded, ranks=4)
    for value in run.values:
        assert value.dtype == torch.bfloat16
        assert (value.float() - want).abs().max() <= 2 * alone


def test_a_whole_run_draws_the_same_pictures() -> None:
    """Errors that grow from step to step: 20 guided steps end at the same digits."""
    full = load_digits()
    labels = torch.tensor([2, 7])
    want = sample(full, labels, steps=20)

    def draw() -> Tensor:
        mesh = device_mesh({"cfg": 2, "tensor": 2, "ring": 1, "ulysses": 2})
        return sample(MeshDigits.from_full(full, mesh), labels, steps=20, guide=mesh_guided)

    for value in ml.launch(draw, ranks=8).values:
        assert (value - want).abs().max() < 1e-4


def test_work_is_stated_and_shared() -> None:
    """A replay that sees messages and no work, or all of it on every rank."""
    full, given = load_digits(), inputs()
    flop = {}
    for ranks, sizes in ((1, (1, 1, 1, 1)), (8, (2, 2, 1, 2))):
        axes = dict(zip(COMBINED, sizes, strict=True))
        run = ml.launch(step, full, axes, given, ranks=ranks)
        flop[ranks] = sum(work.flop for work in run.work)
    assert flop[8] == flop[1] > 0


def test_a_mesh_that_does_not_fit_is_refused() -> None:
    """A mesh without an axis taken as one of size 1, heads that are torn."""
    full, given = load_digits(), inputs()
    with pytest.raises(ml.MindlabError, match="the mesh has no axis 'tensor'"):
        ml.launch(step, full, {"cfg": 1, "ring": 2, "ulysses": 1}, given, ranks=2)
    with pytest.raises(ml.MindlabError, match="cannot split"):
        ml.launch(step, full, {"cfg": 1, "tensor": 3, "ring": 1, "ulysses": 1}, given, ranks=3)
    for axes, words in (
        ({"cfg": 1, "ring": 2, "ulysses": 1}, "give the size of each of cfg, tensor, ring, ulysses"),
        ({"cfg": 3, "tensor": 1, "ring": 1, "ulysses": 1}, "has two passes"),
        ({"cfg": 1, "tensor": 1, "ring": 1, "ulysses": 8}, "ulysses=8 cannot split 4 heads"),
    ):
        with pytest.raises(ValueError, match=words):
            guided_step(axes, batch=1, **SHAPE)
    with pytest.raises(ValueError, match="axis='data'"):
        guided_step({"cfg": 1, "tensor": 1, "ring": 1, "ulysses": 1}, batch=1, **SHAPE, axis="data")
