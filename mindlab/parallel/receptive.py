"""How far a network of convolutions looks: the pixels of its input that a tile of its output depends on.

The layers are read from the network's own forward pass (torch.fx), then walked from the output back: each
says from where to where it reads for pixels `low` to `high`.

    convolution        low · stride - padding  to  high · stride - padding + (k - 1) · dilation
    nearest, shuffle   low // factor           to  high // factor
    a sum, a cat       whatever either side reads

This is the theoretical receptive field, every pixel that can have a say; exactness needs all of it. What has
most of the say (the "effective" one, Luo et al. 2016) is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from torch import fx, nn

from mindlab.parallel.reach import CONVS, POOLS, TRANSPOSED, Layer, Span, layer_of, layer_of_function


@dataclass(frozen=True)
class Halo:
    """How many pixels around a tile a network needs, in pixels of its input, the latent; a number a dim."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    scale: tuple[Fraction, ...]
    """Output pixels a pixel of the input."""
    align: tuple[int, ...]
    """Tiles must start at multiples of this; above 1 where a layer strides."""
    norms: tuple[str, ...] = ()
    """GroupNorms, by name: they need the statistics of all tiles, whatever the halo."""
    keeps_size: bool = True
    """Whether the output is `scale` times the input, no pixel more or less."""

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """(before, after) for each dim."""
        return tuple(zip(self.before, self.after, strict=True))


def receptive_field(module: nn.Module) -> Halo:
    """The Halo that makes `module`, run on a tile, give what it gives on the whole.

    For convolutions (stride, dilation, padding), transposed ones, pooling, nearest and linear up-sampling,
    pixel shuffle, padding, sums and concatenations of these in any order; 1-D to 3-D. GroupNorms are listed
    in `norms`. Raises ValueError naming what it does not know: attention reads every pixel, for one.

    >>> decoder = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Upsample(scale_factor=2),
    ...                         nn.Conv2d(8, 3, 3, padding=1))
    >>> receptive_field(decoder).sides
    ((2, 2), (2, 2))
    """
    layers, dims = _Layers(module), _dims(module)
    axes = [_axis(layers, axis, dims) for axis in range(dims)]
    before, after, scale, align, keeps = (tuple(part) for part in zip(*axes, strict=True))
    norms = tuple(name for name, each in module.named_modules() if isinstance(each, nn.GroupNorm))
    return Halo(before, after, scale, align, norms, all(keeps))


def _axis(layers: _Layers, axis: int, dims: int) -> tuple[int, int, Fraction, int, bool]:
    """Before, after, scale, align and whether the size is kept, along one dim."""
    each = {node: layers.layer(node, axis, dims) for node in layers.nodes}
    scales = {layers.input: Fraction(1)}
    for node in layers.nodes:
        scales[node] = _agreed([scales[one] for one in layers.inputs(node)], node) * each[node].factor
    align = math.lcm(*(scale.denominator for scale in scales.values()))
    total, first, pixels = scales[layers.nodes[-1]], 1000 * align, 64 * align
    spans = {layers.nodes[-1]: (int(total * first), int(total * (first + pixels)) - 1)}
    for node in reversed(layers.nodes):
        if node in spans:
            for one in layers.inputs(node):
                spans[one] = _hull(spans.get(one), each[node].reads(*spans[node]))
    low, high = spans[layers.input]
    lengths = {layers.input: pixels}
    for node in layers.nodes:
        lengths[node] = each[node].length(max(lengths[one] for one in layers.inputs(node)))
    keeps = lengths[layers.nodes[-1]] == total * pixels
    return max(0, first - low), max(0, high - (first + pixels - 1)), total, align, keeps


def looking_around(module: nn.Module) -> list[tuple[nn.Module, Halo]]:
    """The smallest parts of a network that keep the size and need a halo, each with its own: convolutions,
    mostly; one with the padding before it, where that is a function of its own.

    >>> convolution = nn.Conv2d(4, 8, 3, padding=1)
    >>> [part is convolution for part, _ in looking_around(nn.Sequential(convolution, nn.SiLU()))]
    [True]
    """
    children = _called(module)
    try:
        fields = [receptive_field(child) for child in children]
    except ValueError:  # a part that takes two inputs, for one, is read with what stands around it
        return [(module, receptive_field(module))]
    if not children or not all(field.keeps_size for field in fields) or _looks_itself(module):
        return [(module, receptive_field(module))]
    pairs = zip(children, fields, strict=True)
    return [pair for child, field in pairs if any(map(any, field.sides)) for pair in looking_around(child)]


