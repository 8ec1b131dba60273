"""Pipeline parallel: each rank has a stage of the model, activations go from one to the next.

One micro-batch visits the stages in turn, so one request gets no faster. Several in a row keep the stages
busy: while stage 1 has the first, stage 0 has the second. Forward only, so this is GPipe's order; the idle
share with equal stages is (p-1)/(m+p-1). Huang et al. 2019.

Decoding adds a dependence: a request's next token needs the last stage's answer to this one, so between two
of its tokens lie all stages. Only other requests can fill the time.

Activations are sent without waiting for the next stage to take them, and kept until it has: a fast first
stage may hold all of them. A blocking send in their place would stand still until the next stage is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from mindlab.parallel import hops
from mindlab.parallel.linear import Group, place
from mindlab.predict.shapes import check_whole
from mindlab.ranks.backends import device
from mindlab.trace import recorder
from mindlab.trace.slots import Slot, idle_share, span

__all__ = ["Slot", "decode", "idle_share", "run_pipeline", "span"]

Stage = Callable[..., Tensor]
"""stage(x) -> the next stage's x; in decoding with a cache stage(x, cache), as a Decoder is called."""


@torch.no_grad()
def run_pipeline(
    stages: Sequence[Stage | None], microbatches: Sequence[Tensor | None], group: Group = None
) -> tuple[list[Tensor] | None, list[Slot]]:
    """On the last rank the results, one a micro-batch; None on the others. And this rank's slots.

    `stages` has one for each rank; a rank uses its own, the others may be None. Only the first rank reads the
    `microbatches`, the others need their number. Shapes and dtypes are free, and travel in a header of 64
    bytes. A stage gives a new tensor each time, or on the last rank a buffer that it fills again: results are
    copied there; what is still being sent is not. Raises ValueError for another number of stages
    than ranks, and without micro-batches.

    >>> def two_stages():
    ...     return run_pipeline([lambda x: x + 1, lambda x: x * 10], [torch.ones(1), torch.zeros(2)])
    >>> first, last = ml.launch(two_stages, ranks=2).values
    >>> [out.tolist() for out in last[0]], [slot.microbatch for slot in first[1]]
    ([[20.0], [10.0, 10.0]], [0, 1])
    """
    line = _Line(stages, group)
    _refuse_none("microbatches", microbatches)
    outputs: list[Tensor] = []
    for index, batch in enumerate(microbatches):
        x = _given(batch, index) if line.first else line.receive()
        out = line.compute(index, 0, x)
        if line.last:
            outputs.append(out.clone())
        else:
            line.pass_on(out)
    hops.finish(line.sending)
    return (outputs if line.last else None), line.slots


@torch.no_grad()
def decode(
    stages: Sequence[Stage | None],
    prompts: Sequence[Tensor],
    tokens: int,
    group: Group = None,
    *,
    cache: Callable[[], Any] | None = None,
    back: Group = None,
) -> tuple[list[Tensor] | None, list[Slot]]:
    """On the last rank each prompt's ids with `tokens` more, the likeliest each time; None on the others.

    And this rank's slots, one a prompt and token. `prompts` are ids (B, S), the same on every rank, of any
    lengths. One forward pass a token: the prompts take turns, and each waits for its own last token, which
    comes back from the last stage to the first. `cache` makes what a stage remembers of one prompt
    (`models.decoder.Cache`); a stage is then called stage(x, cache) and gets what is new, else stage(x) with
    all so far. Raises ValueError as `run_pipeline` does.

    `back`: on cards, another group of the same ranks, so that a token need not stand in line behind the
    activations that are queued the other way.
    """
    line = _Line(stages, group)
    _refuse_prompts(prompts, tokens)
    requests = [_Request(ids, cache and cache()) for ids in prompts]
    for step in range(tokens):
        for index, request in enumerate(requests):
            _one_token(line, request, (index, step, tokens), back or group)
    hops.finish(line.sending)
    return ([request.ids for request in requests] if line.last else None), line.slots


