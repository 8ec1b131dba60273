"""The weights that ship with the small models: safetensors files beside this module, stored in float16.

safetensors, because a file of it runs no code when it is read, and is read anywhere. float16 halves what a
reader downloads; a loaded model computes in float32 again, and what is rounded is in the measured quality.
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file, save
from torch import nn

FOLDER = Path(__file__).parent / "data"


def shipped(name: str) -> Path:
    """The path of the weights that ship as `name`; raises ValueError, listing the names there are.

    >>> shipped("digits").name
    'digits.safetensors'
    """
    path = FOLDER / f"{name}.safetensors"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.safetensors")))
        raise ValueError(f"no weights ship as {name!r}; known: {known}")
    return path


def save_weights(model: nn.Module, path: Path | str) -> None:
    """Writes the model's tensors to `path`, floating-point ones as float16."""
    tensors = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    Path(path).write_bytes(save(tensors))


def load_weights(model: nn.Module, path: Path | str) -> None:
    """Fills the model, in its own dtype, from a file of `save_weights`; it is then for inference.

    Raises ValueError where the file is of another model: a tensor too many, too few, or of another shape.
    """
    tensors = load_file(str(path))
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    stored = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wrong := sorted(name for name in wanted | stored if wanted.get(name) != stored.get(name)):
        name = wrong[0]
        raise ValueError(
            f"{Path(path).name} does not fit {type(model).__name__} in {len(wrong)} tensors: {name!r} is "
            f"{stored.get(name, 'missing')} in the file and {wanted.get(name, 'missing')} in the model; "
            f"make the model with the sizes it was trained with"
        )
    model.load_state_dict(tensors)
    model.requires_grad_(False).eval()
