"""`python -m mindlab.models.train decoder`, or another model: makes its weights anew, in minutes.

Writes to the working folder unless `--out` says where; what ships lies in mindlab/models/data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from torch import nn

from mindlab.models.train_digits import train_digits
from mindlab.models.train_text import train_decoder, train_moe
from mindlab.models.train_vae import train_plain_vae, train_vae
from mindlab.models.weights import save_weights

TRAINERS: dict[str, Callable[..., tuple[nn.Module, list[float]]]] = {
    "digits": train_digits,
    "decoder": train_decoder,
    "moe": train_moe,
    "vae": train_vae,
    "vae_plain": train_plain_vae,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """0, after the weights were written; what is given on the command line, or `arguments`."""
    reader = argparse.ArgumentParser(prog="python -m mindlab.models.train", description=__doc__)
    reader.add_argument("model", choices=TRAINERS)
    reader.add_argument(
        "--steps", type=int, help="batches to train on; as many as for what ships, if not given"
    )
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--out", type=Path, help="the file to write; MODEL.safetensors if not given")
    given = reader.parse_args(arguments)
    out = given.out or Path(f"{given.model}.safetensors")
    if not out.parent.is_dir():
        reader.error(f"--out {out}: there is no folder {out.parent}")
    if out.is_dir():
        reader.error(f"--out {out} is a folder: name a file, such as {out / given.model}.safetensors")
    if given.steps is not None and given.steps < 1:
        reader.error(f"--steps {given.steps}: give 1 or more")
    steps = {} if given.steps is None else {"steps": given.steps}
    model, losses = TRAINERS[given.model](seed=given.seed, **steps)
    save_weights(model, out)
    last = losses[-50:]
    print(f"{out}: {len(losses)} steps, mean loss of the last {len(last)}: {sum(last) / len(last):.4f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