def _called(module: nn.Module) -> list[nn.Module]:
    """The parts that the module's own forward pass calls, each once; none where it has no parts."""
    if not any(True for _ in module.children()):
        return []
    layers = _Layers(module, _Shallow())
    called = [layers.modules[str(node.target)] for node in layers.nodes if node.op == "call_module"]
    return list(dict.fromkeys(called))


def _looks_itself(module: nn.Module) -> bool:
    """Whether a function in the module's own forward pass, not in its parts', reads beyond a tile."""
    layers, dims = _Layers(module, _Shallow()), _dims(module)
    for node in layers.nodes:
        if node.op != "call_module":
            for axis in range(dims):
                layer = layers.layer(node, axis, dims)
                low, high = layer.reads(int(1000 * layer.factor), int(1064 * layer.factor) - 1)
                if low < 1000 or high > 1063:
                    return True
    return False


class _Shallow(fx.Tracer):
    """Reads a module's own forward pass and not that of its parts."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class _Deep(fx.Tracer):
    """Reads all parts but torch's own layers, also where a class of one's own only names one anew."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        kinds = (kind for kind in (*CONVS, *TRANSPOSED, *POOLS) if isinstance(m, kind))
        named_anew = any(type(m).forward is kind.forward for kind in kinds)
        return named_anew or super().is_leaf_module(m, module_qualified_name)


class _Layers:
    """The operations of a module's forward pass, in order, from its one input to its one output."""

    def __init__(self, module: nn.Module, tracer: fx.Tracer | None = None) -> None:
        tracer = tracer or _Deep()
        if _Deep().is_leaf_module(module, ""):
            module = nn.Sequential(module)
        try:
            graph = tracer.trace(module)
        except Exception as problem:
            raise ValueError(
                f"{type(module).__name__} cannot be read layer by layer: its forward pass decides by data "
                f"({problem}); give stacks of convolutions, or decode_tiled a Halo of your own"
            ) from problem
        self.modules = dict(module.named_modules())
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        if len(inputs) != 1:
            raise ValueError(
                f"{type(module).__name__} takes {len(inputs)} inputs: give one that takes a latent"
            )
        self.input = inputs[0]
        self.nodes = self._on_the_way(graph)
        if not self.nodes:
            raise ValueError(f"{type(module).__name__} does nothing with its input: give layers")

    def _on_the_way(self, graph: fx.Graph) -> list[fx.Node]:
        """The operations that the input flows through; what they do to parameters alone is left out."""
        reached, ordered = {self.input}, []
        for node in graph.nodes:
            if node.op not in ("placeholder", "output", "get_attr") and reached & set(node.all_input_nodes):
                reached.add(node)
                ordered.append(node)
        self._reached = reached
        return ordered

    def inputs(self, node: fx.Node) -> list[fx.Node]:
        """What flows into an operation."""
        return [one for one in node.all_input_nodes if one in self._reached]

    def layer(self, node: fx.Node, axis: int, dims: int) -> Layer:
        """What the operation does along one dim; raises ValueError where that is not known."""
        known: Layer | None = None
        if node.op == "call_module":
            known = layer_of(self.modules[str(node.target)], axis, dims)
            what = f"{str(node.target)!r} ({type(self.modules[str(node.target)]).__name__})"
        else:
            known = layer_of_function(node, axis, dims)
            what = f"the operation {node.name!r}"
        if known is None:
            raise ValueError(
                f"{what} is no layer whose halo is known: give convolutions, up-sampling, pooling, sums and "
                "GroupNorm; for what reads every pixel, as attention does, no halo is enough"
            )
        return known


def _hull(one: Span | None, other: Span) -> Span:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def _agreed(scales: list[Fraction], node: fx.Node) -> Fraction:
    if len(set(scales)) > 1:
        raise ValueError(f"{node.name!r} joins tensors of different scale: give branches that scale alike")
    return scales[0]


_MODES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


def _dims(module: nn.Module) -> int:
    """Of pictures 2, of videos 3: what a convolution, pooling or up-sampling says; 2 where none does."""
    for each in module.modules():
        for place, kind in enumerate((*CONVS, *TRANSPOSED, *POOLS)):
            if isinstance(each, kind):
                return place % 3 + 1  # each of these lists has 1, 2 and 3 dims
        if isinstance(each, nn.Upsample) and each.mode in _MODES:
            return _MODES[each.mode]
    return 2
