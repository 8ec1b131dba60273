"""The quiz of chapter 08. Every number in it is computed."""

from __future__ import annotations

from mindlab.parallel.replicas import Request, least_loaded, round_robin, route
from mindlab.planning.schedules import schedule
from mindlab.predict import schedules, volume
from mindlab.predict.quantity import Quantity
from mindlab.teach.lesson import Choice, Question, Quiz
from mindlab.trace.slots import span

_LENGTHS = (900, 50, 900, 50, 900, 50)


def _busiest(policy: object) -> int:
    """Tokens on the busiest of two replicas."""
    requests = [Request(tokens) for tokens in _LENGTHS]
    routes = route(requests, 2, policy)  # type: ignore[arg-type]
    return max(sum(t for t, to in zip(_LENGTHS, routes, strict=True) if to == r) for r in (0, 1))


def _idle(stages: list[float], count: int) -> float:
    return round(float(schedules.pipeline_idle(stages, count)), 4)


def _sent() -> Quantity:
    """4 sequences of 2048 tokens, hidden 4096, bfloat16, 4 stages, 8 micro-batches; headers left out."""
    return Quantity(4 * 2048 * 4096 * 2, "B", name="one boundary")


def _with_headers() -> int:
    return int(volume.pipeline(4 * 2048, 4096, 4, itemsize=2, microbatches=8).by_rank(4)[0])


def _per_token(requests: int, ranks: int) -> float:
    """Boxes from one token of a request to its next one, once all requests are under way."""
    long, short = (span(schedule([1] * ranks, requests, tokens=count)) for count in (12, 11))
    return long - short


QUIZ = Quiz(
    name="08",
    title="Chapter 08: replicas and pipelines",
    questions=(
        Question(
            "Four replicas serve 1,000 requests. How many bytes of gradients or activations do they send?",
            read="4, Replicas say nothing",
            unit="B",
            answer=lambda: 0,
            choices=(
                Choice(0, "Inference has no gradients, and a request lives on one replica."),
                Choice(1000, "Not even one a request: there is nothing to tell the others."),
                Choice(4000, "Replicas never wait for each other, so nothing is exchanged per layer either."),
            ),
        ),
        Question(
            "Requests of 900, 50, 900, 50, 900 and 50 tokens arrive at once; two replicas. How many tokens "
            "has the busiest one to do with round robin?",
            read="3, Where a request goes",
            unit="tokens",
            answer=lambda: _busiest(round_robin),
            choices=(
                Choice(_busiest(round_robin), "Every second request is long, so one replica gets them all."),
                Choice(
                    _busiest(least_loaded), "That is what the least loaded one gives, which sees the lengths."
                ),
                Choice(
                    sum(_LENGTHS) // 2, "Half each would be fair, but whole requests cannot be halved so."
                ),
            ),
        ),
        Question(
            "Four equal stages, four micro-batches, forward only. Which share of all time is idle?",
            read="4, The idle share",
            answer=lambda: _idle([1, 1, 1, 1], 4),
            choices=(
                Choice(_idle([1, 1, 1, 1], 4), "$\\frac{p-1}{m+p-1}$, three beats of seven."),
                Choice(
                    round(float(schedules.pipeline_overhead([1, 1, 1, 1], 4)), 4),
                    "$\\frac{p-1}{m}$ is idle time over working time, another number.",
                ),
                Choice(_idle([1, 1, 1, 1], 3), "That is with three micro-batches: one fewer than stages."),
            ),
        ),
        Question(
            "One of four stages takes twice as long. As micro-batches become very many, the idle share "
            "goes to",
            read="4, Unequal stages",
            answer=lambda: _idle([1, 2, 1, 1], 10**7),
            choices=(
                Choice(0.0, "So it is for equal stages only."),
                Choice(
                    _idle([1, 2, 1, 1], 10**7),
                    "Three stages work half of the time: $1 - \\bar t / \\max t$, however many there are.",
                ),
                Choice(0.5, "Three of the four idle for half of the time, the fourth never."),
            ),
        ),
        Question(
            "One request decodes on 8 equal stages that take t each. How long from one token to the next, "
            "hops left out?",
            read="4, One request gets no faster",
            unit="t",
            answer=lambda: _per_token(1, 8),
            choices=(
                Choice(
                    _per_token(1, 8),
                    "All stages, one after the other: as long as on one card with room for all.",
                ),
                Choice(1.0, "A token leaves every t if there are 8 requests; each of them still waits 8 t."),
                Choice(2.0, "No stage can begin the next token before the last one has this one."),
            ),
        ),
        Question(
            "And with 12 requests in turns?",
            read="3, Decoding",
            unit="t",
            answer=lambda: _per_token(12, 8),
            choices=(
                Choice(
                    _per_token(12, 8), "The first stage now has 12 to serve before it is this one's turn."
                ),
                Choice(_per_token(8, 8), "With up to 8 requests; more than stages wait in line."),
                Choice(1.0, "That is the time between tokens of any two requests."),
            ),
        ),
        Question(
            "4 sequences of 2,048 tokens, hidden size 4,096, bfloat16, 4 stages, 8 micro-batches. How much "
            "does a stage send on, headers left out?",
            read="4, Activations",
            answer=lambda: Quantity(_with_headers() - 8 * 64, "B"),
            choices=(
                Choice(_sent(), "Every token's activation once, however many micro-batches there are."),
                Choice(8 * _sent(), "A micro-batch is an eighth of it."),
                Choice(_sent() / 4, "Stages cut layers, not the hidden size: whole activations travel."),
            ),
        ),
    ),
)
