"""Text from a sharded cache: token for token that of one card; bytes of prefill, layout and decode."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.decoder import Decoder, generate, load_decoder
from mindlab.models.layers import Block
from mindlab.models.moe import load_moe
from mindlab.models.tokens import encode
from mindlab.models.training import one_thread
from mindlab.parallel import generation
from mindlab.parallel.generation import (
    decode_step,
    fill,
    generate_sharded,
    new_caches,
    prefill,
    split_heads,
)
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.predict.gloo import gloo_broadcast

PROMPTS = ["张量并行", "Every rank holds", "A"]  # 4, 16 and 1 tokens: one with fewer than ranks


@pytest.fixture(autouse=True, scope="module")
def thread() -> Iterator[None]:
    """One thread: on a busy machine two wait for each other at every small step."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model() -> Decoder:
    """The weights that ship."""
    return load_decoder().requires_grad_(False)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_text_of_one_card(model: Decoder, ranks: int) -> None:
    """Would catch positions counted in the shard, a token stored twice, a prompt's keys in wrong places."""

    def write() -> Any:
        texts = [generate_sharded(model, PROMPTS, 40), generate_sharded(model, PROMPTS, 12, block=4)]
        if ranks != 3:  # four heads
            texts.append(generate_sharded(model, PROMPTS[1:], 9, attend=ulysses_attention, block=40))
        return texts

    right = [generate(model, prompt, 40) for prompt in PROMPTS]
    for texts in ml.launch(write, ranks=ranks).values:
        assert texts[0] == right
        assert texts[1] == [generate(model, prompt, 12) for prompt in PROMPTS]
        assert ranks == 3 or texts[2] == [generate(model, prompt, 9) for prompt in PROMPTS[1:]]


def test_the_text_of_a_mixture_of_experts() -> None:
    """Would catch a block's MLP taken for that of a plain decoder."""
    made = load_moe().requires_grad_(False)
    right = [generate(made, prompt, 20) for prompt in PROMPTS]
    for texts in ml.launch(generate_sharded, made, PROMPTS, 20, ranks=3).values:
        assert texts == right


@pytest.mark.parametrize("shape", [(2, 2), (2, 1)])
def test_heads_and_cache_on_two_axes(model: Decoder, shape: tuple[int, int]) -> None:
    """Would catch a collective on all ranks instead of one axis, a cache for all heads on every rank."""

    def write() -> Any:
        mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("tensor", "cache"))
        split = split_heads(model, mesh.get_group("tensor"))
        group = mesh.get_group("cache")
        kv_heads = {cache.shard[0].shape[2] for cache in new_caches(split, 1, 4, group=group)}
        return generate_sharded(split, PROMPTS, 20, group=group), kv_heads

    for texts, kv_heads in ml.launch(write, ranks=shape[0] * shape[1]).values:
        assert texts == [generate(model, prompt, 20) for prompt in PROMPTS] and kv_heads == {1}
    assert type(model.blocks[0]) is Block


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bytes_of_each_phase(model: Decoder, ranks: int) -> None:
    """Would catch one byte that is not in a formula: prefill, change of layout, a decode step."""
    ids, layers, kv, dim, heads = encode(PROMPTS[1]), 4, 2, 16, 4
    length = ids.shape[1]

    def first() -> Any:
        return prefill(model, ids)

    def change() -> Any:
        part = torch.ones(1, length, kv, dim).tensor_split(ranks, 1)[dist.get_rank()]
        fill(new_caches(model, 1, length + 1), 0, [(part, part)] * layers, length)

    def step() -> Any:
        caches = new_caches(model, 3, 9)
        for _ in range(5):
            decode_step(model, torch.full((3, 1), 7), caches)

    e = {"itemsize": 4}
    ring = ml.volume.ring_attention(1, length, kv, dim, ranks, **e)
    layout = ml.volume.decode_layout(1, length, kv, dim, ranks, layers=layers, **e)
    merges = ml.volume.decode_attention(3, heads, dim, ranks, layers=layers, **e)
    token = gloo_broadcast(8, ranks, itemsize=8)
    for work, sent in (
        (first, [layers * n for n in ring.by_rank(ranks)]),
        (change, list(layout.by_rank(ranks))),
        (step, [5 * n for n in merges.by_rank(ranks)]),
    ):
        run = ml.launch(work, ranks=ranks)
        if run.wire is None or run.wire.payload is None:
            pytest.skip(run.why_no_wire or "the payload cannot be told")
        got = run.wire.payload.sum(axis=1).tolist()
        if work is first:  # and one token from the last rank to all, in a tree whose root is not rank 0
            assert sum(got) == sum(sent) + ranks * float(token)
            assert all(0 <= n - m <= 8 * ranks for n, m in zip(got, sent, strict=True))
        else:
            assert got == sent, work.__name__


def test_logits_of_one_card_and_work(model: Decoder) -> None:
    """Would catch logits that agree in the greatest only, and reading that does not shrink with p."""
    torch.manual_seed(0)
    ids, made = torch.randint(768, (2, 9)), Decoder(24, 6, 3, layers=2).requires_grad_(False)

    def steps() -> Any:
        caches = new_caches(made, 2, 9, block=2)
        return torch.cat([decode_step(made, ids[:, at : at + 1], caches) for at in range(9)], 1)

    read = {}
    for ranks in (1, 3):
        run = ml.launch(steps, ranks=ranks)
        for logits in run.values:
            # float32 sums in another order
            torch.testing.assert_close(logits, made(ids), atol=1e-5, rtol=0)
        read[ranks] = [
            sum(row.flop for row in run.work if row.rank == rank and row.what == "attention")
            for rank in range(ranks)
        ]
        linear = [row for row in run.work if row.rank == 0 and row.what == "linear"]
        assert len(linear) == 9 * 3 and all(row.nbytes > 0 for row in linear)
    assert sum(read[3]) == read[1][0] and max(read[3]) < read[1][0] / 2


def test_refusals(model: Decoder) -> None:
    """Would catch a context exceeded after half of the text, and an empty prompt that hangs."""

    def ask() -> Any:
        assert generate_sharded(model, ["A"], 0) == [""]
        assert len(generate_sharded(model, ["A"], 1)) == 1
        for prompts, tokens, message in (
            (["A"], 129, "129 tokens do not fit a context of 128"),
            (["A", ""], 3, r"prompts of \[1, 0\] tokens"),
            ([], 3, r"prompts of \[\] tokens"),
            (["A"], -1, "tokens=-1"),
        ):
            with pytest.raises(ValueError, match=message):
                generate_sharded(model, prompts, tokens)

    ml.launch(ask, ranks=2)


def test_examples() -> None:
    """Would catch an example that was right once."""
    done = doctest.testmod(generation, extraglobs={"ml": ml})
    assert done.attempted and not done.failed
