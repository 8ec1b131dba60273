"""The scripts that train the small models learn, and the weights that ship are small and fit."""

from __future__ import annotations

import doctest
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from mindlab.models import train, training, weights
from mindlab.models.decoder import Decoder, load_decoder
from mindlab.models.digits import DigitsModel, load_digits
from mindlab.models.moe import MoEDecoder, load_moe
from mindlab.models.vae import VAE, load_photo, load_vae
from mindlab.models.weights import FOLDER, load_weights, save_weights, shipped

MODELS = {"digits": DigitsModel, "decoder": Decoder, "moe": MoEDecoder, "vae": VAE, "vae_plain": VAE}


@pytest.mark.parametrize("name", MODELS)
def test_a_few_steps_learn(name: str) -> None:
    """Would catch a script whose gradients do not reach the model, or data that has nothing to learn."""
    if name.startswith(("digits", "vae")):
        pytest.importorskip("sklearn")
    _, losses = train.TRAINERS[name](steps=12)
    assert sum(losses[-3:]) < 0.97 * sum(losses[:3]), losses


def test_the_same_seed_trains_the_same_weights() -> None:
    """Would catch a batch or a first weight that is drawn from anything but the seed."""
    first, _ = train.TRAINERS["moe"](steps=2, seed=3)
    torch.manual_seed(99)
    again, _ = train.TRAINERS["moe"](steps=2, seed=3)
    other, _ = train.TRAINERS["moe"](steps=2, seed=4)
    assert all(torch.equal(first.state_dict()[name], again.state_dict()[name]) for name in first.state_dict())
    assert not torch.equal(first.state_dict()["positions"], other.state_dict()["positions"])


def test_the_script_writes_weights_that_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Would catch a script that trains and saves another model than the one that is loaded."""
    assert train.main(["decoder", "--steps", "2", "--out", str(tmp_path / "new.safetensors")]) == 0
    assert "2 steps, mean loss" in capsys.readouterr().out
    load_weights(Decoder(), tmp_path / "new.safetensors")


def test_the_script_refuses_before_it_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Would catch minutes of training that end in a folder which does not exist, or a misspelt model.

    A folder as the file to write, and no steps: an empty mean after weights that nobody trained.
    """
    refused = {
        "there is no folder": ["decoder", "--out", str(tmp_path / "none" / "new.safetensors")],
        "invalid choice: 'digit'": ["digit"],
        "is a folder: name a file, such as": ["decoder", "--steps", "1", "--out", str(tmp_path)],
        "--steps 0: give 1 or more": ["decoder", "--steps", "0", "--out", str(tmp_path / "new.safetensors")],
    }
    for words, arguments in refused.items():
        with pytest.raises(SystemExit):
            train.main(arguments)
        assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_threads_are_given_back() -> None:
    """Would catch a training that leaves a notebook with one thread, also when it fails."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError), training.one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_fit_leaves_the_average() -> None:
    """Would catch a model left at its last step: with a rate this high its weight jumps, the average less."""
    model, seen = nn.Linear(1, 1, bias=False), []

    def loss(generator: torch.Generator) -> torch.Tensor:
        seen.append(float(model.weight.detach()))
        return (model.weight - torch.randn(1, generator=generator)).square().mean()

    training.fit(model, loss, steps=300, rate=0.5)
    assert abs(float(model.weight.detach())) < max(abs(each) for each in seen[-100:])
    assert float(model.weight.detach()) not in seen


def test_what_ships_is_small_and_fits() -> None:
    """Would catch weights of another model, or ones that make the package large."""
    sizes = {path.stem: path.stat().st_size for path in FOLDER.glob("*.safetensors")}
    assert set(sizes) == {*MODELS, "photo"}
    pictures = sum(sizes[name] for name in ("vae", "vae_plain", "photo"))
    assert pictures < 1_000_000, sizes
    assert sum(sizes.values()) - pictures < 2_000_000, sizes
    assert load_photo().shape == (1, 3, 208, 320)
    for load in (load_digits, load_decoder, load_moe, load_vae, partial(load_vae, norm=False)):
        model = load()
        assert not model.training
        for tensor in model.parameters():
            assert tensor.dtype == torch.float32 and not tensor.requires_grad and tensor.isfinite().all()


def test_weights_come_back(tmp_path: Path) -> None:
    """Would catch a file in float32, twice as large, and tensors that come back under other names."""
    model, other, path = MoEDecoder(layers=1), MoEDecoder(layers=1), tmp_path / "w.safetensors"
    save_weights(model, path)
    load_weights(other, path)
    for name, tensor in model.state_dict().items():
        # float16 keeps 11 bits
        torch.testing.assert_close(other.state_dict()[name], tensor, atol=1e-6, rtol=2**-11)
    assert path.stat().st_size < 2.2 * sum(tensor.numel() for tensor in model.parameters())


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    """Would catch half a model filled in silence, and torch's list of all tensors instead of one sentence."""
    save_weights(Decoder(layers=1), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"does not fit Decoder in .* tensors: .* make the model with"):
        load_weights(Decoder(layers=2), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"\w+' is \(32,\) in the file and \(16,\) in the model"):
        load_weights(Decoder(hidden=32, layers=1), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="no weights ship as 'digit'; known: decoder, digits, moe"):
        shipped("digit")


def test_examples() -> None:
    """Would catch an example in a docstring that is no longer true."""
    assert doctest.testmod(weights).failed == 0
    assert doctest.testmod(training).failed == 0
