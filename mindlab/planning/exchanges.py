"""What a layout's groups send each other, and how long that takes on their links."""

from __future__ import annotations

from functools import cached_property

from mindlab.planning.layouts import Layout
from mindlab.planning.parts import Part
from mindlab.planning.topologies import Topology
from mindlab.predict import seconds, volume
from mindlab.predict.architectures import Architecture


class Exchanges:
    """The exchanges of a model on a layout and a topology, by axis. Rank r stands on card r."""

    def __init__(self, model: Architecture, layout: Layout, machine: Topology, itemsize: int) -> None:
        self.model, self.layout, self.machine, self.itemsize = model, layout, machine, itemsize
        self.kinds: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    def sequence(self, tokens: int, attention: float) -> list[Part]:
        """Of one pass over a whole sequence; `attention` is the seconds a rank computes attention in it."""
        own = -(-tokens // self.layout.context)
        return [
            self._tensor(own),
            self._ulysses(tokens),
            self._ring(tokens, attention),
            self._expert(own),
            self._stages(own, self.layout.pipeline - 1),
        ]

    def token(self, batch: int) -> list[Part]:
        """Of one new token for each of `batch` requests."""
        return [
            self._tensor(batch),
            self._merge(batch),
            self._expert(batch),
            self._stages(batch, self.layout.pipeline if self.layout.pipeline > 1 else 0),
        ]

    def predictions(self, tokens: int, steps: int) -> list[Part]:
        """Of what the steps predict: partners of guidance swap their shards, then all shards are gathered."""
        dit = self.model.dit
        if dit is None:
            return []
        shared = self.layout.ring * self.layout.ulysses
        whole = tokens * dit.values_per_token * self.itemsize
        parts = [self._gathered(steps, whole, shared)] if shared > 1 else []
        if self.layout.cfg == 1:
            return parts
        own = -(-tokens // self.layout.context) * dit.values_per_token
        nbytes = volume.cfg_parallel(own, 2, itemsize=self.itemsize, steps=steps).value
        return [*parts, Part("cfg", steps * self._seconds("send", ("cfg",), nbytes / steps), float(nbytes))]

    def _gathered(self, steps: int, whole: int, shared: int) -> Part:
        spent = self._seconds("all_gather", ("ring", "ulysses"), whole)
        return Part("gather", steps * spent, steps * whole * (shared - 1) / shared)

    def halo(self, nbytes: float) -> Part:
        """Of a tile's two borders, to the ranks before and after it; `nbytes` are both together."""
        axes = tuple(axis for axis, size in self.layout.sizes.items() if size > 1 and axis != "data")
        return Part("halo", self._seconds("send", axes, nbytes / 2), nbytes)

    def context_change(self, own: float) -> Part:
        """Of a new layout for the ranks that share a sequence: each sends all but 1/c of `own` bytes."""
        shared = self.layout.ring * self.layout.ulysses
        seconds = self._seconds("all_to_all", ("ring", "ulysses"), own)
        return Part("layout change", seconds, own * (shared - 1) / shared)

    def _tensor(self, tokens: int) -> Part:
        ranks, calls = self.layout.tensor, self._all_reduces
        sent = volume.tensor_parallel(
            tokens, self.model.hidden, ranks, itemsize=self.itemsize, all_reduces=calls
        ).value
        each = tokens * self.model.hidden * self.itemsize
        return Part("tensor", calls * self._seconds("all_reduce", ("tensor",), each), float(sent))

    def _ulysses(self, tokens: int) -> Part:
        ranks, layers = self.layout.ulysses, self.model.layers
        sent = self._hybrid(tokens, "ulysses")
        each = sent / 4 * ranks / (ranks - 1) if ranks > 1 else 0.0
        calls = 4 * layers  # queries, keys, values there; the result back
        return Part("ulysses", calls * self._seconds("all_to_all", ("ulysses",), each), layers * sent)

    def _ring(self, tokens: int, attention: float) -> Part:
        """The part of the ring's messages that attention, a step of it at a time, cannot hide."""
        steps, layers = self.layout.ring - 1, self.model.layers
        sent = self._hybrid(tokens, "ring")
        if not steps:
            return Part("ring", 0.0)
        computing = attention / layers / self.layout.ring
        exposed = self._seconds("send", ("ring",), sent / steps) - computing
        return Part("ring", layers * steps * max(0.0, exposed), layers * sent)

    def _hybrid(self, tokens: int, axis: str) -> float:
        """Bytes that a rank sends on one axis in the attention of one layer."""
        model, layout = self.model, self.layout
        heads = model.heads // layout.tensor
        kv_heads = heads if model.latent is not None else max(1, model.kv_heads // layout.tensor)
        return float(
            volume.hybrid_attention(
                1, tokens, heads, kv_heads, model.head_dim,
                ring=layout.ring, ulysses=layout.ulysses, itemsize=self.itemsize, axis=axis,
            ).value
        )  # fmt: skip

    def _merge(self, batch: int) -> Part:
        ranks, layers = self.layout.kv, self.model.layers
        heads = self.model.heads // self.layout.tensor
        each = volume.decode_attention(batch, heads, self.model.head_dim, ranks, itemsize=self.itemsize).value
        whole = each / 2 * ranks / (ranks - 1) if ranks > 1 else 0.0
        spent = self._seconds("all_to_all", ("kv",), whole)
        return Part("kv", 2 * layers * spent, float(layers * each))

    def _expert(self, tokens: int) -> Part:
        """Tokens to their experts and back. Ranks of one tensor group hand in a part of their tokens each."""
        experts, ranks = self.model.experts, self.layout.expert
        if experts is None or ranks == 1:
            return Part("expert", 0.0)
        own = tokens / self.layout.tensor
        whole = own * experts.top_k * self.model.hidden * self.itemsize
        calls = 2 * (self.model.layers - experts.dense_layers)
        sent = calls * whole * (ranks - 1) / ranks
        return Part("expert", calls * self._seconds("all_to_all", ("expert",), whole), sent)

    def _stages(self, tokens: int, hops: int) -> Part:
        nbytes = tokens * self.model.hidden * self.itemsize
        return Part(
            "pipeline", hops * self._seconds("send", ("pipeline",), nbytes), float(nbytes * bool(hops))
        )

    @cached_property
    def _all_reduces(self) -> int:
        """How many a pass has: after each attention and each MLP, one where both end in one product."""
        dit = self.model.dit
        if dit is None:
            return 2 * self.model.layers
        if dit.double or dit.single:
            return 2 * dit.double + dit.single
        return (3 if dit.cross_attention else 2) * self.model.layers

    def _seconds(self, op: str, axes: tuple[str, ...], nbytes: float) -> float:
        """Seconds of one exchange in the slowest group along the axes."""
        if nbytes == 0 or len(self._groups(axes)[0]) == 1:
            return 0.0
        return max(self._in_group(op, nbytes, group) for group in self._groups(axes))

    def _in_group(self, op: str, nbytes: float, group: tuple[int, ...]) -> float:
        if op != "send":
            return float(seconds.collective(op, round(nbytes), self.machine, cards=group).value)
        pairs = {(at, group[(i + 1) % len(group)]) for i, at in enumerate(group)}
        return max(
            float(seconds.collective("send", round(nbytes), self.machine, cards=pair).value) for pair in pairs
        )

    def _groups(self, axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """One group of each kind: groups whose members meet on the same levels cost the same."""
        if axes not in self.kinds:
            kinds = {self._kind(group): group for group in reversed(self.layout.groups(*axes))}
            self.kinds[axes] = tuple(kinds.values())
        return self.kinds[axes]

    def _kind(self, group: tuple[int, ...]) -> tuple[int, ...]:
        first = group[0]
        return tuple(
            next(i for i, level in enumerate(self.machine.levels) if first // level.size == at // level.size)
            for at in group
        )
