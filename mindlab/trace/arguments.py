"""How to read the arguments of each function of torch.distributed that moves data.

A reader takes the bound arguments, the global ranks of the group and this rank, and gives a `Call`: who sends
how many bytes to whom, as far as the arguments say it. Nothing here communicates. Names that one torch has
and another has not stand beside each other: the recorder wraps what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mindlab.trace.calls import Call, Members

Arguments = Mapping[str, Any]
Reader = Callable[[Arguments, Members, int], Call]

_DTYPES: dict[Any, str] = {}


def _dtype(tensor: Any) -> str:
    name = _DTYPES.get(tensor.dtype)
    if name is None:
        name = _DTYPES[tensor.dtype] = str(tensor.dtype).removeprefix("torch.")
    return name


def _call(tensor: Any) -> Call:
    call = Call()
    call.nbytes, call.dtype, call.shape = tensor.nbytes, _dtype(tensor), tuple(tensor.shape)
    return call


def _sizes(tensors: Sequence[Any] | None) -> tuple[int, ...]:
    return tuple([tensor.nbytes for tensor in tensors]) if tensors else ()


def _global(a: Arguments, ranks: Members, name: str, default: int | None = None) -> int | None:
    """The global rank that `name` ("src") or its group spelling ("group_src") gives."""
    rank = a.get(name)
    if rank is not None:
        return int(rank)
    within = a.get(f"group_{name}")
    return default if within is None else ranks[within]


def _reduction(a: Arguments) -> str:
    """ "sum", "max"…; a bare ReduceOp object holds its kind in `op`, one with a factor has no name."""
    op = a.get("op")
    if op is None:
        return "sum"
    name = getattr(op, "name", None) or getattr(getattr(op, "op", None), "name", "custom")
    return str(name).lower()


def _send(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.peer, call.tag = _global(a, ranks, "dst"), a.get("tag") or 0
    call.sent = (a["tensor"],)
    return call


def _recv(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.peer, call.tag = _global(a, ranks, "src"), a.get("tag") or 0
    call.received = (a["tensor"],)
    return call


def _all_reduce(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.reduction = _reduction(a)
    call.sent = call.received = (a["tensor"],)
    return call


def _all_reduce_coalesced(a: Arguments, ranks: Members, me: int) -> Call:
    tensors = _listed(a["tensors"])
    call = _several(tensors)
    call.out_sizes, call.reduction = _sizes(tensors), _reduction(a)
    call.sent = call.received = tensors
    return call


def _reduce(a: Arguments, ranks: Members, me: int) -> Call:
    call = _all_reduce(a, ranks, me)
    call.root = _global(a, ranks, "dst")
    return call


def _broadcast(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.root = _global(a, ranks, "src")
    if call.root == me:
        call.sent = (a["tensor"],)
    else:
        call.received = (a["tensor"],)
    return call


def _all_gather(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.in_sizes = _sizes(a["tensor_list"])
    call.sent, call.received = (a["tensor"],), a["tensor_list"]
    return call


def _all_gather_single(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["input_tensor"])
    call.in_sizes = (a["output_tensor"].nbytes // len(ranks),) * len(ranks)
    call.sent, call.received = (a["input_tensor"],), (a["output_tensor"],)
    return call


def _all_gather_coalesced(a: Arguments, ranks: Members, me: int) -> Call:
    call = _several(a["input_tensor_list"])
    call.in_sizes = tuple([sum(_sizes(tensors)) for tensors in a["output_tensor_lists"]])
    call.sent = a["input_tensor_list"]
    call.received = [tensor for tensors in a["output_tensor_lists"] for tensor in tensors]
    return call


def _reduce_scatter(a: Arguments, ranks: Members, me: int) -> Call:
    call = _several(a["input_list"])
    call.out_sizes, call.reduction = _sizes(a["input_list"]), _reduction(a)
    call.sent, call.received = a["input_list"], (a["output"],)
    return call


def _reduce_scatter_single(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["input"])
    call.out_sizes = (call.nbytes // len(ranks),) * len(ranks)
    call.reduction = _reduction(a)
    call.sent, call.received = (a["input"],), (a["output"],)
    return call


def _all_to_all(a: Arguments, ranks: Members, me: int) -> Call:
    outgoing, incoming = a["input_tensor_list"], a["output_tensor_list"]
    call = _several(outgoing)
    call.out_sizes, call.in_sizes = _sizes(outgoing), _sizes(incoming)
    call.sent, call.received = outgoing, incoming
    return call


def _all_to_all_single(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["input"])
    call.out_sizes = _split(a["input"], a.get("input_split_sizes"), len(ranks))
    call.in_sizes = _split(a["output"], a.get("output_split_sizes"), len(ranks))
    call.sent, call.received = (a["input"],), (a["output"],)
    return call


def _gather(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.root = _global(a, ranks, "dst", default=0)
    call.sent = (a["tensor"],)
    if call.root == me:
        call.received = a.get("gather_list") or ()
        call.in_sizes = _sizes(call.received)
    return call


def _scatter(a: Arguments, ranks: Members, me: int) -> Call:
    call = _call(a["tensor"])
    call.root = _global(a, ranks, "src", default=0)
    call.received = (a["tensor"],)
    if call.root == me:
        call.sent = a.get("scatter_list") or ()
        call.out_sizes = _sizes(call.sent)
        call.nbytes = sum(call.out_sizes)
    return call


def _nothing(a: Arguments, ranks: Members, me: int) -> Call:
    return Call()


def _new_group(a: Arguments, ranks: Members, me: int) -> Call:
    call = Call()
    wanted = a.get("ranks")
    call.created = tuple(ranks) if wanted is None else tuple([int(rank) for rank in wanted])
    if a.get("sort_ranks", True):
        call.created = tuple(sorted(call.created))
    return call


def _split_group(a: Arguments, ranks: Members, me: int) -> Call:
    call = Call()
    mine = [part for part in a.get("split_ranks") or () if ranks.index(me) in part]
    call.created = tuple([ranks[within] for within in mine[0]]) if mine else ()
    return call


def _rooted_object(name: str, listed: str = "") -> Reader:
    """The reader of an object form; `name` is its root's parameter, "" where it has none.

    `listed` is the parameter whose length all ranks must share.
    """

    def read(a: Arguments, ranks: Members, me: int) -> Call:
        call = Call()
        call.dtype = "object"
        if name:
            call.root = _global(a, ranks, name, default=0)
        if listed:
            call.shape = (len(a[listed]),)
        return call

    return read


def _peer_object(name: str) -> Reader:
    def read(a: Arguments, ranks: Members, me: int) -> Call:
        call = Call()
        call.dtype = "object"
        call.peer = _global(a, ranks, name)
        call.shape = (len(a["object_list"]),)
        return call

    return read


def _listed(tensors: Any) -> Sequence[Any]:
    return tensors if isinstance(tensors, (list, tuple)) else (tensors,)


def _several(tensors: Sequence[Any]) -> Call:
    """The call of a list of tensors: bytes of all; the shape only if it is one."""
    call = Call()
    call.nbytes = sum(_sizes(tensors))
    if tensors:
        call.dtype = _dtype(tensors[0])
        shapes = {tuple(tensor.shape) for tensor in tensors}
        call.shape = (len(tensors), *shapes.pop()) if len(shapes) == 1 else ()
    return call


def _split(tensor: Any, splits: Sequence[int] | None, parts: int) -> tuple[int, ...]:
    """Bytes for each member: `splits` count rows of the first dimension; without them all are equal."""
    if not splits:
        return (tensor.nbytes // parts,) * parts
    rows = tensor.shape[0] if tensor.dim() else 1
    row = tensor.nbytes // rows if rows else 0
    return tuple([int(split) * row for split in splits])


READERS: dict[str, Reader] = {
    "send": _send,
    "isend": _send,
    "recv": _recv,
    "irecv": _recv,
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_single": _all_gather_single,
    "all_gather_into_tensor": _all_gather_single,
    "_all_gather_base": _all_gather_single,
    "all_gather_coalesced": _all_gather_coalesced,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "reduce_scatter_tensor": _reduce_scatter_single,
    "_reduce_scatter_base": _reduce_scatter_single,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "gather": _gather,
    "scatter": _scatter,
    "barrier": _nothing,
    "monitored_barrier": _nothing,
    "all_gather_object": _rooted_object(""),
    "gather_object": _rooted_object("dst"),
    "broadcast_object_list": _rooted_object("src", "object_list"),
    "scatter_object_list": _rooted_object("src"),
    "send_object_list": _peer_object("dst"),
    "recv_object_list": _peer_object("src"),
    "new_group": _new_group,
    "split_group": _split_group,
}
"""Every function that the recorder wraps, and how to read its arguments."""
