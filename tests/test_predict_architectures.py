"""Models on paper against what others print about them."""

import json
import re
from pathlib import Path

import pytest

import mindlab as ml
from mindlab.models.decoder import Decoder
from mindlab.models.digits import TOKENS, DigitsModel
from mindlab.models.moe import MoEDecoder
from mindlab.predict import architectures

LITTLE = {"mindlab-decoder": Decoder, "mindlab-moe": MoEDecoder, "mindlab-digits": DigitsModel}
SHIPPED = [ml.architecture(name) for name in architectures.names()]


@pytest.mark.parametrize("model", SHIPPED, ids=lambda model: model.name)
def test_the_counts_are_the_published_ones(model: architectures.Architecture) -> None:
    """A forgotten matrix, bias or embedding, a router too many, a cache of all heads: over 0.5 % off."""
    found = {
        "parameters": model.parameters,
        "active parameters": model.active_parameters,
        "kv bytes a token": model.kv_bytes_per_token,
    }
    assert model.published or model.name in LITTLE, "nothing to hold it against"
    for one in model.published:
        assert found[one.what]().value == pytest.approx(one.value, rel=0.005), one.source
        assert one.source and re.fullmatch(r"\d{4}-\d{2}-\d{2}", one.date)
    assert model.source


@pytest.mark.parametrize("name", LITTLE)
def test_the_little_models_are_the_real_ones(name: str) -> None:
    """A layer, a bias or a norm that the workbook's own models got or lost after they were described."""
    real, model = LITTLE[name](), ml.architecture(name)
    assert model.parameters().value == sum(tensor.numel() for tensor in real.parameters())
    block = real.blocks[0].attention
    assert (model.layers, model.heads, model.kv_heads) == (len(real.blocks), block.heads, block.kv_heads)
    if isinstance(real, DigitsModel):
        assert model.tokens(height=8, width=8) == TOKENS and model.dit is not None and model.dit.guided


def test_enough_models_are_held_against_something() -> None:
    """A data file whose published numbers were dropped: then the test above would compare nothing."""
    assert len(SHIPPED) >= 20 and sum(len(model.published) for model in SHIPPED) >= 24


@pytest.mark.parametrize(
    ("name", "size", "tokens"),
    [
        ("wan2.1-14b", {"frames": 81, "height": 720, "width": 1280}, 75_600),
        ("hunyuan-video", {"frames": 129, "height": 720, "width": 1280}, 119_056),
        ("hunyuan-video", {"frames": 209, "height": 720, "width": 1280}, 191_056),
        ("flux.1-dev", {"height": 1024, "width": 1024}, 4608),
        ("cogvideox-5b", {"frames": 49, "height": 480, "width": 720}, 17_776),
        ("cogvideox1.5-5b", {"frames": 161, "height": 768, "width": 1360}, 85_906),
        ("cogvideox1.5-5b", {"frames": 81, "height": 768, "width": 1360}, 45_106),
        ("pixart-alpha", {"height": 2048, "width": 2048}, 16_384),
    ],
)
def test_tokens_of_a_picture(name: str, size: dict[str, int], tokens: int) -> None:
    """Frames not counted from the first, text left out or counted twice, half patches dropped."""
    assert ml.architecture(name).tokens(**size) == tokens


def test_what_has_no_such_number_says_so() -> None:
    """A cache of a diffusion transformer, or the tokens of a decoder's picture."""
    with pytest.raises(ValueError, match="keeps no cache"):
        ml.architecture("flux.1-dev").kv_bytes_per_token()
    with pytest.raises(ValueError, match="writes text"):
        ml.architecture("llama-3.1-8b").tokens(height=64, width=64)
    with pytest.raises(ml.MindlabError, match="deepseek-v3, "):
        ml.architecture("llama")


LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_hidden_layers": 32, "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "num_hidden_layers": 61,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "vocab_size": 129280,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "num_key_value_heads": 128,
}  # fmt: skip
MIXTRAL = {
    **LLAMA,
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
}
QWEN2 = {
    **LLAMA, "model_type": "qwen2", "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 80,
    "intermediate_size": 29568, "vocab_size": 152064,
}  # fmt: skip
QWEN3 = {
    **LLAMA,
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "intermediate_size": 12288,
    "vocab_size": 151936,
}
HEADS = {"num_attention_heads": 24, "attention_head_dim": 128}
FLUX = {
    "_class_name": "FluxTransformer2DModel", **HEADS, "num_layers": 19, "num_single_layers": 38,
    "in_channels": 64, "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": True,
}  # fmt: skip
HUNYUAN = {
    "_class_name": "HunyuanVideoTransformer3DModel", **HEADS, "num_layers": 20, "num_single_layers": 40,
    "in_channels": 16, "patch_size": 2, "patch_size_t": 1, "text_embed_dim": 4096, "guidance_embeds": True,
    "pooled_projection_dim": 768, "num_refiner_layers": 2,
}  # fmt: skip
WAN = {
    "_class_name": "WanTransformer3DModel", "num_attention_heads": 40, "attention_head_dim": 128,
    "num_layers": 40, "ffn_dim": 13824, "in_channels": 16, "text_dim": 4096, "patch_size": [1, 2, 2],
}  # fmt: skip
QWEN_IMAGE = {
    "_class_name": "QwenImageTransformer2DModel", **HEADS, "num_layers": 60, "joint_attention_dim": 3584,
}  # fmt: skip
COGVIDEO = {
    "_class_name": "CogVideoXTransformer3DModel", "num_attention_heads": 48, "attention_head_dim": 64,
    "num_layers": 42, "patch_size": 2, "max_text_seq_length": 226, "text_embed_dim": 4096,
    "time_embed_dim": 512, "in_channels": 16,
}  # fmt: skip
PIXART = {
    "_class_name": "PixArtTransformer2DModel", "num_attention_heads": 16, "attention_head_dim": 72,
    "num_layers": 28, "patch_size": 2, "in_channels": 4, "caption_channels": 4096,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("llama-3.1-8b", LLAMA), ("deepseek-v3", DEEPSEEK), ("mixtral-8x7b", MIXTRAL), ("qwen2.5-72b", QWEN2),
        ("qwen3-8b", QWEN3), ("flux.1-dev", FLUX), ("hunyuan-video", HUNYUAN), ("wan2.1-14b", WAN),
        ("qwen-image", QWEN_IMAGE), ("cogvideox-5b", COGVIDEO), ("pixart-alpha", PIXART),
    ],
)  # fmt: skip
def test_a_config_is_the_shipped_model(name: str, config: dict[str, object], tmp_path: Path) -> None:
    """A field of a config that is read as another one, in any of the known formats."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    read, shipped = ml.architecture(path), ml.architecture(name)
    assert ml.architecture(tmp_path).parameters() == read.parameters() == shipped.parameters()
    assert read.active_parameters() == shipped.active_parameters()
    assert (read.layers, read.heads, read.kv_heads, read.inner) == (
        shipped.layers, shipped.heads, shipped.kv_heads, shipped.inner,
    )  # fmt: skip
    if shipped.dit is not None:
        size = {"height": 512, "width": 768, "frames": 1 if shipped.dit.vae_stride[0] == 1 else 17}
        assert read.tokens(**size) == shipped.tokens(**size) and read.dit is not None
        assert read.dit.values_per_token == shipped.dit.values_per_token


def test_a_config_that_is_not_right_is_named(tmp_path: Path) -> None:
    """A missing or odd field that becomes a default, an unknown kind that is read as another."""
    for change, words in (
        ({"hidden_size": None}, "config.json: the field 'hidden_size' is missing"),
        ({"hidden_size": 4095}, "does not split into 32 heads"),
        ({"num_hidden_layers": "32"}, "config.json, num_hidden_layers: '32'"),
        ({"model_type": "rwkv"}, "'rwkv' is not known; known: deepseek_v2"),
        ({"tie_word_embeddings": 1}, "neither true nor false"),
    ):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, **change}))
        with pytest.raises(ml.MindlabError, match=words.replace("(", r"\(")):
            ml.architecture(path)
    path.write_text("{")
    with pytest.raises(ml.MindlabError, match="line 1: this is no JSON"):
        ml.architecture(path)
    path.write_text("{}")
    with pytest.raises(ml.MindlabError, match="neither 'model_type' nor '_class_name'"):
        ml.architecture(path)
    with pytest.raises(ml.MindlabError, match=r"none\.json: No such file"):
        ml.architecture(tmp_path / "none.json")
