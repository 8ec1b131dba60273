"""The small decoder that ships: its text comes back, the cache changes nothing, wrong ids are refused."""

from __future__ import annotations

import doctest
import math
from collections.abc import Iterator

import pytest
import torch

from mindlab.models import decoder
from mindlab.models.decoder import Cache, Decoder, continued, generate, load_decoder
from mindlab.models.layers import Block
from mindlab.models.moe import MoEDecoder, load_moe
from mindlab.models.tokens import encode, shipped_text
from mindlab.models.training import one_thread


@pytest.fixture(autouse=True, scope="module")
def thread() -> Iterator[None]:
    """One thread: on a busy machine two wait for each other at every small step."""
    with one_thread():
        yield


@pytest.fixture(scope="module", params=[load_decoder, load_moe], ids=["plain", "experts"])
def model(request: pytest.FixtureRequest) -> Decoder:
    """The weights that ship."""
    return request.param()


def bits_per_token(model: Decoder, ids: torch.Tensor) -> float:
    """How surprised the model is by ids (B, S), in bits for each token but the first."""
    with torch.no_grad():
        logits = model(ids[:, :-1])
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    return float(nats) / math.log(2)


def pieces(text: torch.Tensor, count: int, length: int) -> torch.Tensor:
    """Evenly spaced pieces of the ids (1, S), as (count, length)."""
    starts = torch.linspace(0, text.shape[1] - length, count).long()
    return torch.stack([text[0, start : start + length] for start in starts.tolist()])


def test_it_knows_its_text(model: Decoder) -> None:
    """Would catch weights that were not trained: without any knowledge one of 768 tokens takes 9.6 bits.

    A general compressor (bz2) needs 3.3 bits a byte for this text, 7.6 a token.
    """
    text = encode(shipped_text())
    assert bits_per_token(model, pieces(text, 16, 128)) < 2
    shuffled = text[:, torch.randperm(text.shape[1], generator=torch.Generator().manual_seed(0))]
    assert bits_per_token(model, pieces(shuffled, 16, 128)) > 9


@pytest.mark.parametrize("prompt", ["张量并行", "专家并行让", "Every rank", "A wrong"])
def test_the_continuation_is_no_noise(model: Decoder, prompt: str) -> None:
    """Would catch text that falls apart: most runs of 6 characters stand in what it learned."""
    whole = prompt + generate(model, prompt, 60).rstrip("\ufffd")  # the last character may be cut
    runs = [whole[at : at + 6] for at in range(len(whole) - 5)]
    known = sum(run in shipped_text() for run in runs) / len(runs)
    assert known > 0.8, whole


def test_the_cache_changes_nothing(model: Decoder) -> None:
    """Would catch a cache with positions from 0 again, or a mask that hides tokens from the new one."""
    ids = encode("Every rank holds")
    assert torch.equal(continued(model, ids, 30), continued(model, ids, 30, cached=False))
    cached = continued(model, ids, 20, temperature=1.0, seed=3)
    assert torch.equal(cached, continued(model, ids, 20, temperature=1.0, seed=3, cached=False))
    assert not torch.equal(cached, continued(model, ids, 20, temperature=1.0, seed=4))


@pytest.mark.parametrize("sizes", [[1] * 9, [4, 1, 1, 3], [9]])
@pytest.mark.parametrize("kind", [Decoder, MoEDecoder])
def test_logits_with_a_cache_token_by_token(kind: type[Decoder], sizes: list[int]) -> None:
    """Would catch a prefill in several pieces that reads its own pieces wrongly, at untrained weights too."""
    torch.manual_seed(0)
    fresh, ids, cache = kind(24, 6, 3, layers=3), torch.randint(768, (2, 9)), Cache()
    with torch.no_grad():
        logits = torch.cat([fresh(piece, cache) for piece in ids.split(sizes, 1)], 1)
        # float32 sums in another order
        torch.testing.assert_close(logits, fresh(ids), atol=1e-5, rtol=0)
    assert cache.length == 9 and cache.keys[2].shape == (2, 9, 3, 4)


def test_a_parallel_block_with_a_cache() -> None:
    """Would catch attention before the MLP in a block where they stand side by side."""
    torch.manual_seed(0)
    block, x = Block(24, 6, 2, parallel=True), torch.randn(2, 5, 24)
    with torch.no_grad():
        torch.testing.assert_close(decoder.cached_block(block, x, Cache(), 0), block(x), atol=1e-5, rtol=0)


def test_no_look_ahead() -> None:
    """Would catch a model that reads the token it should predict: it would learn to copy and write noise."""
    torch.manual_seed(0)
    fresh, ids = Decoder(), torch.randint(768, (1, 8))
    other = ids.clone()
    other[0, 5] = (ids[0, 5] + 1) % 768
    with torch.no_grad():
        assert torch.equal(fresh(ids)[:, :5], fresh(other)[:, :5])
        assert not torch.equal(fresh(ids)[:, 5:], fresh(other)[:, 5:])


def test_several_prompts_at_once(model: Decoder) -> None:
    """Would catch sequences of one batch that read each other."""
    ids = torch.cat([encode("Every rank"), encode("Each rank")])
    both = continued(model, ids, 10)
    assert torch.equal(both[1:], continued(model, ids[1:], 10))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.zeros(5, dtype=torch.int64), r"give whole numbers, \(batch, sequence\)"),
        (torch.zeros(1, 5), "give whole numbers"),
        (torch.tensor([[3, 768]]), "tokens lie between 0 and 767"),
        (torch.zeros(1, 17, dtype=torch.int64), "17 tokens do not fit a context of 16"),
    ],
)
def test_refused_ids(ids: torch.Tensor, words: str) -> None:
    """Would catch ids that fail somewhere inside torch, or positions that do not exist."""
    with pytest.raises(ValueError, match=words):
        Decoder(context=16)(ids)


def test_refused_generation() -> None:
    """Would catch a continuation that is cut short, or one from nothing."""
    fresh = Decoder(context=16)
    with pytest.raises(ValueError, match="17 tokens do not fit a context of 16"):
        generate(fresh, "0123456789", 8)
    with pytest.raises(ValueError, match="prompt is empty"):
        generate(fresh, "", 8)
    with pytest.raises(ValueError, match="temperature=-1"):
        generate(fresh, "a", 8, temperature=-1)
    assert generate(fresh, "a", 0) == ""


def test_examples() -> None:
    """Would catch an example in a docstring that is no longer true."""
    assert doctest.testmod(decoder, extraglobs={"torch": torch}).failed == 0


def test_a_temperature_that_is_no_number_is_refused() -> None:
    """NaN passes a test for below 0, and every share of the next token is NaN."""
    model = load_decoder()
    with pytest.raises(ValueError, match="temperature=nan"):
        continued(model, torch.zeros(1, 3, dtype=torch.int64), 1, temperature=float("nan"))
