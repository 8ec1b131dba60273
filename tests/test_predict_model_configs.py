"""Configs against the libraries that they belong to, and refusals of what would be counted wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_predict_architectures import COGVIDEO, DEEPSEEK, FLUX, HUNYUAN, LLAMA, MIXTRAL, PIXART, WAN

import mindlab as ml

SMALL = {
    "num_hidden_layers": 3, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENTS = {
    **EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16, "v_head_dim": 24, "num_key_value_heads": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "counted"),
    [
        ({"model_type": "llama"}, 108_992),
        ({"model_type": "llama", "attention_bias": True}, 109_568),
        ({"model_type": "mistral"}, 108_992),
        ({"model_type": "qwen2"}, 109_376),
        ({"model_type": "qwen3", "head_dim": 32}, 146_048),
        ({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}, 275_648),
        ({"model_type": "qwen3_moe", "num_experts": 4, "head_dim": 16, **EXPERTS}, 128_288),
        ({"model_type": "deepseek_v2", **LATENTS, "n_shared_experts": 2, "q_lora_rank": None}, 158_704),
        ({"model_type": "deepseek_v3", **LATENTS, "n_shared_experts": 1, "q_lora_rank": 12}, 133_788),
    ],
)
def test_the_library_counts_as_many(config: dict[str, Any], counted: int) -> None:
    """A norm, a bias or a router that is not there, to the last number: what transformers 4.57.1 makes.

    DeepSeek-V3's 8 numbers that its routers add are buffers there, and among the 133,788 here.
    """
    assert ml.architecture({**SMALL, **config}).parameters().value == counted


@pytest.mark.parametrize(
    ("config", "counted", "left_out"),
    [
        (FLUX, 11_901_408_320, 0),
        (HUNYUAN, 12_821_012_544, 0),
        (WAN, 14_288_491_584, 0),
        (COGVIDEO, 5_570_283_072, 0),
        ({**COGVIDEO, "patch_size_t": 2}, 5_570_676_352, 0),
        (PIXART, 611_349_152, 493_056),
    ],
)
def test_diffusers_counts_as_many(config: dict[str, Any], counted: int, left_out: int) -> None:
    """As above, by diffusers 0.35.2. PixArt's embeddings of a size, 0.08 %, are known to be missing."""
    assert ml.architecture(config).parameters().value == counted - left_out


@pytest.mark.parametrize(
    ("config", "change", "words"),
    [
        (LLAMA, {"num_attention_heads": 0}, "num_attention_heads: 0 is no whole number from 1 on"),
        (LLAMA, {"num_hidden_layers": True}, "num_hidden_layers: True is no whole number"),
        (LLAMA, {"num_key_value_heads": 5}, "the config: kv_heads=5 cannot serve 32"),
        (LLAMA, {"model_type": []}, r"model_type: \[\] is not known"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias: True is not covered, only False"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "top_k=9 of 8 experts: choose 1 to 8"),
        (DEEPSEEK, {"first_k_dense_replace": 99}, "dense_layers=99 of 61"),
        (DEEPSEEK, {"moe_layer_freq": 2}, "moe_layer_freq: 2 is not covered, only 1"),
        (DEEPSEEK, {"model_type": "qwen3_moe", "num_experts": 4, "mlp_only_layers": [0]}, "mlp_only_layers"),
        (WAN, {"patch_size": 2}, "patch_size: 2 is no list of three whole numbers"),
        (WAN, {"patch_size": [1, 0, 2]}, r"patch_size: \[1, 0, 2\] is no list"),
        (WAN, {"in_channels": 48}, "in_channels: 48 is not covered, only 16"),
        (WAN, {"added_kv_proj_dim": 5120}, "added_kv_proj_dim: 5120 is not covered, only null"),
        (HUNYUAN, {"mlp_ratio": "4"}, "mlp_ratio: '4' is no number above 0"),
        (FLUX, {"num_layers": 0, "num_single_layers": 0}, "layers=0"),
        (FLUX, {"in_channels": 63}, "in_channels: 63 is no four channels"),
        (PIXART, {"norm_type": "layer_norm"}, "norm_type: 'layer_norm' is not covered"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    config: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    """A crash with a line of ours, or a number for a model that is another one."""
    with pytest.raises(ml.MindlabError, match=words):
        ml.architecture({**config, **change})


def test_fields_that_change_the_shape_are_read(tmp_path: Path) -> None:
    """An MLP's ratio or a head's width taken as usual where the config says otherwise; null taken for 0."""
    assert ml.architecture({**HUNYUAN, "mlp_ratio": 2.0}).inner == 2 * 3072
    assert ml.architecture({**LLAMA, "head_dim": None, "tie_word_embeddings": None}).head_dim == 128
    assert ml.architecture({**LLAMA, "head_dim": 64}).head_dim == 64
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ml.MindlabError, match=r"config\.json: this is no text in UTF-8"):
        ml.architecture(tmp_path / "config.json")
    with pytest.raises(ValueError, match="5 names no model: give a name"):
        ml.architecture(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="4 x 4 pixels are not one of the latent: give 8 x 8"):
        ml.architecture("wan2.1-14b").tokens(height=4, width=4)
    with pytest.raises(ValueError, match="frames=80: the VAE takes 1 and a multiple of 4: choose 77 or 81"):
        ml.architecture("wan2.1-14b").tokens(frames=80, height=720, width=1280)
    with pytest.raises(ValueError, match="height=725: the VAE takes a multiple of 8: choose 720 or 728"):
        ml.architecture("wan2.1-14b").tokens(frames=81, height=725, width=1280)
