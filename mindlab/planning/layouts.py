"""Ways to lay a model over ranks: how many on each axis, which fit, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from mindlab.planning.workloads import Text, Workload
from mindlab.predict.architectures import Architecture
from mindlab.predict.heads import heads_per_rank
from mindlab.predict.meshes import Groups, places
from mindlab.predict.shapes import check_whole

AXES = ("data", "pipeline", "cfg", "ring", "ulysses", "kv", "tensor")
"""The axes that multiply, the outermost first: the ranks of the last one stand next to each other."""


@dataclass(frozen=True)
class Layout:
    """How many ranks share what. The axes multiply; `expert` deals experts over ranks that are there already.

    >>> Layout(cfg=2, ulysses=4).ranks, str(Layout(cfg=2, ulysses=4))
    (8, 'cfg 2 x ulysses 4')
    """

    data: int = 1
    """Replicas: each serves other requests."""
    pipeline: int = 1
    cfg: int = 1
    """1, or 2: the two passes of a guided step."""
    ring: int = 1
    ulysses: int = 1
    kv: int = 1
    """Ranks that share a cache by position, in decoding."""
    tensor: int = 1
    expert: int = 1
    order: tuple[str, ...] = AXES
    """The axes from the outermost to the innermost."""

    def __post_init__(self) -> None:
        check_whole(1, **self.sizes, expert=self.expert)
        if sorted(self.order) != sorted(AXES):
            raise ValueError(f"order={self.order!r}: name each axis once: {', '.join(AXES)}")

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis that multiplies, in the order AXES."""
        return {axis: getattr(self, axis) for axis in AXES}

    @property
    def ranks(self) -> int:
        """The product of the axes."""
        return prod(self.sizes.values())

    @property
    def context(self) -> int:
        """How many ranks share the positions of one sequence."""
        return self.ring * self.ulysses * self.kv

    def groups(self, *axes: str) -> Groups:
        """The groups of ranks that differ only in their places on these axes; of "expert": neighbours.

        >>> Layout(cfg=2, ulysses=2).groups("cfg"), Layout(cfg=2, ulysses=2).groups("ulysses")
        (((0, 2), (1, 3)), ((0, 1), (2, 3)))
        """
        if axes == ("expert",):
            experts = range(0, self.ranks, self.expert)
            return tuple(tuple(range(first, first + self.expert)) for first in experts)
        together: dict[tuple[int, ...], list[int]] = {}
        for rank, place in enumerate(places({axis: self.sizes[axis] for axis in self.order})):
            rest = tuple(at for name, at in place.items() if name not in axes)
            together.setdefault(rest, []).append(rank)
        return tuple(map(tuple, together.values()))

    def __str__(self) -> str:
        many = [f"{axis} {size}" for axis, size in self.sizes.items() if size > 1]
        if self.expert > 1:
            many.append(f"expert {self.expert}")
        return " x ".join(many) or "one card"


def layouts(model: Architecture, ranks: int, work: Workload, stage: str) -> Iterator[tuple[Layout, str]]:
    """Each Layout of a stage on so many ranks, with the reason why it does not fit, or "".

    Stages: "prefill" and "decode" of a text, "denoise" of a picture.

    >>> model, work = ml.architecture("hunyuan-video"), {"height": 720, "width": 1280, "steps": 50}
    >>> found = dict(layouts(model, 5, workload(model, work), "denoise"))
    >>> found[Layout(ulysses=5)]
    'ulysses=5 cannot split 24 heads'
    """
    axes = _axes(model, stage)
    for sizes in _products(ranks, len(axes)):
        shape: dict[str, Any] = dict(zip(axes, sizes, strict=True))
        for expert in _expert_degrees(model, shape):
            layout = Layout(**shape, expert=expert)
            yield layout, misfit(model, layout, work)


def misfit(model: Architecture, layout: Layout, work: Workload) -> str:
    """Why a layout does not fit a model and its work, in words, whatever the memory; "" where it does."""
    for reason in (
        _heads(model, layout),
        _layers(model, layout),
        _experts(model, layout),
        _passes(model, layout, work),
        _idle(layout, work),
    ):
        if reason:
            return reason
    return ""


def _axes(model: Architecture, stage: str) -> tuple[str, ...]:
    known = {
        "prefill": ("data", "pipeline", "ring", "ulysses", "tensor"),
        "decode": ("data", "pipeline", "kv", "tensor"),
        "denoise": ("data", "pipeline", "cfg", "ring", "ulysses", "tensor"),
    }
    if stage not in known:
        raise ValueError(f"stage={stage!r} is unknown: choose {', '.join(known)}")
    if (stage == "denoise") != (model.kind == "dit"):
        raise ValueError(f"{model.name} has no stage {stage!r}")
    return known[stage]


def _products(number: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _products(number // first, count - 1):
                yield (first, *rest)


def _expert_degrees(model: Architecture, shape: dict[str, int]) -> tuple[int, ...]:
    """1, and where there are experts also all ranks of a stage: their usual two choices."""
    every = prod(shape.values()) // shape["pipeline"]
    return (1, every) if model.experts is not None and every > 1 else (1,)


def _heads(model: Architecture, layout: Layout) -> str:
    kv_heads = model.heads if model.latent is not None else model.kv_heads
    for axis, ranks in (("tensor", layout.tensor), ("ulysses", layout.ulysses)):
        if not _dealt(model.heads, kv_heads, ranks):
            return f"{axis}={ranks} cannot split {_said(model.heads, kv_heads)}"
    both = layout.tensor * layout.ulysses
    if not _dealt(model.heads, kv_heads, both):
        return f"tensor x ulysses = {both} cannot split {_said(model.heads, kv_heads)}"
    return ""


def _dealt(heads: int, kv_heads: int, ranks: int) -> bool:
    try:
        heads_per_rank(heads, kv_heads, ranks)
    except ValueError:
        return False
    return True


def _said(heads: int, kv_heads: int) -> str:
    return f"{heads} heads" + (f" with {kv_heads} of keys and values" if kv_heads != heads else "")


def _layers(model: Architecture, layout: Layout) -> str:
    if layout.pipeline > model.layers:
        return f"pipeline={layout.pipeline} stages for {model.layers} layers"
    return ""


def _experts(model: Architecture, layout: Layout) -> str:
    if layout.expert == 1 or model.experts is None:
        return ""
    if model.experts.count % layout.expert:
        return f"expert={layout.expert} does not divide {model.experts.count} experts"
    return ""


def _passes(model: Architecture, layout: Layout, work: Workload) -> str:
    if layout.cfg == 1:
        return ""
    if layout.cfg > 2:
        return f"cfg={layout.cfg}: a guided step has two passes"
    return "" if not isinstance(work, Text) and guided(model, work) else "one pass a step: nothing for cfg"


def _idle(layout: Layout, work: Workload) -> str:
    if layout.data > work.requests:
        return f"data={layout.data} replicas for {work.requests} request{'s' * (work.requests > 1)}"
    return ""


def guided(model: Architecture, work: Workload) -> bool:
    """Whether a step makes two passes: what the work says, else what is known of the model."""
    if isinstance(work, Text) or model.dit is None:
        return False
    return model.dit.guided if work.guided is None else work.guided
