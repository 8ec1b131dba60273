"""The work and the memory of whole models against worked examples that others published."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import mindlab as ml
from mindlab.book.mathml import mathml
from mindlab.models.decoder import Decoder
from mindlab.models.digits import DigitsModel
from mindlab.predict.quantity import Quantity


def whole(terms: dict[str, Quantity]) -> float:
    return float(sum(term.value for term in terms.values()))


@pytest.mark.parametrize(
    ("name", "tokens", "flop"),
    [("wan2.1-14b", 75_600, 6.523e15), ("hunyuan-video", 119_056, 1.207e16), ("flux.1-dev", 4608, 7.44e13)],
)
def test_one_pass_of_a_diffusion_transformer(name: str, tokens: int, flop: float) -> None:
    """Cross attention forgotten, an MLP counted once where there are two streams, pairs halved."""
    terms = ml.flops.dit_terms(ml.architecture(name), tokens)
    assert whole(terms) == pytest.approx(flop, rel=1e-3)
    assert whole(ml.flops.dit_terms(ml.architecture(name), tokens, batch=2)) == 2 * whole(terms)


def test_the_share_of_attention() -> None:
    """The whole right, its parts in the wrong boxes: 86.6 % of a HunyuanVideo step is attention."""
    terms = ml.flops.dit_terms(ml.architecture("hunyuan-video"), 119_056)
    assert terms["attention"].value / whole(terms) == pytest.approx(0.866, abs=1e-3)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "qwen2.5-72b"])
def test_a_token_costs_two_flop_a_parameter(name: str) -> None:
    """Experts that all work, or none, a layer too many: with one position attention is next to nothing."""
    model = ml.architecture(name)
    met = model.active_parameters().value - model.vocabulary * model.hidden  # the embedding is looked up
    assert whole(ml.flops.decode_terms(model, 1)) == pytest.approx(2 * met, rel=2e-3)
    assert whole(ml.flops.prefill_terms(model, 1)) == pytest.approx(2 * met, rel=2e-3)


def test_a_prompt_sees_each_pair_once() -> None:
    """Attention of a prompt without the mask: twice the work."""
    model = ml.architecture("llama-3.1-8b")
    pairs = 4096 * 4097 / 2
    assert ml.flops.prefill_terms(model, 4096)["attention"].value == 4 * pairs * 32 * 128 * 32
    assert ml.flops.prefill_terms(model, 4096)["logits"].value == 2 * 4096 * 128_256


def test_latents_are_read_as_they_lie() -> None:
    """Decoding with latent attention counted with the widths of the prefill."""
    model = ml.architecture("deepseek-v3")
    assert ml.flops.decode_terms(model, 100)["attention"].value == 2 * 100 * 128 * (2 * 512 + 64) * 61
    assert ml.flops.prefill_terms(model, 1)["attention"].value == 2 * 128 * (192 + 128) * 61


def test_the_other_kinds_terms_are_refused() -> None:
    """A decoder's pass of a diffusion transformer, counted with a vocabulary of 0."""
    with pytest.raises(ValueError, match="ask for dit_terms"):
        ml.flops.prefill_terms(ml.architecture("flux.1-dev"), 8)
    with pytest.raises(ValueError, match="ask for prefill_terms"):
        ml.flops.dit_terms(ml.architecture("llama-3.1-8b"), 8)


def test_weights_over_ranks_add_up() -> None:
    """Norms cut as well, experts cut twice, a pipeline that keeps the whole model on each stage."""
    for name in ("llama-3.1-70b", "deepseek-v3", "wan2.1-14b"):
        model = ml.architecture(name)
        one = ml.memory.model_weights(model).value
        assert one == 2 * model.parameters().value
        assert ml.memory.model_weights(model, pipeline=4).value == one / 4
        eight = ml.memory.model_weights(model, tensor=8).value
        assert one / 8 < eight < one / 8 * 1.4
    moe = ml.architecture("deepseek-v3")
    assert ml.memory.model_weights(moe, expert=8).value < 0.15 * ml.memory.model_weights(moe).value


