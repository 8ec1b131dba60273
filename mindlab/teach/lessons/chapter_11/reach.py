"""Exercise 11.1: the halo of a decoder, from the list of its layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from mindlab.teach import inputs
from mindlab.teach.attempt import Attempt
from mindlab.teach.lesson import Exercise, Trial, Wrong

Layers = Sequence[tuple[Any, ...]]


def my_halo(layers: Layers) -> int:
    """How many latent pixels beyond its own a tile needs, on each side."""
    halo, scale = Fraction(0), 1
    for kind, *numbers in layers:
        if kind == "up":
            scale *= numbers[0]
        else:
            kernel, dilation = numbers
            halo += Fraction(kernel // 2 * dilation, scale)
    return math.ceil(halo)


def from_the_end(layers: Layers) -> int:
    """Right: the first pixel that the first pixel of the tile reads, walked back layer by layer."""
    first = 0
    for kind, *numbers in reversed(layers):
        first = first // numbers[0] if kind == "up" else first - numbers[0] // 2 * numbers[1]
    return -first


def from_a_last_pixel(layers: Layers) -> int:
    """Right: the last pixel that a tile of 1,000 reads, walked back."""
    last: int = 1000 * math.prod(layer[1] for layer in layers if layer[0] == "up") - 1
    for kind, *numbers in layers[::-1]:
        last = last // numbers[0] if kind == "up" else last + numbers[0] // 2 * numbers[1]
    return last - 999


def _by(how: str, layers: Layers) -> int:
    """A halo counted in another way."""
    halo, scale, each, later = Fraction(0), 1, 0, 0
    for kind, *numbers in layers:
        if kind == "up":
            scale *= numbers[0]
            continue
        kernel, dilation = numbers
        radius = kernel // 2 * (1 if how == "no dilation" else dilation)
        if how == "whole kernels":
            radius = (kernel - 1) * dilation
        if not (how == "before" and scale > 1):
            halo += Fraction(radius, 1 if how == "all alike" else scale)
        each += math.ceil(Fraction(radius, scale))
        later += radius * scale
    if how == "each rounded":
        return each
    if how == "times":
        return later
    return math.floor(halo) if how == "down" else math.ceil(halo * (scale if how == "picture" else 1))


_NAMES = {
    "all alike": "what it would be if every convolution stood before the up-sampling",
    "before": "what the convolutions before the first up-sampling need",
    "picture": "the halo in pixels of the picture",
    "down": "the halo rounded down",
    "each rounded": "what comes out if every convolution is rounded up by itself",
    "no dilation": "what it would be without dilation",
    "whole kernels": "twice as much: a kernel reaches half its size to each side",
}


def _given(seed: int, rank: int, trial: Trial) -> tuple[Layers]:
    """Another decoder on each rank: convolutions of 3 or 5, some dilated, and up-sampling by 2 or 3."""
    drawn = [int(n) for n in inputs.numbers(seed + 17 * trial["nets"], rank, 40)]
    layers: list[tuple[Any, ...]] = [("conv", 3, 1)]
    for stage in range(trial["stages"]):
        layers.append(("up", 2 + (drawn[stage] + rank) % 2))
        for one in range(1 + (drawn[stage + 5] + rank) % 3):
            at = 10 + 3 * stage + one
            layers.append(("conv", 3 + 2 * (drawn[at] % 2), 1 + drawn[at + 9] % 3 // 2))
    return (layers,)


def _one_card(given: list[tuple[Layers]]) -> list[int]:
    return [from_the_end(layers) for (layers,) in given]


def _look(attempt: Attempt) -> str:
    """The first rank's decoder with another number, and which mistake gives it on every rank."""
    pairs = list(zip(attempt.values, attempt.wanted, strict=True))
    wrong = next((rank for rank, (seen, wanted) in enumerate(pairs) if seen != wanted), None)
    if wrong is None or not all(isinstance(seen, int) for seen, _ in pairs):
        return ""
    layers = attempt.given[wrong][0]
    text = " ".join(f"up{n[0]}" if kind == "up" else _conv(*n) for kind, *n in layers)
    found = f"For {text}: the answer is {pairs[wrong][0]}, the halo is {pairs[wrong][1]}."
    for how, name in _NAMES.items():
        if all(seen == _by(how, given[0]) for given, (seen, _) in zip(attempt.given, pairs, strict=True)):
            return f"{found} That is {name}."
    return found


def _conv(kernel: int, dilation: int) -> str:
    return f"conv{kernel}" + (f"(dilation {dilation})" if dilation > 1 else "")


EXERCISE = Exercise(
    name="11.1",
    title="How far does it look?",
    statement="""
Write `my_halo(layers)`. `layers` are those of a decoder, from the latent to the picture: `("conv", kernel,
dilation)`, whose kernel is odd and whose padding keeps the size, and `("up", factor)`, which repeats every
pixel `factor` times along each dim. Return the halo, in latent pixels: how many beyond its own a tile needs
on each side. Not one more.
""",
    inputs=_given,
    reference=_one_card,
    pure=True,
    look=_look,
    trials=(
        Trial(4, sizes={"stages": 1, "nets": 1}),
        Trial(4, sizes={"stages": 2, "nets": 2}),
        Trial(3, sizes={"stages": 3, "nets": 3}),
    ),
    hints=(
        "In which pixels does a convolution look around? Those of the tensor that it gets.",
        "Draw one latent pixel and the four that nearest up-sampling by 2 makes of it, along one line two. A "
        "convolution behind it looks one fine pixel to the side: how much is that in latent pixels? Add it "
        "all up before you round.",
        """
    halo, scale = Fraction(0), 1          # from fractions import Fraction
    for kind, *numbers in layers:
        if kind == "up":
            ...                           # pixels are finer from here on
        else:
            kernel, dilation = numbers
            halo += ...                   # in latent pixels
    return ...                            # a whole number
""",
    ),
    solution=my_halo,
    explanation="""
A convolution behind up-sampling by $s$ looks $\\lfloor k/2 \\rfloor$ of the fine pixels to each side, a share
$1/s$ of a latent pixel each:

$R = \\left\\lceil \\sum_i \\frac{\\lfloor k_i/2 \\rfloor\\, d_i}{s_i} \\right\\rceil$.

Rounding comes last: four convolutions at a quarter need one pixel together, not four.
""",
    right=(from_the_end, from_a_last_pixel),
    wrong=(
        Wrong(partial(_by, "all alike"), r"every convolution stood before the up-sampling"),
        Wrong(partial(_by, "before"), r"before the first up-sampling"),
        Wrong(partial(_by, "picture"), r"in pixels of the picture"),
        Wrong(partial(_by, "down"), r"rounded down"),
        Wrong(partial(_by, "each rounded"), r"rounded up by itself"),
        Wrong(partial(_by, "no dilation"), r"without dilation"),
        Wrong(partial(_by, "whole kernels"), r"twice as much"),
        Wrong(partial(_by, "times"), r"the answer is \d+, the halo is \d+"),
    ),
)