class _Line:
    """This rank's place in the pipeline, its stage, its slots, and what is on its way."""

    def __init__(self, stages: Sequence[Stage | None], group: Group) -> None:
        self.rank, self.ranks = place(group)
        if len(stages) != self.ranks:
            raise ValueError(
                f"{len(stages)} stages on {self.ranks} ranks: give one a rank, and join several with "
                "nn.Sequential"
            )
        stage = stages[self.rank]
        if stage is None:
            raise ValueError(f"stages[{self.rank}] is None on rank {self.rank}: it needs its own stage")
        self.stage, self.group, self.device = stage, group, device()
        self.first, self.last = self.rank == 0, self.rank == self.ranks - 1
        self.slots: list[Slot] = []
        self.sending: hops.Sending = []

    def receive(self) -> Tensor:
        """What the stage before passed on."""
        return hops.receive(self.rank - 1, self.device, self.group)

    def pass_on(self, x: Tensor) -> None:
        """Starts to send x to the stage after."""
        self.sending += hops.send(x, self.rank + 1, self.group)

    def compute(self, microbatch: int, step: int, *inputs: Any) -> Tensor:
        """The stage's result; from when to when becomes a slot."""
        start = self._moment()
        out = self.stage(*inputs)
        if not isinstance(out, Tensor):
            raise ValueError(f"stage {self.rank} gave a {type(out).__name__}: it must give one tensor")
        self.slots.append(Slot(dist.get_rank(), self.rank, microbatch, start, self._moment(), step))
        return out

    def _moment(self) -> float:
        """Now, when everything before is done: a card works behind the program's back."""
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()
        return recorder.now()


class _Request:
    """A prompt and what follows: all ids so far, what the first stage must see, and this stage's cache."""

    def __init__(self, ids: Tensor, cache: Any) -> None:
        self.ids = self.unseen = ids
        self.cache = cache

    def append(self, new: Tensor) -> None:
        """Adds the next token's ids, (B, 1)."""
        self.ids = torch.cat([self.ids, new], 1)
        self.unseen = self.ids if self.cache is None else new


def _one_token(line: _Line, request: _Request, turn: tuple[int, int, int], back: Group) -> None:
    """One forward pass of a request through this rank's stage; `turn`: its number, the step, the steps."""
    index, step, steps = turn
    if line.first and step and not line.last:
        shape = len(request.ids), 1
        request.append(hops.arrival(shape, torch.int64, line.ranks - 1, line.device, back))
    x = request.unseen if line.first else line.receive()
    out = line.compute(index, step, x, *([] if request.cache is None else [request.cache]))
    if not line.last:
        line.pass_on(out)
        return
    new = out[:, -1].argmax(-1, keepdim=True)
    request.append(new)
    if step < steps - 1 and not line.first:
        line.sending += hops.start(new, 0, back)


def _given(batch: Tensor | None, index: int) -> Tensor:
    if batch is None:
        raise ValueError(f"microbatches[{index}] is None on the first rank, which reads them: give a tensor")
    return batch


def _refuse_prompts(prompts: Sequence[Tensor], tokens: int) -> None:
    """Raises ValueError for what cannot be continued."""
    check_whole(0, tokens=tokens)
    if isinstance(prompts, Tensor):
        raise ValueError(f"prompts is a tensor {tuple(prompts.shape)}: give a list of ids (B, S)")
    _refuse_none("prompts", prompts)
    for index, ids in enumerate(prompts):
        if ids.ndim != 2 or not ids.shape[1]:
            raise ValueError(f"prompts[{index}] is {tuple(ids.shape)}: give ids (B, S), S from 1 on")


def _refuse_none(name: str, given: Sequence[Tensor | None]) -> None:
    if not len(given):
        raise ValueError(f"{name} is empty: give one at least, and as many on every rank")
