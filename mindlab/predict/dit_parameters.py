r"""How many numbers a diffusion transformer holds, part by part; reached through `Architecture.parameters`.

Families, told apart by their modulation: blocks that each make their own shifts and scales from the time step
(Flux, HunyuanVideo, Qwen-Image), blocks that share one set (Wan, PixArt), and blocks that make them from a
narrower embedding (CogVideoX); in the workbook's own model the time is added to all tokens. All linear layers
have biases. diffusers 0.35.2 counts the same, but for Qwen-Image's norm of the text and PixArt's two
embeddings of a picture's size, under 0.1 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindlab.predict.architectures import Architecture, Dit

_TIME = 256
"""Width of the sines that a time step is turned into; where the embedding is narrower than h, that is h."""


def dit_parameter_terms(model: Architecture, dit: Dit) -> dict[str, int]:
    """By part: "blocks", "modulation", "refiner", "embedding"."""
    h = model.hidden
    return {
        "blocks": _joint(model, dit) if dit.modulation == "block" else _plain(model, dit),
        "modulation": _modulation(model, dit),
        "refiner": dit.refiner_blocks * (14 * h * h + 15 * h),
        "embedding": _patches(model, dit) + _conditions(model, dit),
    }


def linear(inputs: int, outputs: int) -> int:
    """Of a linear layer with its bias.

    >>> linear(4, 8)
    40
    """
    return inputs * outputs + outputs


def _layer(model: Architecture) -> tuple[int, int]:
    """Of one attention, and of one MLP."""
    h, inner = model.hidden, model.inner
    return 4 * linear(h, h), linear(h, inner) + linear(inner, h)


def _joint(model: Architecture, dit: Dit) -> int:
    """Double blocks have everything twice. In a single one, attention and MLP share the last matrix."""
    attention, mlp = _layer(model)
    norms = 2 * model.head_dim
    shared_bias = model.hidden
    double = 2 * (attention + mlp + norms)
    return dit.double * double + dit.single * (attention + mlp + norms - shared_bias)


def _plain(model: Architecture, dit: Dit) -> int:
    """One stream, with cross attention or without. Norms: of queries and keys, and of a block's inputs."""
    h = model.hidden
    attention, mlp = _layer(model)
    if not dit.cross_attention:
        inside = 0 if dit.modulation == "added" else 4 * model.head_dim
        return model.layers * (attention + mlp + 4 * h + inside)
    norms = model.qk_norm * (2 * 2 * h + 2 * h)
    return model.layers * (2 * attention + mlp + norms)


def _modulation(model: Architecture, dit: Dit) -> int:
    """The linear layers that turn the time step into shifts and scales."""
    h = model.hidden
    if dit.modulation == "shared":
        return linear(h, 6 * h) + model.layers * 6 * h
    if dit.modulation == "added":
        return model.layers * linear(h, h)
    if dit.modulation == "block":
        return dit.double * 2 * linear(h, 6 * h) + dit.single * linear(h, 3 * h)
    return model.layers * 2 * linear(int(dit.modulation), 6 * h)


def _patches(model: Architecture, dit: Dit) -> int:
    """From patches to tokens and back, the last norm's shifts and scales included."""
    h, values = model.hidden, dit.values_per_token
    outputs = values // dit.channels * (dit.out_channels or dit.channels)
    ends = linear(values, h) + linear(h, outputs)
    if dit.modulation in ("shared", "added"):
        return ends + 2 * h
    if dit.modulation == "block":
        return ends + linear(h, 2 * h)
    return ends + linear(int(dit.modulation), 2 * h) + 4 * h


def _conditions(model: Architecture, dit: Dit) -> int:
    """Of time, guidance, text, and one more vector of the text."""
    h = model.hidden
    if dit.modulation == "added":
        return 2 * linear(h, h) + (dit.labels + model.positions) * h
    if dit.modulation.isdecimal():
        width = int(dit.modulation)
        return linear(h, width) + linear(width, width) + linear(dit.text_width, h)
    time = linear(_TIME, h) + linear(h, h)
    text = linear(dit.text_width, h)
    deep_text = text + linear(h, h)
    pooled = linear(dit.pooled_width, h) + linear(h, h) if dit.pooled_width else 0
    found = time * (1 + dit.guidance_embedded) + pooled
    if dit.refiner_blocks:
        return found + time + deep_text + text  # the refiner has a time and a mean text of its own
    return found + (deep_text if dit.cross_attention else text)
