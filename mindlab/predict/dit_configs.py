"""Reads diffusers' config.json of a diffusion transformer, by its `_class_name`.

A transformer's config says nothing of its VAE, its text encoder and its guidance: these are what the model's
own pipeline has. 512 tokens of text for Flux and Wan, 256 for HunyuanVideo, 120 for PixArt; none for
Qwen-Image, whose text is as long as its prompt: add them to `Architecture.tokens`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindlab.errors import MindlabError
from mindlab.predict.architectures import Architecture, Dit
from mindlab.predict.config_fields import Config


def _dit(
    config: Config, dit: Dit, layers: int, *, inner: int | None = None, qk_norm: bool = False
) -> Architecture:
    heads, head_dim = config.whole("num_attention_heads"), config.whole("attention_head_dim")
    hidden = heads * head_dim
    name = str(config.fields["_class_name"])
    return Architecture(
        name, "dit", layers, hidden, heads, heads, head_dim,
        inner or config.times("mlp_ratio", hidden, default=4), qk_norm=qk_norm, dit=dit, source=config.where,
    )  # fmt: skip


def _channels(config: Config, out: int = 0) -> dict[str, Any]:
    """Of the latent; where more go in than come out, the rest is a picture to start from."""
    return {
        "channels": config.whole("in_channels"),
        "out_channels": config.whole("out_channels", default=out),
    }


def _packed(config: Config) -> dict[str, Any]:
    """The channels of a latent whose patches of 2 x 2 were laid into channels before."""
    packed = config.whole("in_channels", default=64)
    if packed % 4:
        raise MindlabError(f"{config.where}, in_channels: {packed} is no four channels of 2 x 2 pixels")
    return {"channels": packed // 4}


def _flux(config: Config) -> Architecture:
    double, single = config.whole("num_layers", least=0), config.whole("num_single_layers", least=0)
    dit = Dit(
        double=double, single=single, text_tokens=512,
        text_width=config.whole("joint_attention_dim"), pooled_width=config.whole("pooled_projection_dim"),
        guidance_embedded=config.has("guidance_embeds"), **_packed(config),
    )  # fmt: skip
    return _dit(config, dit, double + single)


def _hunyuan(config: Config) -> Architecture:
    double, single = config.whole("num_layers", least=0), config.whole("num_single_layers", least=0)
    patch = config.whole("patch_size")
    dit = Dit(
        double=double, single=single, text_tokens=256, **_channels(config),
        patch=(config.whole("patch_size_t"), patch, patch), vae_stride=(4, 8, 8),
        text_width=config.whole("text_embed_dim"), pooled_width=config.whole("pooled_projection_dim"),
        guidance_embedded=config.has("guidance_embeds"),
        refiner_blocks=config.whole("num_refiner_layers", least=0),
    )  # fmt: skip
    return _dit(config, dit, double + single)


def _wan(config: Config) -> Architecture:
    config.only("added_kv_proj_dim", (), "a model that looks at an image too; give one of text to video")
    config.only("in_channels", (16,), "only the VAE with 16 channels is known, and how far it shrinks")
    dit = Dit(
        text_tokens=512, cross_attention=True, **_channels(config), modulation="shared",
        patch=config.triple("patch_size", (1, 2, 2)), vae_stride=(4, 8, 8), guided=True,
        text_width=config.whole("text_dim"),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"), inner=config.whole("ffn_dim"), qk_norm=True)


def _qwen_image(config: Config) -> Architecture:
    layers = config.whole("num_layers")
    dit = Dit(
        double=layers, text_width=config.whole("joint_attention_dim"), guided=True,
        **_packed(config),
    )  # fmt: skip
    return _dit(config, dit, layers)


def _cogvideo(config: Config) -> Architecture:
    patch = config.whole("patch_size")
    dit = Dit(
        text_tokens=config.whole("max_text_seq_length"), text_width=config.whole("text_embed_dim"),
        patch=(config.whole("patch_size_t", default=1), patch, patch), **_channels(config),
        vae_stride=(config.whole("temporal_compression_ratio", default=4), 8, 8), guided=True,
        modulation=str(config.whole("time_embed_dim")),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"))


def _pixart(config: Config) -> Architecture:
    config.only("norm_type", ("ada_norm_single",), "only PixArt's blocks are known")
    patch = config.whole("patch_size")
    dit = Dit(
        text_tokens=120, cross_attention=True, **_channels(config, out=8), modulation="shared",
        patch=(1, patch, patch), guided=True, text_width=config.whole("caption_channels"),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"))


DITS: dict[str, Callable[[Config], Architecture]] = {
    "FluxTransformer2DModel": _flux,
    "HunyuanVideoTransformer3DModel": _hunyuan,
    "WanTransformer3DModel": _wan,
    "QwenImageTransformer2DModel": _qwen_image,
    "CogVideoXTransformer3DModel": _cogvideo,
    "PixArtTransformer2DModel": _pixart,
}
