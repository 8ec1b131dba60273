"""`mindlab bench parallel`: a tensor-parallel MLP, ring and Ulysses attention beside others' implementations.

Both run in the same processes, in turn, each first as often as the other, one thread a rank and nothing
recorded; both results are compared before the clock starts. One repetition takes as long as its slowest rank.
Beside seconds stands the ratio of processor time, which other programs on the machine change less.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import mindlab as ml
from mindlab.models.layers import MLP
from mindlab.parallel.attention import attention_with_lse
from mindlab.parallel.ring import ring_attention
from mindlab.parallel.tensor import ParallelMLP
from mindlab.parallel.ulysses import ulysses_attention
from mindlab.trace import recorder

SEQUENCE, HEADS, HEAD_DIM = 4096, 8, 64
HIDDEN, INNER = HEADS * HEAD_DIM, 4096
"""2 x 2 x SEQUENCE x HIDDEN x INNER FLOP, as many as the attention's 4 x SEQUENCE² x HIDDEN."""

_TIMEOUT = 900
Way = Callable[[], torch.Tensor]


class Spent(NamedTuple):
    """What one way took: seconds, and seconds of processor time in all threads of the rank."""

    seconds: float
    cpu: float


Contest = tuple[list[tuple[Spent, Spent]], str]
"""What ours and the peer's took, a pair a repetition; and who the peer is."""


def parallel(ranks: int, repeats: int) -> dict[str, Any]:
    """What `mindlab bench parallel` prints: medians and their ratios, on 2 and on `ranks` ranks."""
    result: dict[str, Any] = {}
    with ml.timing():
        for p in sorted({2, ranks}):
            for name, contest in CONTESTS.items():
                values = ml.launch(contest, repeats, ranks=p, timeout=_TIMEOUT).values
                result[f"{name}, {p} ranks"] = _row([pairs for pairs, _ in values], values[0][1])
    return result


def _row(by_rank: list[list[tuple[Spent, Spent]]], peer: str) -> dict[str, Any]:
    """Medians over the repetitions, each as long as its slowest rank took."""
    ours, theirs = (_median(by_rank, way) for way in (0, 1))
    return {
        "ours, s": ours.seconds,
        "peer's, s": theirs.seconds,
        "ours / peer's": ours.seconds / theirs.seconds,
        "processor time, ours / peer's": ours.cpu / theirs.cpu,
        "peer": peer,
    }


def _median(by_rank: list[list[tuple[Spent, Spent]]], way: int) -> Spent:
    rounds = [[pair[way] for pair in pairs] for pairs in zip(*by_rank, strict=True)]
    return Spent(
        statistics.median(max(spent.seconds for spent in ranks) for ranks in rounds),
        statistics.median(max(spent.cpu for spent in ranks) for ranks in rounds),
    )


def tensor_parallel_mlp(repeats: int, sequence: int = SEQUENCE) -> Contest:
    """In a rank: ParallelMLP beside torch's ColwiseParallel and RowwiseParallel."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    full, x = MLP(HIDDEN, INNER), torch.randn(1, sequence, HIDDEN)
    ours = ParallelMLP.from_full(full)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    theirs = parallelize_module(full, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})

    arrived: Any = importlib.import_module("torch.distributed._functional_collectives").wait_tensor

    def their_way() -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = arrived(theirs(x))  # DTensor's result may still be on its way
        return out

    return _in_turn(lambda: ours(x), their_way, repeats), "torch DTensor"


def ring(repeats: int, sequence: int = SEQUENCE) -> Contest:
    """In a rank: ring attention beside torch's own ring, both over torch's fused CPU kernel."""
    theirs: Any = importlib.import_module(
        "torch.distributed.tensor.experimental._context_parallel._attention"
    )

    q, k, v = _shards(sequence)
    sizes = [q.shape[1]] * dist.get_world_size()
    flipped = [x.transpose(1, 2) for x in (q, k, v)]  # torch's takes heads first: the same shards, seen so
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def op(*qkv: torch.Tensor, is_causal: bool) -> Any:
        return kernel(*qkv, 0.0, is_causal)

    def their_way() -> torch.Tensor:
        out: torch.Tensor = theirs._templated_ring_attention(dist.group.WORLD, 2, op, *flipped)[0]
        return out.transpose(1, 2)

    with _torchs_ring_options(theirs._cp_options, theirs._RotateMethod.ALL_TO_ALL):
        pairs = _in_turn(lambda: ring_attention(q, k, v, sizes=sizes), their_way, repeats)
    return pairs, "torch _templated_ring_attention"


def ulysses(repeats: int, sequence: int = SEQUENCE) -> Contest:
    """In a rank: Ulysses attention beside yunchang's where it is installed, else beside the list form."""
    q, k, v = _shards(sequence)
    sizes = [q.shape[1]] * dist.get_world_size()
    found = importlib.util.find_spec("yunchang") is not None
    their_way = _yunchang(q, k, v) if found else lambda: _list_form(q, k, v)
    pairs = _in_turn(lambda: ulysses_attention(q, k, v, sizes=sizes), their_way, repeats)
    return pairs, "yunchang UlyssesAttention" if found else "all_to_all of lists"


