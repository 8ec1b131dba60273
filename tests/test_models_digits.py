"""The digits that ship: read by a classifier, sharper with guidance, the same for the same seed."""

from __future__ import annotations

import doctest
import math
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import mindlab as ml
from mindlab.models import digits
from mindlab.models.digits import NULL, DigitsModel, denoise_step, first_noise, guided, noisy, sample
from mindlab.models.train_digits import train_digits
from mindlab.models.training import one_thread
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.sequence import gather_sequence
from mindlab.parallel.shards import split_sequence
from mindlab.parallel.tensor import ParallelBlock

LABELS = torch.arange(200) % 10


@pytest.fixture(scope="module")
def model() -> DigitsModel:
    """The weights that ship."""
    return digits.load_digits()


@pytest.fixture(scope="module")
def drawn(model: DigitsModel) -> dict[float, Tensor]:
    """200 digits at each scale."""
    with one_thread():  # on a busy machine two threads wait for each other
        return {scale: sample(model, LABELS, scale=scale, seed=1) for scale in (0.0, 1.0, 3.0)}


@pytest.fixture(scope="module")
def read() -> dict[str, object]:
    """A classifier that was trained on real digits, and how much of others it reads."""
    datasets, svm = pytest.importorskip("sklearn.datasets"), pytest.importorskip("sklearn.svm")
    real = datasets.load_digits()
    held = svm.SVC(gamma=0.001).fit(real.data[:1200], real.target[:1200])
    return {"classifier": held, "real": held.score(real.data[1200:], real.target[1200:])}


def share_read(read: dict[str, object], images: Tensor) -> float:
    """The share of images that the classifier reads as their label."""
    pixels = ((images + 1) * 8).flatten(1).numpy()
    return float(read["classifier"].score(pixels, LABELS.numpy()))  # type: ignore[attr-defined]


def test_a_classifier_reads_guided_digits(drawn: dict[float, Tensor], read: dict[str, object]) -> None:
    """Would catch weights that draw noise or other digits than asked for, and guidance that does nothing."""
    assert float(read["real"]) > 0.9  # type: ignore[arg-type]
    shares = {scale: share_read(read, images) for scale, images in drawn.items()}
    assert shares[3.0] >= 0.9, shares
    # one in ten by chance; 200 pictures scatter by 2 %
    assert shares[0.0] < 0.25, shares
    assert shares[1.0] < shares[3.0], shares


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_training_again_draws_as_well(read: dict[str, object]) -> None:
    """Would catch weights that only one lucky seed gives. Minutes of one core."""
    again, _ = train_digits(seed=1)
    again.requires_grad_(False)
    assert share_read(read, sample(again, LABELS, scale=3.0, seed=1)) >= 0.9


def test_guidance_sharpens(drawn: dict[float, Tensor]) -> None:
    """Would catch guidance that leaves grey pixels grey: most pixels of a clear digit are paper or ink."""
    grey = {scale: float((images.abs() < 0.5).float().mean()) for scale, images in drawn.items()}
    assert grey[3.0] < grey[1.0], grey


def test_digits_of_one_label_differ(drawn: dict[float, Tensor]) -> None:
    """Would catch a model that learned one picture a label and forgets the noise."""
    for label in range(10):
        assert drawn[3.0][label == LABELS].std(0).mean() > 0.1


def test_the_same_seed_gives_the_same_digits(model: DigitsModel) -> None:
    """Would catch noise from torch's own generator, which a launch seeds by rank."""
    torch.manual_seed(1)
    first = sample(model, [4, 2], steps=3, seed=7)
    torch.manual_seed(2)
    assert torch.equal(sample(model, torch.tensor([4, 2]), steps=3, seed=7), first)
    assert not torch.equal(sample(model, [4, 2], steps=3, seed=8), first)


def test_another_guide_takes_over_both_calls(model: DigitsModel) -> None:
    """Would catch a sampling loop that calls the model past the guide, so that nothing could be split."""
    calls = []

    def fused(predict: object, x: Tensor, t: Tensor, cond: Tensor, uncond: Tensor, scale: float) -> Tensor:
        calls.append(scale)
        assert predict is model and uncond.tolist() == [NULL] * 3
        both = model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([cond, uncond]))
        epsilon_c, epsilon_u = both.chunk(2)
        return epsilon_u + scale * (epsilon_c - epsilon_u)

    images = sample(model, [1, 5, 8], scale=4.0, steps=6, guide=fused)
    assert calls == [4.0] * 6
    # the order of float32 sums differs with the batch; 6 steps add up
    torch.testing.assert_close(images, sample(model, [1, 5, 8], scale=4.0, steps=6), atol=1e-4, rtol=0)


def test_scale_0_and_1_are_the_two_predictions(model: DigitsModel) -> None:
    """Would catch the two predictions swapped, and a scale counted from another zero (w = scale - 1)."""
    x, t = first_noise(2, seed=3), torch.tensor([0.9, 0.4])
    cond, uncond = torch.tensor([3, 8]), torch.tensor([NULL, NULL])
    with torch.no_grad():
        # one subtraction and one addition of float32 numbers around 1
        torch.testing.assert_close(
            guided(model, x, t, cond, uncond, 1.0), model(x, t, cond), atol=1e-5, rtol=0
        )
        assert torch.equal(guided(model, x, t, cond, uncond, 0.0), model(x, t, uncond))


