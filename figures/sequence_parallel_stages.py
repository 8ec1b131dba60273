"""A block between sequence and tensor shards: what each of two ranks holds, from norm to norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

import mindlab as ml
from mindlab.draw import labels, stages
from mindlab.draw.picture import figure_of

RANKS = 2

ALT = {
    "en": "A transformer block with sequence and tensor parallel on two ranks, stage by stage. Norm: each "
    "rank has its half of the sequence, all features. All-gather. Attention: all positions, half of "
    "the heads. Its output: on each rank a term of the sum, of full size. Reduce-scatter. Residual and "
    "norm: half of the sequence again. All-gather. MLP: all positions, half of the features. Its "
    "output: a term on each rank. Reduce-scatter. Residual: half of the sequence.",
    "zh": "两张卡上同时使用序列并行与张量并行的一个 Transformer 块，逐阶段。归一化：每张卡持有一半序列、全部"
    "特征。AllGather。注意力：全部位置、一半的头。其输出：每张卡一份完整大小的部分和。ReduceScatter。残"
    "差与归一化：又是一半序列。AllGather。MLP：全部位置、一半的特征。其输出：每张卡一份部分和。"
    "ReduceScatter。残差：一半序列。",
}

TITLE = {
    "en": "Sequence shards around the norms, tensor shards inside attention and MLP",
    "zh": "归一化处按序列分片，注意力与 MLP 内按张量分片",
}
NAMES = {
    "en": ("norm", "attention", "attention's output", "residual, norm", "MLP", "MLP's output", "residual"),
    "zh": ("归一化", "注意力", "注意力的输出", "残差与归一化", "MLP", "MLP 的输出", "残差"),
}


def experiment() -> list[tuple[int, ...]]:
    """The shapes that this rank meets on its way through a block, in order."""
    import torch
    import torch.distributed as dist

    from mindlab.models.layers import Block
    from mindlab.parallel.sequence import SequenceParallelBlock

    met: list[tuple[int, ...]] = []

    def note(layer: Any, given: Any, out: torch.Tensor) -> None:
        met.append(tuple(out.shape))

    def noted(partial: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def call(x: torch.Tensor) -> torch.Tensor:
            out = partial(x)
            note(None, None, out)
            return out

        return call

    torch.manual_seed(0)
    block, x = SequenceParallelBlock.from_full(Block(32, heads=4, inner=64)), torch.randn(1, 8, 32)
    for layer in (block.norm1, block.attention.q, block.norm2, block.mlp.up):
        layer.register_forward_hook(note)
    block.attention.partial = noted(block.attention.partial)
    block.mlp.partial = noted(block.mlp.partial)
    out = block(x.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()])
    return [*met, tuple(out.shape)]


def draw(language: str = "en") -> Figure:
    """The Figure: seven stages with the calls between them."""
    run = ml.launch(experiment, ranks=RANKS)
    dims = ("sequence", "heads", "sum", "sequence", "hidden", "sum", "sequence")
    shown: list[Any] = []
    for name, dim, shapes in zip(NAMES[language], dims, zip(*run.values, strict=True), strict=True):
        shown.append((name, dim, [shape[1 if dim == "sequence" else 2] for shape in shapes]))
        shown.append({"sequence": "AllGather", "sum": "ReduceScatter"}.get(dim, ""))
    said = labels.say("from_run", language, ranks=run.ranks, backend=run.backend)
    ax = stages([one for one in shown[:-1] if one], title=TITLE[language], provenance=said, language=language)
    return figure_of(ax)
