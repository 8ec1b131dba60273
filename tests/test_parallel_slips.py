"""Slips that gave wrong numbers without a word, in decoding from shards and in tiles."""

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import mindlab as ml
from mindlab.models.decoder import load_decoder
from mindlab.parallel.blending import decode_blended
from mindlab.parallel.cache import ShardedCache
from mindlab.parallel.decode import decode_attention
from mindlab.parallel.generation import decode_step, generate_sharded, new_caches, prefill
from mindlab.parallel.receptive import looking_around, receptive_field
from mindlab.parallel.tiles import decode_tiled, join_tiles, split_tiles


@pytest.mark.parametrize("dim", [1, 5])
def test_half_precision_with_an_odd_head(dim: int) -> None:
    """The LSE of one row viewed as float32 at an odd place: a rank died, and the other waited."""
    q, k = torch.ones(1, 1, 1, 4), torch.ones(1, 2, 1, 4)
    v = torch.arange(2 * dim).view(1, 2, 1, dim).bfloat16()

    def decode() -> Tensor:
        mine = slice(dist.get_rank(), None, 2)
        return decode_attention(q.bfloat16(), k[:, mine].bfloat16(), v[:, mine])

    for value in ml.launch(decode, ranks=2).values:
        assert torch.allclose(value.float(), v.float().mean(1, keepdim=True), atol=0.02)


def test_one_new_token_a_request() -> None:
    """Two tokens at one position that see each other, or one token given to every request."""
    model = load_decoder().requires_grad_(False)

    def two(shape: tuple[int, int]) -> None:
        decode_step(model, torch.zeros(shape, dtype=torch.int64), new_caches(model, 2, 8))

    for shape in ((2, 2), (1, 1)):
        with pytest.raises(ml.MindlabError, match=r"give one new token a request, \(2, 1, …\)"):
            ml.launch(two, shape, ranks=2)
    for shape in ((2, 3), (1, 0)):
        with pytest.raises(ml.MindlabError, match="give one prompt of one token at least"):
            ml.launch(lambda: prefill(model, torch.zeros(shape, dtype=torch.int64)), ranks=2)  # noqa: B023
    with pytest.raises(ml.MindlabError, match="give a list of prompts, also for one"):
        ml.launch(lambda: generate_sharded(model, "张量并行", 2), ranks=2)


def test_requests_and_lengths_are_whole_numbers() -> None:
    """A mask taken for numbers, equal tensors for different ones, 1.7 keys for one."""

    def append(requests: object) -> None:
        cache = ShardedCache(2, 4, 1, (1,))
        cache.append(torch.ones(2, 1, 1, 1), requests=requests)  # type: ignore[arg-type]

    for requests in ([True, False], torch.tensor([0, 0]), [0.5, 1]):
        with pytest.raises(ml.MindlabError, match="give whole numbers from 0 to 1, as a list"):
            ml.launch(append, requests, ranks=2)
    x = torch.ones(2, 3, 1, 4)
    for lengths in ([1.7, 2.9], "12", [True, False]):
        with pytest.raises(ml.MindlabError, match=r"lengths=.* does not fit: 2 requests"):
            ml.launch(lambda: decode_attention(x[:, :1], x, x, lengths=lengths), ranks=2)  # type: ignore[arg-type]  # noqa: B023


def test_a_layer_that_grows_between_norms_is_refused() -> None:
    """20 rows made of 16, of which 15 were taken for a tile's 12: statistics of rows that are no one's."""
    layers = [nn.Conv2d(4, 4, (5, 1), padding=(4, 0)), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, (5, 1))]
    decoder = nn.Sequential(*layers).requires_grad_(False)
    latent = torch.randn(1, 4, 24, 6)

    def tiled() -> Tensor:
        return decode_tiled(decoder, split_tiles(latent, (2, 1))[dist.get_rank()])

    with pytest.raises(ml.MindlabError, match="a layer makes 20 pixels of 16"):
        ml.launch(tiled, ranks=2)


def test_blending_keeps_the_steps_of_strides() -> None:
    """A tile that begins at an odd row of a network that strides by two: another picture."""
    decoder = nn.Sequential(nn.Conv2d(2, 2, 3, stride=2, padding=1), nn.Upsample(scale_factor=2))
    decoder.requires_grad_(False)
    latent = torch.randn(1, 2, 12, 6)

    def blended(decoder: nn.Module) -> Tensor:
        return decode_blended(decoder, split_tiles(latent, (2, 1))[dist.get_rank()], overlap=2)

    parts = ml.launch(blended, decoder, ranks=2).values
    assert (join_tiles(parts, (2, 1)) - decoder(latent)).abs().max() < 0.5
    grows = nn.Conv2d(2, 2, 3, padding=2).requires_grad_(False)
    with pytest.raises(ml.MindlabError, match="no whole multiple of its input"):
        ml.launch(blended, grows, ranks=2)


class Stacked(nn.Module):
    """As decoders of libraries are made: blocks in a list, and a convolution of a class of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def test_parts_in_a_list_are_parts() -> None:
    """A list of modules asked for its halo, or dims read off the name of a class."""
    decoder = Stacked().requires_grad_(False)
    assert [type(part) for part, _ in looking_around(decoder)] == [nn.Conv2d, nn.Conv2d]
    latent = torch.randn(1, 2, 8, 5)

    def tiled() -> Tensor:
        return decode_tiled(decoder, split_tiles(latent, (2, 1))[dist.get_rank()], exchange="layer")

    whole = join_tiles(ml.launch(tiled, ranks=2).values, (2, 1))
    assert torch.allclose(whole, decoder(latent), atol=1e-5)

    class Convolution(nn.Conv3d):
        pass

    assert receptive_field(Convolution(2, 2, 3, padding=1)).sides == ((1, 1),) * 3