def test_the_true_noise_leads_back() -> None:
    """Would catch a step that misplaces signal and noise: with the true epsilon, DDIM ends at the picture."""
    picture = first_noise(2, seed=4).clamp(-1, 1)
    epsilon, times = first_noise(2, seed=5), digits.times(7).unsqueeze(1).expand(-1, 2)
    x = noisy(picture, epsilon, times[0])
    for now, later in pairwise(times):
        # float32, and sqrt(signal) = 0.03 at the first time makes 30 times more of an error
        torch.testing.assert_close(x, noisy(picture, epsilon, now), atol=1e-4, rtol=0)
        x = denoise_step(x, epsilon, now, later)
    torch.testing.assert_close(x, picture, atol=1e-4, rtol=0)


def test_signal_by_hand() -> None:
    """Would catch a cosine that is not squared, or times that run the other way."""
    t = torch.tensor([0.0, 0.25, 1 / 3, 0.5, 1.0])
    wanted = torch.tensor([math.cos(math.pi / 2 * float(each)) ** 2 for each in t])
    torch.testing.assert_close(digits.signal(t), wanted, atol=1e-6, rtol=0)


def test_patches_lie_where_their_pixels_were() -> None:
    """Would catch patches that are cut or put together in another order: rows and columns swapped."""
    model = DigitsModel(hidden=4, heads=1, layers=1)
    with torch.no_grad():
        for layer in (model.patches, model.pixels):
            layer.weight.copy_(torch.eye(4))
            layer.bias.zero_()
        model.positions.zero_()
    model.norm = torch.nn.Identity()
    x = torch.arange(128.0).view(2, 1, 8, 8)
    assert model.embed(x)[0, 1].tolist() == [2, 3, 10, 11]
    assert torch.equal(model.read(model.embed(x)), x)


@pytest.mark.parametrize("ranks", [2, 4])
def test_split_blocks_draw_the_same_digits(model: DigitsModel, ranks: int) -> None:
    """Would catch a condition that a split block does not get: its heads and features lie on other ranks."""

    def split_and_sample() -> Tensor:
        split = digits.load_digits()
        for index, block in enumerate(split.blocks):
            split.blocks[index] = ParallelBlock.from_full(block)
        return sample(split, [7, 0, 3], steps=5)

    wanted = sample(model, [7, 0, 3], steps=5)
    for images in ml.launch(split_and_sample, ranks=ranks).values:
        # the order of float32 sums differs with the ranks; 5 steps add up
        torch.testing.assert_close(images, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("ranks", [3, 4])
def test_split_tokens_draw_the_same_digits(model: DigitsModel, ranks: int) -> None:
    """Would catch a condition that depends on a token: a rank holds 5 or 6 of the 16, or 4 of them."""

    def predict(x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        tokens, condition = split_sequence(model.embed(x), dist.get_world_size()), model.condition(t, labels)
        mine, sizes = tokens[dist.get_rank()], [each.shape[1] for each in tokens]
        for layer, block in zip(model.conditions, model.blocks, strict=True):
            mine = mine + layer(condition)
            q, k, v = block.attention.qkv(block.norm1(mine))
            mine = mine + block.attention.o(ring_attention(q, k, v, sizes=sizes).flatten(2))
            mine = mine + block.mlp(block.norm2(mine))
        return model.read(gather_sequence(mine, sizes))

    wanted = sample(model, [7, 0, 3], steps=5)
    for images in ml.launch(sample, predict, [7, 0, 3], steps=5, ranks=ranks).values:
        # merging by LSE rounds otherwise than one softmax; 5 steps add up
        torch.testing.assert_close(images, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("x", "t", "labels", "words"),
    [
        (torch.zeros(2, 8, 8), torch.ones(2), torch.zeros(2).long(), r"give \(batch, 1, 8, 8\)"),
        (torch.zeros(2, 1, 8, 8), torch.ones(1), torch.zeros(2).long(), r"t \(1,\) does not fit"),
        (torch.zeros(2, 1, 8, 8), torch.ones(2), torch.zeros(3).long(), r"labels \(3,\) does not fit"),
        (torch.zeros(2, 1, 8, 8), torch.ones(2), torch.zeros(2), "whole numbers"),
        (torch.zeros(2, 1, 8, 8), torch.ones(2), torch.tensor([0, 11]), "give 0 to 9, or 10"),
    ],
)
def test_refusals(x: Tensor, t: Tensor, labels: Tensor, words: str) -> None:
    """Would catch a shape that broadcasts, or a label that fails somewhere inside torch."""
    with pytest.raises(ValueError, match=words):
        DigitsModel()(x, t, labels)


def test_no_steps_are_refused() -> None:
    """Would catch a loop that does nothing and hands back noise."""
    with pytest.raises(ValueError, match="steps=0"):
        sample(DigitsModel(), [1], steps=0)


def test_examples() -> None:
    """Would catch an example in a docstring that is no longer true."""
    assert doctest.testmod(digits, extraglobs={"torch": torch}).failed == 0


def test_there_is_no_step_from_a_clean_picture() -> None:
    """NaN in silence: at time 0 the step divides by the noise that is not there."""
    x = first_noise(2)
    with pytest.raises(ValueError, match="begin above 0"):
        denoise_step(x, x, torch.tensor([0.5, 0.0]), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_in_another_dtype_is_named(dtype: torch.dtype) -> None:
    """Torch's words about two matrices, from somewhere inside the model."""
    with pytest.raises(ValueError, match=f"the model is in {dtype} and the pictures are torch.float32"):
        sample(digits.load_digits().to(dtype), [3], steps=1)
    model = digits.load_digits().double()
    found = sample(lambda x, t, labels: model(x.double(), t, labels).float(), [3], steps=2)
    assert float((found - sample(digits.load_digits(), [3], steps=2)).abs().max()) < 1e-4  # float32 rounding