def overlap(repeats: int, sequence: int = SEQUENCE) -> Contest:
    """In a rank: ring attention that sends while it computes, beside the same that sends afterwards."""
    q, k, v = _shards(sequence)
    sizes = [q.shape[1]] * dist.get_world_size()
    pairs = _in_turn(
        lambda: ring_attention(q, k, v, sizes=sizes),
        lambda: ring_attention(q, k, v, sizes=sizes, overlap=False),
        repeats,
    )
    return pairs, "the same without overlap"


CONTESTS: dict[str, Callable[[int], Contest]] = {
    "tensor-parallel MLP": tensor_parallel_mlp,
    "ring attention": ring,
    "Ulysses attention": ulysses,
    "ring attention with overlap": overlap,
}


def _in_turn(ours: Way, theirs: Way, repeats: int) -> list[tuple[Spent, Spent]]:
    """In a rank: what both take, in turn; the first round is not counted. Raises where results differ."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with recorder.paused():
            torch.testing.assert_close(ours(), theirs(), atol=1e-5, rtol=1e-4)
            return [_round(ours, theirs, number) for number in range(repeats + 1)][1:]
    finally:
        torch.set_num_threads(threads)


def _round(ours: Way, theirs: Way, number: int) -> tuple[Spent, Spent]:
    """What both take; who goes first changes with `number`."""
    if number % 2:
        second = _timed(theirs)
        return _timed(ours), second
    return _timed(ours), _timed(theirs)


def _timed(way: Way) -> Spent:
    dist.barrier()
    began, cpu = time.perf_counter(), time.process_time()
    way()
    return Spent(time.perf_counter() - began, time.process_time() - cpu)


def _shards(sequence: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """This rank's equal shards of one q, k, v: (1, sequence / p, HEADS, HEAD_DIM)."""
    torch.manual_seed(0)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if sequence % ranks or HEADS % ranks:
        raise ValueError(
            f"ranks={ranks} does not split {sequence} positions and {HEADS} heads: use 2, 4 or 8"
        )
    q, k, v = (
        torch.randn(1, sequence, HEADS, HEAD_DIM).tensor_split(ranks, dim=1)[rank].clone() for _ in range(3)
    )
    return q, k, v


@contextlib.contextmanager
def _torchs_ring_options(options: Any, rotate: Any) -> Iterator[None]:
    """A block in which torch's ring passes blocks on by all-to-all and does not reorder the sequence."""
    before = options.rotate_method, options.enable_load_balance
    options.rotate_method, options.enable_load_balance = rotate, False
    try:
        yield
    finally:
        options.rotate_method, options.enable_load_balance = before


def _yunchang(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Way:
    """yunchang's UlyssesAttention over the local attention that ours has: it brings none for this case."""
    kinds: Any = importlib.import_module("yunchang.kernels")
    layers: Any = importlib.import_module("yunchang.ulysses.attn_layer")
    layer = layers.UlyssesAttention(dist.group.WORLD, attn_type=kinds.AttnType.TORCH_MATH)
    layer.attn_fn = lambda q, k, v, **_: attention_with_lse(q, k, v)

    def way() -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = layer(q, k, v)
        return out

    return way


def _list_form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Ulysses as most samples write it: chunks in lists, an all_to_all each, and cat."""
    there = [_exchanged(x, 2, 1) for x in (q, k, v)]
    return _exchanged(attention_with_lse(*there)[0], 1, 2)


def _exchanged(x: torch.Tensor, cut: int, join: int) -> torch.Tensor:
    pieces = [piece.contiguous() for piece in x.chunk(dist.get_world_size(), cut)]
    arrived = [torch.empty_like(piece) for piece in pieces]
    dist.all_to_all(arrived, pieces)
    return torch.cat(arrived, join)