def test_what_a_card_holds() -> None:
    """A cache that does not shrink by position, key-value heads cut too far, one buffer for two."""
    model = ml.architecture("llama-3.1-70b")
    alone = ml.memory.model_terms(model, tokens=4096, batch=4, communicators=2)
    assert alone["kv_cache"].value == 4 * 4096 * 327_680
    assert alone["communicators"].value == 2 * 2 * 200e6
    shared = ml.memory.model_terms(model, tokens=4096, batch=4, tensor=16)
    assert shared["kv_cache"].value == alone["kv_cache"].value / 8  # 8 key-value heads for 16 ranks
    by_position = ml.memory.model_terms(model, tokens=4096, batch=4, context=16)
    assert by_position["kv_cache"].value == alone["kv_cache"].value / 16
    longer = ml.memory.model_terms(model, tokens=4096, generated=4096, batch=4)
    assert longer["kv_cache"].value == 2 * alone["kv_cache"].value
    cut = ml.memory.model_terms(model, tokens=4096, tensor=8, sequence_parallel=True)["activations"]
    whole_hidden = ml.memory.model_terms(model, tokens=4096, tensor=8)["activations"]
    assert whole_hidden.value - cut.value == 4096 * 2 * 2 * 8192 * 7 / 8


def test_the_decoder_of_stable_diffusion() -> None:
    """A level, an up-sampling convolution or the middle forgotten: chapter 11 lists them one by one."""
    listed = [
        (1, 4, 512, 1), (1, 512, 512, 10), (2, 512, 512, 7), (4, 512, 512, 1), (4, 512, 256, 1),
        (4, 256, 256, 5), (8, 256, 256, 1), (8, 256, 128, 1), (8, 128, 128, 5), (8, 128, 3, 1),
    ]  # fmt: skip
    assert [tuple(one) for one in ml.flops.vae_convolutions()] == listed
    each = sum(18 * ins * outs * scale**2 * count for scale, ins, outs, count in listed)
    assert ml.flops.vae_decoder(128, 64).value == 128 * 64 * each
    with pytest.raises(ValueError, match=r"channels\[1\]=0"):
        ml.flops.vae_decoder(8, 8, channels=(4, 0))


def test_the_roofline_has_two_sides() -> None:
    """The sum in place of the longer, or the sides exchanged."""
    model, machine = ml.architecture("llama-3.1-8b"), {"rate": 1e14, "memory_rate": 1e12}
    token = whole(ml.flops.decode_terms(model, 4096))
    read = ml.memory.model_weights(model).value
    assert ml.seconds.roofline(token, read, **machine).value == read / 1e12
    prompt = whole(ml.flops.prefill_terms(model, 4096))
    assert ml.seconds.roofline(prompt, read, **machine).value == prompt / 1e14
    with pytest.raises(ValueError, match="memory_rate=0"):
        ml.seconds.roofline(1, 1, rate=1, memory_rate=0)


def test_sums_are_of_all_parts() -> None:
    """A part that is counted but not summed, or a batch that only some parts know."""
    model, video = ml.architecture("deepseek-v3"), ml.architecture("wan2.1-14b")
    for total, terms, which, length in (
        (ml.flops.prefill, ml.flops.prefill_terms, model, 300),
        (ml.flops.decode_step, ml.flops.decode_terms, model, 300),
        (ml.flops.dit_pass, ml.flops.dit_terms, video, 300),
    ):
        assert (
            total(which, length, 3).value == whole(terms(which, length, 3)) == 3 * total(which, length).value
        )


def linear_work(model: torch.nn.Module, *inputs: torch.Tensor) -> int:
    """What torch counts in linear layers; attention is one operation that it does not count on a CPU."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*inputs)
    return int(counter.get_flop_counts()["Global"][torch.ops.aten.addmm])


def test_torch_counts_as_much() -> None:
    """A matrix twice or not at all, biases taken for matrices: against torch's count of the real models."""
    ids = torch.zeros(1, 32, dtype=torch.int64)
    terms = ml.flops.prefill_terms(ml.architecture("mindlab-decoder"), 32)
    all_logits = 32 * terms["logits"].value  # a prompt's pass needs those of its last position only
    assert linear_work(Decoder(), ids) == terms["projections"].value + terms["mlp"].value + all_logits
    inputs = torch.zeros(1, 1, 8, 8), torch.ones(1), torch.zeros(1, dtype=torch.int64)
    terms = ml.flops.dit_terms(ml.architecture("mindlab-digits"), 16)
    around = 2 * 64 * 64 * (2 + 4) + 2 * 2 * 16 * 4 * 64  # time, a condition a block; patches in and out
    assert linear_work(DigitsModel(), *inputs) == whole(terms) - terms["attention"].value + around


