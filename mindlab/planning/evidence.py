"""Where published measurements say that the planner's simple model fails: there it gives no seconds.

Each rule names what was measured, on what, or says that nothing was found. The model counts FLOP, bytes
and messages; it knows nothing of what a call costs the host, of attention kernels on small blocks, or of
how a PCIe box is wired inside.
"""

from __future__ import annotations

from mindlab.planning.layouts import Layout
from mindlab.planning.topologies import Topology
from mindlab.planning.workloads import Pictures, Text, Workload
from mindlab.predict.architectures import Architecture

FEW_TOKENS = 2048
"""Tokens a card below which calls, not work, fill the time of an image model."""
RING_TOKENS = 8_000
"""Tokens a card below which the steps of a ring are too short to be what the model says."""
SMALL_MODEL = 10e9
"""Parameters below which tensor parallel made a prefill slower."""


def outside(model: Architecture, layout: Layout, work: Workload, machine: Topology, stage: str) -> list[str]:
    """The reasons why a stage on this layout is outside the model; none: it is inside.

    Raises nothing: a layout that does not fit is not judged here.
    """
    reasons = _links(layout, machine, isinstance(work, Pictures))
    if isinstance(work, Pictures):
        return reasons + _pictures(model, layout, work, machine)
    return reasons + _text(model, layout, work, machine, stage)


def _pictures(model: Architecture, layout: Layout, work: Pictures, machine: Topology) -> list[str]:
    tokens = model.tokens(frames=work.frames, height=work.height, width=work.width) // layout.context
    reasons = []
    if tokens < FEW_TOKENS:
        reasons.append(
            f"{tokens:,} tokens a card: below {FEW_TOKENS:,} the host's calls decide "
            "(PixArt-alpha, Ulysses 8 on A100: 73 % off at 512 tokens, 13 % at 2,048; xDiT 175e0bf)"
        )
    if layout.ring > 1 and tokens < RING_TOKENS:
        reasons.append(
            f"a ring with {tokens:,} tokens a card: attention works in blocks too small for its usual rate "
            "(PixArt-alpha, ring 8 on A100: 55 % off at 2,048 tokens; FLUX.1, ring 4: 25 % at 4,224; "
            "xDiT 175e0bf)"
        )
    if layout.ring >= 8 and machine.levels[0].shape == "mesh":
        reasons.append(
            "a ring of 8 on a full mesh (HunyuanVideo on Atlas A2: 706 s, the model says 473; "
            "cann-recipes-infer fbc225d)"
        )
    if layout.tensor > 1:
        reasons.append("tensor parallel of a DiT (PixArt-alpha: 21 to 75 % off, two tables of xDiT disagree)")
    if layout.pipeline > 1:
        reasons.append(
            "a pipeline of a DiT: products use stale activations (PipeFusion), which is not modelled"
        )
    return reasons


def _text(model: Architecture, layout: Layout, work: Text, machine: Topology, stage: str) -> list[str]:
    reasons = []
    tokens = work.prompt // layout.context
    if stage == "prefill" and layout.ring > 1 and tokens < RING_TOKENS:
        reasons.append(
            f"a ring with {tokens:,} tokens a card: attention works in blocks too small for its usual rate "
            "(8,192 tokens on 8 x A100: ring 8 half as quick as ring 2 x Ulysses 4; "
            "feifeibear/long-context-attention 56118e0)"
        )
    small = model.parameters().value < SMALL_MODEL and machine.card.name.startswith("Ascend")
    if stage == "prefill" and layout.tensor > 1 and small:
        reasons.append(
            "tensor parallel in the prefill of a small model (Qwen3-8B on Atlas A3: 41 ms on one die, 52 ms "
            "on two; cann-recipes-infer fbc225d)"
        )
    if layout.expert > 1 and stage == "decode":
        reasons.append(
            "experts on several cards in decoding: latency decides (A3: combine moves twice dispatch's bytes "
            "in no more time; sgl-kernel-npu 060a3fa)"
        )
    return reasons


def _links(layout: Layout, machine: Topology, pictures: bool) -> list[str]:
    """Groups on links that a constant bandwidth does not describe."""
    reasons = []
    for axis in ("ring", "ulysses", "kv", "tensor", "expert"):
        group = max(layout.groups(axis), key=machine.meeting)
        if len(group) < 2:
            continue
        level = machine.levels[machine.meeting(group)]
        if level.name.startswith("PCIe") and len(group) > 2:
            reasons.append(
                f"{axis} over {len(group)} cards on PCIe (HunyuanVideo on L20: 21 % off on 4 cards, 2 % on 2;"
                " xDiT 175e0bf)"
            )
        if level.domain == "cluster" and not pictures and axis in ("tensor", "kv", "expert"):
            reasons.append(
                f"{axis} between hosts waits for the network in every layer of every token: no published "
                "times were found to hold this against"
            )
        if level.domain == "cluster" and pictures:
            reasons.append(
                f"{axis} between hosts (FLUX.1 on L40: 16 cards slower than 8 at 2,048 pixels, not at 4,096;"
                " xDiT 175e0bf)"
            )
    return reasons
