"""Models on paper: the shape of each layer, what follows from it, and where the numbers come from.

Two kinds: "decoder", which writes token after token and keeps a cache of keys and values, and "dit", a
diffusion transformer, which sees a whole picture or video at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mindlab.errors import UnknownName
from mindlab.predict.heads import check_groups
from mindlab.predict.quantity import Quantity
from mindlab.predict.shapes import check_whole

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Experts:
    """The mixture of experts in a layer."""

    count: int
    top_k: int
    inner: int
    """Inner width of one expert."""
    shared: int = 0
    """Experts that take every token."""
    dense_layers: int = 0
    """The first layers, which have one MLP of the model's `inner` in their place."""
    bias: bool = False
    """A number an expert that the router adds before it chooses."""

    def __post_init__(self) -> None:
        check_whole(1, count=self.count, top_k=self.top_k, inner=self.inner)
        check_whole(0, shared=self.shared, dense_layers=self.dense_layers)
        if self.top_k > self.count:
            raise ValueError(f"top_k={self.top_k} of {self.count} experts: choose 1 to {self.count}")


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-AI 2024): what the cache keeps, and the widths around it."""

    kv_rank: int
    q_rank: int
    """0: queries come from the hidden state straight away."""
    rope_dim: int
    nope_dim: int
    value_dim: int

    def __post_init__(self) -> None:
        check_whole(1, kv_rank=self.kv_rank, nope_dim=self.nope_dim, value_dim=self.value_dim)
        check_whole(0, q_rank=self.q_rank, rope_dim=self.rope_dim)


@dataclass(frozen=True)
class Dit:
    """What a diffusion transformer has beside its layers."""

    double: int = 0
    """Blocks with own weights for text and picture, which attend together."""
    single: int = 0
    """Blocks of one stream whose attention and MLP stand beside each other."""
    text_tokens: int = 0
    cross_attention: bool = False
    """True: text is only looked at. False: it is a part of the sequence."""
    patch: tuple[int, int, int] = (1, 2, 2)
    """Of frames, rows and columns of the latent."""
    vae_stride: tuple[int, int, int] = (1, 8, 8)
    channels: int = 16
    """Of the latent that comes in."""
    out_channels: int = 0
    """Of what goes out; 0: as many."""
    guided: bool = False
    """Two passes a step (classifier-free guidance)."""
    text_width: int = 0
    pooled_width: int = 0
    """Width of one more vector of the text; 0: none."""
    guidance_embedded: bool = False
    refiner_blocks: int = 0
    """Blocks that only the text goes through first."""
    modulation: str = "block"
    """ "block": 6 h² a stream in each block (3 h² in a single one); "shared": once; "added": h² a block; or a
    width w: 12 w h a block, which the time step is embedded in."""
    labels: int = 0
    """Of which a vector is learned each, in place of a text."""

    def __post_init__(self) -> None:
        check_whole(0, double=self.double, single=self.single, text_tokens=self.text_tokens)
        check_whole(0, out_channels=self.out_channels, refiner_blocks=self.refiner_blocks)
        for name, parts in (("patch", self.patch), ("vae_stride", self.vae_stride)):
            if len(parts) != 3:
                raise ValueError(f"{name}={list(parts)}: give three numbers, of frames, rows and columns")
            check_whole(1, **{f"{name}[{axis}]": part for axis, part in enumerate(parts)})
        check_whole(1, channels=self.channels)
        if self.modulation not in ("block", "shared", "added") and not self.modulation.isdecimal():
            raise ValueError(
                f"modulation={self.modulation!r}: give block, shared, added, or a width in digits"
            )

    @property
    def values_per_token(self) -> int:
        """How many numbers of the latent one token stands for."""
        frames, rows, columns = self.patch
        return frames * rows * columns * self.channels


class Published(NamedTuple):
    """What others print about a model, or count in it. Before rounding, where the digits are known."""

    what: str
    """ "parameters", "active parameters" or "kv bytes a token"."""
    value: float
    source: str
    date: str
    """On which it was read."""


@dataclass(frozen=True)
class Architecture:
    """A model's shape. Nothing in it was measured; `published` says what others print about it."""

    name: str
    kind: str
    """ "decoder" or "dit"."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    """Inner width of the MLP."""
    gated: bool = False
    vocabulary: int = 0
    tied: bool = False
    """The embedding is the matrix to logits too."""
    qkv_bias: bool = False
    output_bias: bool = False
    """A bias behind attention's last matrix. Of decoders; diffusion transformers have all biases."""
    bias: bool = False
    """Biases of all linear layers and norms but the router's. Of decoders."""
    positions: int = 0
    """Of which a vector is learned each; 0: positions are computed."""
    qk_norm: bool = False
    """Of decoders; and of diffusion transformers with cross attention, there over all heads at once."""
    experts: Experts | None = None
    latent: Latent | None = None
    dit: Dit | None = None
    published: tuple[Published, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        check_whole(1, layers=self.layers, hidden=self.hidden, head_dim=self.head_dim, inner=self.inner)
        check_groups(self.heads, self.kv_heads)
        if self.kind not in ("decoder", "dit") or (self.kind == "dit") != (self.dit is not None):
            raise ValueError(f"kind={self.kind!r}: give decoder, or dit together with its Dit")
        if self.dit is None:
            check_whole(1, vocabulary=self.vocabulary)
        elif self.dit.double + self.dit.single not in (0, self.layers):
            blocks = f"{self.dit.double} double and {self.dit.single} single blocks"
            raise ValueError(f"layers={self.layers}, but {blocks}: layers is their sum")
        if self.experts is not None and self.experts.dense_layers > self.layers:
            raise ValueError(f"dense_layers={self.experts.dense_layers} of {self.layers}: choose fewer")

    def parameters(self) -> Quantity:
        """How many numbers the model has to hold.

        >>> ml.architecture("llama-3.1-8b").parameters().value
        8030261248
        """
        from mindlab.predict.parameters import parameters

        return parameters(self)

    def active_parameters(self) -> Quantity:
        """How many of them one token meets: of the experts those that are chosen, and the shared ones.

        >>> ml.architecture("mixtral-8x7b").active_parameters().value
        12879925248
        """
        from mindlab.predict.parameters import active_parameters

        return active_parameters(self)

    def kv_bytes_per_token(self, itemsize: int = 2) -> Quantity:
        """Bytes that one token leaves in the cache of all layers. Raises ValueError for a DiT: it has none.

        >>> ml.architecture("deepseek-v3").kv_bytes_per_token().value
        70272
        """
        from mindlab.predict.decoding import latent_cache
        from mindlab.predict.held import kv_cache

        if self.kind != "decoder":
            raise ValueError(f"{self.name} is a diffusion transformer: it keeps no cache of keys and values")
        if self.latent is not None:
            return latent_cache(
                1, 1, self.latent.kv_rank, self.latent.rope_dim, itemsize=itemsize, layers=self.layers
            )
        return kv_cache(1, 1, self.kv_heads, self.head_dim, itemsize=itemsize, layers=self.layers)

    def tokens(self, *, height: int, width: int, frames: int = 1) -> int:
        """How long the sequence of a picture or video is, text included where it is a part of it.

        Sizes are in pixels; parts of a patch count as a whole one. Raises ValueError for a decoder.

        >>> ml.architecture("hunyuan-video").tokens(frames=129, height=720, width=1280)
        119056
        """
        if self.dit is None:
            raise ValueError(f"{self.name} writes text: it has no pictures to count tokens of")
        check_whole(1, height=height, width=width, frames=frames)
        stride, patch = self.dit.vae_stride, self.dit.patch
        if height < stride[1] or width < stride[2]:
            least = f"{stride[1]} x {stride[2]}"
            raise ValueError(f"{height} x {width} pixels are not one of the latent: give {least} or more")
        _check_size(stride, frames=frames, height=height, width=width)
        latent = (1 + (frames - 1) // stride[0], height // stride[1], width // stride[2])
        count = 1
        for length, part in zip(latent, patch, strict=True):
            count *= -(-length // part)
        return count + (0 if self.dit.cross_attention else self.dit.text_tokens)

    def __repr__(self) -> str:
        shown = f"{self.parameters().value / 1e9:.4g} B parameters"
        return f"{self.name}: {self.kind}, {self.layers} layers, {self.heads} heads, {shown}"


def _check_size(stride: tuple[int, int, int], **lengths: int) -> None:
    """Raises ValueError for sizes that the VAE does not divide: programs resize or pad, each its way."""
    for (name, length), step in zip(lengths.items(), stride, strict=True):
        first = 1 if name == "frames" else 0  # a video's first frame is a latent of its own
        if (length - first) % step:
            near = length - (length - first) % step
            wanted = f"1 and a multiple of {step}" if first else f"a multiple of {step}"
            raise ValueError(f"{name}={length}: the VAE takes {wanted}: choose {near} or {near + step}")


def architecture(given: str | os.PathLike[str] | Mapping[str, Any]) -> Architecture:
    """The Architecture of a name, of a model's config.json or the folder with it, or of what it says.

    `architectures.names()` lists the shipped ones. Raises UnknownName; MindlabError, with file and field, for
    a config that is not right or of a kind that is not known.

    >>> ml.architecture("llama-3.1-70b")
    llama-3.1-70b: decoder, 80 layers, 64 heads, 70.55 B parameters
    """
    from mindlab.predict import architecture_file, model_configs

    if not isinstance(given, (str, os.PathLike, Mapping)):
        raise ValueError(f"{given!r} names no model: give a name, a path to a config.json, or what it says")
    if isinstance(given, Mapping):
        return model_configs.read(given, "the config")
    text = os.fspath(given)
    if (Path(text) / "config.json").is_file():
        return model_configs.read_file(Path(text) / "config.json")
    if text.endswith(".json"):
        return model_configs.read_file(Path(text))
    if text not in names():
        raise UnknownName("model", text, [*names(), "or a path to a config.json"])
    return architecture_file.read(_DATA / f"{text}.yaml")


def names() -> list[str]:
    """The names of the shipped models."""
    return sorted(path.stem for path in _DATA.glob("*.yaml"))
