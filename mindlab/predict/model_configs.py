"""Reads the config.json of a model, in the usual formats, into an Architecture.

Of language models by `model_type`: llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, deepseek_v2,
deepseek_v3. Of diffusion transformers by diffusers' `_class_name`: `dit_configs`. What a config leaves out is
what the library takes there; what would be counted wrong is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mindlab.errors import MindlabError
from mindlab.predict.architectures import Architecture, Experts, Latent
from mindlab.predict.config_fields import Config
from mindlab.predict.dit_configs import DITS


def read_file(path: Path) -> Architecture:
    """The Architecture in a config.json. Raises MindlabError that names file and field."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MindlabError(f"{path}: {error.strerror}: give the path of a model's config.json") from None
    except UnicodeDecodeError as error:
        raise MindlabError(f"{path.name}: this is no text in UTF-8: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise MindlabError(f"{path.name}, line {error.lineno}: this is no JSON: {error.msg}") from None
    if not isinstance(config, dict):
        raise MindlabError(f"{path.name}: a config is a mapping of names to values, not {config!r:.40}")
    return read(config, path.name)


def read(config: Mapping[str, Any], where: str) -> Architecture:
    """The Architecture that a config describes; `where` names it in errors."""
    fields = Config(config, where)
    for key, forms in (("model_type", _DECODERS), ("_class_name", DITS)):
        if key in config:
            kind = config[key]
            if not isinstance(kind, str) or kind not in forms:
                raise MindlabError(
                    f"{where}, {key}: {kind!r} is not known; known: {', '.join(sorted(forms))}"
                )
            try:
                return forms[kind](fields)
            except ValueError as error:  # fields that are right one by one, but not together
                raise MindlabError(f"{where}: {error}") from None
    raise MindlabError(f"{where}: it has neither 'model_type' nor '_class_name'; a model's config has one")


def _decoder(config: Config, **more: Any) -> Architecture:
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    if hidden % heads and config.fields.get("head_dim") is None:
        raise MindlabError(f"{config.where}: hidden_size={hidden} does not split into {heads} heads")
    common: dict[str, Any] = {
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


def _name(config: Config) -> str:
    given = config.fields.get("_name_or_path") or config.fields.get("model_type") or config.where
    return str(given).rsplit("/", maxsplit=1)[-1]


def _llama(config: Config) -> Architecture:
    config.only("mlp_bias", (False,), "the biases of its MLP are not counted")
    return _decoder(config, **_attention_bias(config))


def _attention_bias(config: Config) -> dict[str, bool]:
    """All four matrices of attention, or none."""
    bias = config.has("attention_bias")
    return {"qkv_bias": bias, "output_bias": bias}


def _qwen2(config: Config) -> Architecture:
    return _decoder(config, qkv_bias=True)


def _qwen3(config: Config) -> Architecture:
    return _decoder(config, qk_norm=True, **_attention_bias(config))


def _mixtral(config: Config) -> Architecture:
    experts = Experts(
        config.whole("num_local_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("intermediate_size"),
    )
    return _decoder(config, experts=experts)


def _qwen3_moe(config: Config) -> Architecture:
    config.only("decoder_sparse_step", (1,), "every layer has to have experts")
    config.only("mlp_only_layers", ([],), "every layer has to have experts")
    experts = Experts(
        config.whole("num_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("moe_intermediate_size"),
    )
    return _decoder(config, experts=experts, qk_norm=True, **_attention_bias(config))


def _deepseek(config: Config) -> Architecture:
    config.only("moe_layer_freq", (1,), "every layer after the first dense ones has to have experts")
    config.only("attention_bias", (False,), "the biases around latents are not counted")
    nope, rope = config.whole("qk_nope_head_dim"), config.whole("qk_rope_head_dim")
    latent = Latent(
        kv_rank=config.whole("kv_lora_rank"),
        q_rank=config.whole("q_lora_rank", default=0, least=0),
        rope_dim=rope,
        nope_dim=nope,
        value_dim=config.whole("v_head_dim"),
    )
    experts = Experts(
        config.whole("n_routed_experts"),
        config.whole("num_experts_per_tok"),
        config.whole("moe_intermediate_size"),
        shared=config.whole("n_shared_experts", default=0, least=0),
        dense_layers=config.whole("first_k_dense_replace", default=0, least=0),
        bias=config.fields["model_type"] == "deepseek_v3",
    )
    return _decoder(config, experts=experts, latent=latent, head_dim=nope + rope)


_Forms = dict[str, Callable[[Config], Architecture]]
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