def test_memory_of_models_is_told_with_its_formula() -> None:
    """A formula that no page can set, a term without a source, work on numbers that cannot be."""
    for name, more in (
        ("deepseek-v3", {"expert": 8, "generated": 4}),
        ("flux.1-dev", {}),
        ("llama-2-7b", {}),
    ):
        model = ml.architecture(name)
        terms = ml.memory.model_terms(model, tokens=64, tensor=2, communicators=1, **more)
        work = (ml.flops.dit_terms if model.dit else ml.flops.decode_terms)(model, 64)
        for term in (*terms.values(), *work.values(), model.parameters(), model.active_parameters()):
            assert term.name and term.source and mathml(term.formula)
    for change in ({"tokens": 0}, {"batch": -1}, {"tensor": 2.5}, {"buffer": -1}, {"context": True}):
        with pytest.raises(ValueError, match=f"{next(iter(change))}=.*: give a whole number"):
            ml.memory.model_terms(ml.architecture("llama-2-7b"), **{"tokens": 8, **change})


def test_what_a_model_has_not_cannot_be_spread() -> None:
    """Experts of a dense model, empty stages, words from a model of pictures: in silence."""
    for name, change, words in (
        ("llama-2-7b", {"expert": 8}, "expert=8: llama-2-7b has no experts"),
        ("mixtral-8x7b", {"expert": 16}, "expert=16: mixtral-8x7b has 8"),
        ("llama-2-7b", {"pipeline": 33}, "pipeline=33 stages for 32 layers"),
        ("flux.1-dev", {"generated": 1}, "flux.1-dev writes no tokens"),
    ):
        with pytest.raises(ValueError, match=words):
            ml.memory.model_terms(ml.architecture(name), tokens=8, **change)


def test_activations_of_the_widest_half() -> None:
    """Latent heads with equally wide keys and values, one expert for two, half of a single block."""
    latent = ml.memory.model_terms(ml.architecture("deepseek-v3"), tokens=1)["activations"]
    assert latent.value == 2 * (2 * 7168 + 2 * 128 * (192 + 128))
    single = ml.memory.model_terms(ml.architecture("flux.1-dev"), tokens=1)["activations"]
    assert single.value == 2 * (2 * 3072 + 4 * 3072 + 2 * 12288)
    sparse = ml.memory.model_terms(ml.architecture("mixtral-8x7b"), tokens=1)["activations"]
    assert sparse.value == 2 * (2 * 4096 + 3 * 2 * 14336)


def test_stages_hold_their_own_layers() -> None:
    """An embedding on every stage, dense layers or double blocks spread evenly: cards fuller than told."""
    llama = ml.architecture("llama-3.1-8b")
    table = 2 * llama.vocabulary * llama.hidden
    first, middle, last = ml.memory.model_weights(llama, pipeline=3).by_rank(3)
    layer = (2 * llama.parameters().value - 2 * table) / 32
    assert first - table == pytest.approx(11 * layer, rel=1e-4) == middle
    assert last - table == pytest.approx(10 * layer, rel=1e-4)
    tied = ml.memory.model_weights(replace(llama, tied=True), pipeline=3).by_rank(3)
    assert tied == (first, middle, last)  # the last stage cannot do without the table
    dense, sparse = ml.memory.model_weights(
        replace(ml.architecture("deepseek-v3"), layers=6), pipeline=2
    ).per_rank
    experts = 2 * 3 * 256 * 3 * 7168 * 2048
    assert dense < sparse and experts < sparse < 1.1 * experts
    flux = ml.memory.model_weights(ml.architecture("flux.1-dev"), pipeline=3).per_rank
    assert flux[1] == pytest.approx(flux[2], rel=0.02) and flux[0] > 2 * flux[1]
    for name in (
        "deepseek-v3",
        "mixtral-8x7b",
        "wan2.1-14b",
        "hunyuan-video",
        "cogvideox-5b",
        "mindlab-digits",
    ):
        model = ml.architecture(name)
        for stages in (1, 2, 4):
            held = ml.memory.model_weights(model, pipeline=stages)
            assert sum(held.by_rank(stages)) == pytest.approx(2 * model.parameters().value, rel=1e-12)
