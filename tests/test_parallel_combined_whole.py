"""The digits model on a mesh, further: a single prediction, whole runs that are read, refusals, replay."""

import pytest
import torch
from torch import Tensor

import mindlab as ml
from mindlab.models.digits import DigitsModel, load_digits, sample
from mindlab.parallel.combined import MeshDigits, mesh_guided
from mindlab.parallel.mesh import device_mesh
from mindlab.predict.combined import COMBINED

LABELS = torch.arange(10)
EIGHT = [(2, 2, 2, 1), (2, 1, 1, 4), (1, 2, 2, 2)]


def mesh_axes(*sizes: int) -> dict[str, int]:
    return dict(zip(COMBINED, sizes, strict=True))


def predict_and_draw(full: DigitsModel, axes: dict[str, int], x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """One prediction without guidance, and the pictures of ten guided steps."""
    model = MeshDigits.from_full(full, device_mesh(axes))
    return model(x, t, LABELS), sample(model, LABELS, steps=10, guide=mesh_guided)


def test_one_prediction_and_what_a_reader_sees_are_those_of_one_card() -> None:
    """A split that is right once, and whose error grows until another digit is read."""
    datasets = pytest.importorskip("sklearn.datasets")
    svm = pytest.importorskip("sklearn.svm")
    real = datasets.load_digits()
    reader = svm.SVC(gamma=0.001).fit(real.data, real.target)
    full = load_digits()
    x, t = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(3)), torch.linspace(0.1, 0.9, 10)
    want, pictures = full(x, t, LABELS), sample(full, LABELS, steps=10)

    def read(images: Tensor) -> list[int]:
        return list(map(int, reader.predict((images.flatten(1).numpy() + 1) * 8)))

    assert read(pictures) == LABELS.tolist()  # else the comparison would be of unreadable pictures
    for sizes in EIGHT:
        for noise, drawn in ml.launch(predict_and_draw, full, mesh_axes(*sizes), x, t, ranks=8).values:
            # sums over ranks in another order: about 1e-6 in float32
            assert torch.allclose(noise, want, rtol=0, atol=1e-5), sizes
            assert read(drawn) == read(pictures), sizes


def test_what_does_not_fit_is_refused_when_the_model_is_made() -> None:
    """A refusal that comes in the first step only, counts a part of the heads; four halves of two passes."""
    full = load_digits()

    def make(axes: dict[str, int]) -> None:
        MeshDigits.from_full(full, device_mesh(axes))

    for sizes, words in (
        ((1, 2, 1, 4), "tensor=2 x ulysses=4 cannot split 4 heads"),
        ((4, 1, 1, 2), "cfg=4: a guided step has two passes, choose 1 or 2"),
    ):
        with pytest.raises(ml.MindlabError, match=words):
            ml.launch(make, mesh_axes(*sizes), ranks=8)


def test_a_replay_sees_work_and_messages_of_every_layout() -> None:
    """Work or an axis's messages lost on the way to a replay: more FLOP or bytes must take longer."""
    full = load_digits()

    def step(axes: dict[str, int]) -> Tensor:
        model = MeshDigits.from_full(full, device_mesh(axes))
        x, t = torch.ones(10, 1, 8, 8), torch.full((10,), 0.5)
        return mesh_guided(model, x, t, LABELS, torch.full((10,), 10), 3.0)

    for sizes in EIGHT:
        run = ml.launch(step, mesh_axes(*sizes), ranks=8)
        seconds = [
            ml.replay(run, "atlas-a2", rate=1e12, **more).seconds.value
            for more in ({}, {"flop_times": 100}, {"bytes_times": 1000})
        ]
        assert {work.rank for work in run.work} == set(range(8)), sizes
        assert 0 < seconds[0] < min(seconds[1:]), sizes
