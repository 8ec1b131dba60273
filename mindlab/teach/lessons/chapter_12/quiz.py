"""The quiz of chapter 12. Every number in it is computed."""

from __future__ import annotations

from math import ceil
from typing import Any

from mindlab.planning import planner
from mindlab.planning.topologies import topology
from mindlab.predict import combined, memory, seconds
from mindlab.predict.architectures import architecture
from mindlab.teach.lesson import Choice, Question, Quiz

_VIDEO = {"height": 720, "width": 1280, "frames": 129, "steps": 50}


def _cards(parameters: float) -> int:
    """Cards of 64 GB whose memory holds so many bfloat16 weights."""
    return ceil(2 * parameters / 64e9)


def _weights() -> int:
    return _cards(float(architecture("deepseek-v3").parameters().value))


def _active() -> int:
    return _cards(float(architecture("deepseek-v3").active_parameters().value))


def _cache_cut(ranks: int) -> float:
    model = architecture("llama-3.1-70b")
    alone, cut = (
        memory.model_terms(model, tokens=4096, tensor=count)["kv_cache"].value for count in (1, ranks)
    )
    return float(alone / cut)


def _shares() -> float:
    """The seconds of Ulysses' exchanges in 100 s of HunyuanVideo on eight 910B."""
    found = planner.plan("hunyuan-video", "atlas-a2", _VIDEO).find(ulysses=8)
    return round(100 * found.stages["denoise"].share("ulysses"), 1)


def _levels(name: str) -> float:
    """Microseconds of an all-reduce of 64 MiB over two hosts of eight."""
    two = topology("two-atlas-a2")
    return round(1e6 * float(seconds.collective("all_reduce", 2**26, two, algorithm=name).value))


def _step(axes: dict[str, int]) -> float:
    shape: dict[str, Any] = {
        "batch": 1,
        "sequence": 4096,
        "hidden": 3072,
        "heads": 24,
        "layers": 60,
        "outputs": 64,
    }
    return float(combined.guided_step(axes, **shape, itemsize=2).value)


_EIGHT = [
    {"cfg": 2, "tensor": 1, "ring": 1, "ulysses": 4},
    {"cfg": 1, "tensor": 1, "ring": 1, "ulysses": 8},
    {"cfg": 2, "tensor": 4, "ring": 1, "ulysses": 1},
    {"cfg": 1, "tensor": 1, "ring": 8, "ulysses": 1},
]


def _names(axes: dict[str, int]) -> str:
    return " x ".join(f"{axis} {size}" for axis, size in axes.items() if size > 1)


def _least() -> str:
    return _names(min(_EIGHT, key=_step))


QUIZ = Quiz(
    name="12",
    title="Chapter 12: combined strategies",
    questions=(
        Question(
            "DeepSeek-V3 in bfloat16: how many cards of 64 GB hold its weights alone?",
            read="1, What a card has to hold",
            unit="cards",
            answer=_weights,
            choices=(
                Choice(
                    _weights(), "All experts have to be somewhere, also those that a token does not meet."
                ),
                Choice(_active(), "Those hold the parameters that one token meets; the next meets others."),
                Choice(2 * _weights(), "That would be float32."),
            ),
        ),
        Question(
            "Llama-3.1-70B has 8 key-value heads. With tensor parallel 16, how many times smaller is the "
            "cache "
            "of a card than on one card?",
            read="5, The cache is cut by sixteen",
            unit="times",
            answer=lambda: _cache_cut(16),
            choices=(
                Choice(_cache_cut(16), "Each head lies on two ranks: cutting stops at the heads there are."),
                Choice(16, "So much smaller are the weights."),
                Choice(2.0, "Two ranks share a head; that is how often it is held, not how far it is cut."),
            ),
        ),
        Question(
            "HunyuanVideo on eight Ascend 910B, Ulysses 8: every card sends 960 GB. Of 100 s, how many "
            "go into "
            "sending, by the model?",
            read="8, A video on one host",
            unit="s",
            answer=_shares,
            choices=(
                Choice(_shares(), "The work is larger still: bytes alone decide nothing."),
                Choice(round(50 * _shares(), 1), "Fifty steps are in the 960 GB already."),
                Choice(round(8 * _shares(), 1), "All cards send at once."),
            ),
        ),
        Question(
            "Which of these sends least in a guided step of a model with 24 heads?",
            read="4, Axis by axis",
            answer=_least,
            choices=tuple(
                Choice(
                    _names(axes),
                    f"{_step(axes) / 1e6:,.0f} MB a card for 4,096 tokens, hidden 3,072, 60 layers.",
                )
                for axes in _EIGHT
            ),
        ),
        Question(
            "An all-reduce of 64 MiB on two hosts of eight 910B. How many microseconds, if hosts reduce "
            "inside "
            "first?",
            read="8, Two hosts",
            unit="µs",
            answer=lambda: _levels("hierarchical"),
            choices=(
                Choice(_levels("hierarchical"), "Only an eighth of the tensor goes over each card's port."),
                Choice(_levels("ring"), "That is one ring over all sixteen: the slowest link sets the pace."),
                Choice(_levels("mesh"), "That is everybody to everybody over the ports."),
            ),
        ),
        Question(
            "The planner gives no seconds for tensor parallel of a diffusion transformer. Why?",
            read="8, Where the planner says nothing",
            choices=(
                Choice(
                    "Measurements contradict the model there.",
                    "It is 22 to 57 % off in one published table, and another one of the same project "
                    "disagrees.",
                    holds=True,
                ),
                Choice("It cannot be run.", "It runs, here too: section 3.", holds=False),
                Choice("It never fits into memory.", "It needs least memory of all.", holds=False),
            ),
        ),
    ),
)
