"""What is asked of the cards: texts to write, or pictures to make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindlab.predict.architectures import Architecture
from mindlab.predict.shapes import check_whole


@dataclass(frozen=True)
class Text:
    """Requests that come at once: each a prompt of so many tokens, and so many tokens to write."""

    prompt: int
    output: int
    requests: int = 1
    itemsize: int = 2
    """Bytes of a weight, and of a number in the cache."""

    unit = "tokens"


@dataclass(frozen=True)
class Pictures:
    """Pictures or videos that are asked for at once, all of one size."""

    height: int
    width: int
    steps: int
    frames: int = 1
    guided: bool | None = None
    """Two passes a step; None: what is known of the model."""
    requests: int = 1
    itemsize: int = 2
    serial: float = 0.0
    """Seconds a picture that no rank shares: text encoder, loading, a VAE on one card."""
    vae: float = 0.0
    """Seconds of the VAE on one card, which all ranks of a picture share, a row of tiles each."""
    vae_halo: int = 0
    """Latent pixels by which a tile reaches into its neighbours, and that are decoded twice."""

    unit = "pictures"


Workload = Text | Pictures
_FORMS = {"decoder": Text, "dit": Pictures}


def workload(model: Architecture, given: Workload | Mapping[str, Any]) -> Workload:
    """The Workload for a model, from one or from its numbers by name.

    Raises ValueError for a name it has not, for a missing number, or for the other kind's workload.

    >>> workload(ml.architecture("llama-3.1-8b"), {"prompt": 4096, "output": 256})
    Text(prompt=4096, output=256, requests=1, itemsize=2)
    """
    form = _FORMS[model.kind]
    if isinstance(given, (Text, Pictures)):
        made = given
    else:
        made = _filled(form, dict(given), model.name)
    if not isinstance(made, form):
        raise ValueError(f"{model.name} takes a workload of {_names(form)}; this one is {made!r}")
    _check(made)
    return made


def _filled(form: type[Text] | type[Pictures], given: dict[str, Any], name: str) -> Workload:
    known = {field.name: field for field in dataclasses.fields(form)}
    strange = sorted(set(given) - set(known))
    if strange:
        raise ValueError(f"a workload for {name} has no {strange[0]!r}; it has {_names(form)}")
    missing = [key for key, one in known.items() if one.default is dataclasses.MISSING and key not in given]
    if missing:
        raise ValueError(f"a workload for {name} needs {', '.join(missing)}; it can have {_names(form)}")
    return form(**given)


def _check(made: Workload) -> None:
    whole = {"requests": made.requests, "itemsize": made.itemsize}
    if isinstance(made, Text):
        whole |= {"prompt": made.prompt, "output": made.output}
    else:
        check_whole(0, vae_halo=made.vae_halo)
        whole |= {"height": made.height, "width": made.width, "steps": made.steps, "frames": made.frames}
        for name, value in (("serial", made.serial), ("vae", made.vae)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value!r}: give seconds, from 0 on")
        if made.guided not in (None, True, False):
            raise ValueError(f"guided={made.guided!r}: give True, False, or None for what the model does")
    check_whole(1, **whole)


def _names(form: type[Text] | type[Pictures]) -> str:
    return ", ".join(field.name for field in dataclasses.fields(form))
