"""Reads the config.json of a model, in the usual formats, into an Architecture.

Of language models by `model_type`: llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v2,
deepseek_v3. Of diffusion transformers by diffusers' `_class_name`. What a config leaves out is what the
library takes there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mindlab.errors import MindlabError
from mindlab.predict.architectures import Architecture, Dit, Experts, Latent


class _Config:
    """A config whose fields are asked for by name, so that a missing one is named."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self.fields, self.where = fields, where

    def whole(self, *names: str, default: int | None = None) -> int:
        """The first of these fields that is there: a whole number above 0."""
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise MindlabError(f"{self.where}, {name}: {value!r} is no whole number from 0 on")
            return value
        if default is None:
            raise MindlabError(f"{self.where}: the field {names[0]!r} is missing")
        return default

    def has(self, name: str, default: bool = False) -> bool:
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise MindlabError(f"{self.where}, {name}: {value!r} is neither true nor false")
        return value


def read_file(path: Path) -> Architecture:
    """The Architecture in a config.json. Raises MindlabError that names file and field; FileNotFoundError."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise MindlabError(f"{path.name}, line {error.lineno}: this is no JSON: {error.msg}") from None
    if not isinstance(config, dict):
        raise MindlabError(f"{path.name}: a config is a mapping of names to values, not {config!r:.40}")
    return read(config, path.name)


def read(config: Mapping[str, Any], where: str) -> Architecture:
    """The Architecture that a config describes; `where` names it in errors."""
    fields = _Config(config, where)
    for key, forms in (("model_type", _DECODERS), ("_class_name", _DITS)):
        if key in config:
            kind = config[key]
            if kind not in forms:
                raise MindlabError(
                    f"{where}, {key}: {kind!r} is not known; known: {', '.join(sorted(forms))}"
                )
            return forms[kind](fields)
    raise MindlabError(f"{where}: it has neither 'model_type' nor '_class_name'; a model's config has one")


def _decoder(config: _Config, **more: Any) -> Architecture:
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    if hidden % heads and "head_dim" not in config.fields:
        raise MindlabError(f"{config.where}: hidden_size={hidden} does not split into {heads} heads")
    common = {
        "name": _name(config),
        "kind": "decoder",
        "layers": config.whole("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.whole("num_key_value_heads", default=heads),
        "head_dim": config.whole("head_dim", default=hidden // heads),
        "inner": config.whole("intermediate_size"),
        "gated": True,
        "vocabulary": config.whole("vocab_size"),
        "tied": config.has("tie_word_embeddings"),
        "source": config.where,
    }
    return Architecture(**{**common, **more})


def _name(config: _Config) -> str:
    given = config.fields.get("_name_or_path") or config.fields.get("model_type") or config.where
    return str(given).rsplit("/", maxsplit=1)[-1]


def _llama(config: _Config) -> Architecture:
    return _decoder(config, qkv_bias=config.has("attention_bias"))


def _qwen2(config: _Config) -> Architecture:
    return _decoder(config, qkv_bias=True)


def _qwen3(config: _Config) -> Architecture:
    return _decoder(config, qk_norm=True, qkv_bias=config.has("attention_bias"))


def _mixtral(config: _Config) -> Architecture:
    experts = Experts(
        config.whole("num_local_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("intermediate_size"),
    )
    return _decoder(config, experts=experts)


def _qwen3_moe(config: _Config) -> Architecture:
    experts = Experts(
        config.whole("num_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("moe_intermediate_size"),
    )
    return _decoder(config, experts=experts, qk_norm=True)


def _deepseek(config: _Config) -> Architecture:
    nope, rope = config.whole("qk_nope_head_dim"), config.whole("qk_rope_head_dim")
    latent = Latent(
        kv_rank=config.whole("kv_lora_rank"),
        q_rank=config.whole("q_lora_rank", default=0),
        rope_dim=rope,
        nope_dim=nope,
        value_dim=config.whole("v_head_dim"),
    )
    experts = Experts(
        config.whole("n_routed_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("moe_intermediate_size"),
        shared=config.whole("n_shared_experts", default=0),
        dense_layers=config.whole("first_k_dense_replace", default=0),
        bias=config.fields["model_type"] == "deepseek_v3",
    )
    return _decoder(config, experts=experts, latent=latent, head_dim=nope + rope)


def _dit(config: _Config, dit: Dit, layers: int, ratio: int = 4, inner: int | None = None) -> Architecture:
    heads, head_dim = config.whole("num_attention_heads"), config.whole("attention_head_dim")
    hidden = heads * head_dim
    name = str(config.fields["_class_name"])
    return Architecture(
        name, "dit", layers, hidden, heads, heads, head_dim, inner or ratio * hidden, dit=dit,
        source=config.where,
    )  # fmt: skip


def _flux(config: _Config) -> Architecture:
    double, single = config.whole("num_layers"), config.whole("num_single_layers")
    dit = Dit(
        double=double, single=single, text_tokens=512,
        text_width=config.whole("joint_attention_dim"), pooled_width=config.whole("pooled_projection_dim"),
        guidance_embedded=config.has("guidance_embeds"), channels=config.whole("in_channels") // 4,
    )  # fmt: skip
    return _dit(config, dit, double + single)


def _hunyuan(config: _Config) -> Architecture:
    double, single = config.whole("num_layers"), config.whole("num_single_layers")
    patch = config.whole("patch_size")
    dit = Dit(
        double=double, single=single, text_tokens=256, channels=config.whole("in_channels"),
        patch=(config.whole("patch_size_t"), patch, patch), vae_stride=(4, 8, 8),
        text_width=config.whole("text_embed_dim"), pooled_width=config.whole("pooled_projection_dim"),
        guidance_embedded=config.has("guidance_embeds"), refiner_blocks=config.whole("num_refiner_layers"),
    )  # fmt: skip
    return _dit(config, dit, double + single)


def _wan(config: _Config) -> Architecture:
    patch = config.fields.get("patch_size", [1, 2, 2])
    dit = Dit(
        text_tokens=512, cross_attention=True, channels=config.whole("in_channels"), modulation="shared",
        patch=(int(patch[0]), int(patch[1]), int(patch[2])), vae_stride=(4, 8, 8), guided=True,
        text_width=config.whole("text_dim"),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"), inner=config.whole("ffn_dim"))


def _qwen_image(config: _Config) -> Architecture:
    layers = config.whole("num_layers")
    dit = Dit(
        double=layers, text_width=config.whole("joint_attention_dim"), guided=True,
        channels=config.whole("out_channels", default=16),
    )  # fmt: skip
    return _dit(config, dit, layers)


def _cogvideo(config: _Config) -> Architecture:
    patch = config.whole("patch_size")
    dit = Dit(
        text_tokens=config.whole("max_text_seq_length"), text_width=config.whole("text_embed_dim"),
        patch=(config.whole("patch_size_t", default=1), patch, patch), channels=config.whole("in_channels"),
        vae_stride=(config.whole("temporal_compression_ratio", default=4), 8, 8), guided=True,
        modulation=str(config.whole("time_embed_dim")),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"))


def _pixart(config: _Config) -> Architecture:
    patch = config.whole("patch_size")
    dit = Dit(
        text_tokens=120, cross_attention=True, channels=config.whole("in_channels"), modulation="shared",
        patch=(1, patch, patch), guided=True, text_width=config.whole("caption_channels"),
    )  # fmt: skip
    return _dit(config, dit, config.whole("num_layers"))


_Forms = dict[str, Callable[[_Config], Architecture]]
_DECODERS: _Forms = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
_DITS: _Forms = {
    "FluxTransformer2DModel": _flux,
    "HunyuanVideoTransformer3DModel": _hunyuan,
    "WanTransformer3DModel": _wan,
    "QwenImageTransformer2DModel": _qwen_image,
    "CogVideoXTransformer3DModel": _cogvideo,
    "PixArtTransformer2DModel": _pixart,
}
