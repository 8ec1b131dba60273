"""The classic algorithms by hand, from isend and irecv only: no collective of the library inside.

Every rank of `group` (None: all ranks) calls the function, with tensors of one shape and dtype unless it says
otherwise, and gets a new contiguous tensor; the input is not changed, gradients do not flow.
A tensor is cut with `torch.tensor_split`: any length will do, also one that p does not divide, or below p.
An empty chunk is not sent. Bytes and rounds are those of `volume` and `volume.rounds`, to the byte.

Sums are made in the tensor's own dtype, one rank's part at a time: bfloat16 rounds after every addition. Each
function says in which order; the result is the same to the bit on every rank.

    >>> ml.launch(lambda: ml.collectives.ring_all_reduce(torch.ones(5)), ranks=3).values[0]
    tensor([3., 3., 3., 3., 3.])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

Group = dist.ProcessGroup | None


def ring_all_reduce(x: torch.Tensor, group: Group = None) -> torch.Tensor:
    """The sum over all ranks, in x's shape, on every rank: a ring reduce-scatter, then a ring all-gather.

    2(p-1) rounds; 2(p-1)/p of x's bytes sent per rank. Chunk c is added in the order c+1, c+2, …, c of ranks.
    Patarasuk & Yuan 2009.
    """
    rank, ranks = _place(group)
    flat = x.detach().contiguous().reshape(-1)
    out = torch.empty_like(flat)
    sums = out.tensor_split(ranks)
    _ring_reduce(flat.tensor_split(ranks), sums, rank, group)
    _ring_gather(sums, rank, group)
    return out.reshape(x.shape)


def ring_reduce_scatter(
    x: torch.Tensor, group: Group = None, *, sizes: Sequence[int] | None = None
) -> torch.Tensor:
    """This rank's chunk (along dim 0) of the sum over all ranks.

    `sizes` are the chunks' lengths along dim 0, by rank; without them those of `torch.tensor_split`. Raises
    ValueError if they do not fit x or the group.
    p-1 rounds; (p-1)/p of x's bytes sent per rank. Chunk c is added in the order c+1, c+2, …, c of ranks.
    """
    rank, ranks = _place(group)
    parts = _chunks(x, ranks, sizes)
    sums = [torch.empty_like(part) for part in parts]
    _ring_reduce(parts, sums, rank, group)
    return sums[rank]


def ring_all_gather(
    x: torch.Tensor, group: Group = None, *, sizes: Sequence[int] | None = None
) -> torch.Tensor:
    """The shards of all ranks, joined along dim 0 in the order of ranks, on every rank.

    `sizes` are all shards' lengths along dim 0, by rank; without them all must be as long as this rank's own,
    for lengths are not exchanged. Raises ValueError if `sizes` does not fit this shard or the group.
    p-1 rounds; (p-1)/p of the result's bytes sent per rank: each shard goes once round the ring.
    """
    rank, ranks = _place(group)
    sizes = _shard_sizes(x, rank, ranks, sizes)
    out = x.new_empty((sum(sizes), *x.shape[1:]))
    shards = torch.split(out, sizes)
    shards[rank].copy_(x.detach())
    _ring_gather(shards, rank, group)
    return out


def halving_doubling_all_reduce(x: torch.Tensor, group: Group = None) -> torch.Tensor:
    """The sum over all ranks, in x's shape, on every rank: halve what is exchanged, then double it back.

    2 lg p rounds and 2(p-1)/p of x's bytes sent per rank where p is a power of two. Else, with q the power of
    two below p, rank q+i first hands all of x to rank i and gets the result at the end: two rounds more.
    Order of additions: q apart first, then q/2, … 1; both partners add the same two numbers.
    Thakur, Rabenseifner & Gropp 2005.
    """
    rank, ranks = _place(group)
    core = 2 ** (ranks.bit_length() - 1)
    total = x.detach().reshape(-1).clone()
    if rank >= core:
        _exchange(total, rank - core, None, None, group)
        _exchange(None, None, total, rank - core, group)
        return total.reshape(x.shape)
    if rank + core < ranks:
        arriving = torch.empty_like(total)
        _exchange(None, None, arriving, rank + core, group)
        total += arriving
    _halve_and_double(total, rank, core, group)
    if rank + core < ranks:
        _exchange(total, rank + core, None, None, group)
    return total.reshape(x.shape)


def tree_broadcast(x: torch.Tensor, group: Group = None, root: int = 0) -> torch.Tensor:
    """The root's x, on every rank; the others' x gives shape and dtype only. `root` is a rank of the group.

    ceil(lg p) rounds; in round k the 2^k ranks that have it send it 2^k further. The root sends ceil(lg p)
    times x's bytes, all ranks together p-1 times. Raises ValueError for a root outside the group.
    """
    rank, ranks = _place(group)
    if not 0 <= root < ranks:
        raise ValueError(f"root={root} is no rank of a group of {ranks}: choose 0 to {ranks - 1}")
    out, place, have = x.detach().contiguous().clone(), (rank - root) % ranks, 1
    while have < ranks:
        if place < have and place + have < ranks:
            _exchange(out, rank + have, None, None, group)
        elif have <= place < 2 * have:
            _exchange(None, None, out, rank - have, group)
        have *= 2
    return out


def direct_all_to_all(x: torch.Tensor, group: Group = None) -> torch.Tensor:
    """Block r of every rank's x, joined along dim 0 in the order of ranks, on rank r.

    x is cut into p blocks along dim 0; result: p times this rank's block. p-1 rounds: in round k every rank
    sends one block straight to the rank k to its right; (p-1)/p of x's bytes sent per rank.
    """
    rank, ranks = _place(group)
    blocks = _chunks(x, ranks)
    out = torch.cat([blocks[rank]] * ranks)
    arrived = torch.split(out, [len(blocks[rank])] * ranks)
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        _exchange(blocks[to], to, arrived[source], source, group)
    return out


def bruck_all_to_all(x: torch.Tensor, group: Group = None) -> torch.Tensor:
    """Block r of every rank's x, joined along dim 0 in the order of ranks, on rank r: few rounds, more bytes.

    ceil(lg p) rounds: a block that has j ranks to go hops 2^k to the right for each digit k in binary j; all
    blocks of a round travel as one message. For p = 2^k every rank sends lg p / 2 times x's bytes.
    Bruck et al. 1997.
    """
    rank, ranks = _place(group)
    blocks = _chunks(x, ranks)
    held = [blocks[(rank + way) % ranks] for way in range(ranks)]
    hop = 1
    while hop < ranks:
        ways = [way for way in range(ranks) if way & hop]
        lengths = [len(blocks[(rank - hop + way // hop * hop) % ranks]) for way in ways]
        arriving = x.new_empty((sum(lengths), *x.shape[1:]))
        _exchange(torch.cat([held[way] for way in ways]), rank + hop, arriving, rank - hop, group)
        for way, block in zip(ways, torch.split(arriving, lengths), strict=True):
            held[way] = block
        hop *= 2
    return torch.cat([held[(rank - source) % ranks] for source in range(ranks)])


def _ring_reduce(
    parts: Sequence[torch.Tensor], sums: Sequence[torch.Tensor], rank: int, group: Group
) -> None:
    """Fills sums[rank]: in each round a partial sum comes from the left, gets this rank's part, goes on."""
    places = [sums[rank - step] for step in range(2, len(parts) + 1)]
    posted = _post(places, rank - 1, group)
    leaving = parts[rank - 1]
    for step, arriving in enumerate(places, start=2):
        _exchange(leaving, rank + 1, arriving, rank - 1, group, posted)
        leaving = arriving.add_(parts[rank - step])
    if len(parts) == 1:
        sums[0].copy_(parts[0])


def _ring_gather(shards: Sequence[torch.Tensor], rank: int, group: Group) -> None:
    """Fills all shards from shards[rank]: in each round the one that came last goes on to the right."""
    places = [shards[rank - step] for step in range(1, len(shards))]
    posted = _post(places, rank - 1, group)
    leaving = shards[rank]
    for arriving in places:
        _exchange(leaving, rank + 1, arriving, rank - 1, group, posted)
        leaving = arriving


def _halve_and_double(total: torch.Tensor, rank: int, ranks: int, group: Group) -> None:
    """All-reduce in place on the first `ranks` ranks, a power of two."""
    chunks = total.tensor_split(ranks)
    starts = [0, *(sum(len(c) for c in chunks[: i + 1]) for i in range(ranks))]

    def block(of: int, width: int) -> torch.Tensor:
        first = of // width * width
        return total[starts[first] : starts[first + width]]

    width = ranks // 2
    while width:
        mine, arriving = block(rank, width), torch.empty_like(block(rank, width))
        _exchange(block(rank ^ width, width), rank ^ width, arriving, rank ^ width, group)
        mine += arriving
        width //= 2
    width = 1
    while width < ranks:
        _exchange(block(rank, width), rank ^ width, block(rank ^ width, width), rank ^ width, group)
        width *= 2


def _exchange(
    send: torch.Tensor | None,
    to: int | None,
    receive: torch.Tensor | None,
    source: int | None,
    group: Group,
    posted: Iterator[dist.Work] | None = None,
) -> None:
    """One round: sends one message, receives one, waits for both. Ranks are the group's, counted round.

    With `posted` the receive is the next of those. Else it goes before the send: a message that finds no
    receive waits for it.
    """
    ops = []
    if receive is not None and receive.numel() and posted is None:
        ops.append(dist.P2POp(dist.irecv, receive, _global(source, group), group))
    if send is not None and send.numel():
        ops.append(dist.P2POp(dist.isend, send, _global(to, group), group))
    works = dist.batch_isend_irecv(ops) if ops else []
    if receive is not None and receive.numel() and posted is not None:
        next(posted).wait()
    for work in works:
        work.wait()


def _post(places: Sequence[torch.Tensor], source: int, group: Group) -> Iterator[dist.Work] | None:
    """Receives for all the rounds to come, so that no message waits; None on cards.

    A card's queue runs in order: a receive posted ahead of this rank's own send would block it for ever.
    """
    if not places or places[0].device.type != "cpu":
        return None
    peer = _global(source, group)
    works = [dist.irecv(place, peer, group) for place in places if place.numel()]
    return iter([work for work in works if work is not None])


def _place(group: Group) -> tuple[int, int]:
    """This rank's number in the group, and how many there are; raises ValueError for a rank outside it."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group: let only its members call")
    return rank, ranks


def _global(rank: int | None, group: Group) -> int:
    """The global number of a rank of the group."""
    assert rank is not None, "a message without a partner"
    group = group or dist.group.WORLD
    assert group is not None, "torch.distributed is not initialised"
    return dist.get_global_rank(group, rank % dist.get_world_size(group))


def _chunks(x: torch.Tensor, ranks: int, sizes: Sequence[int] | None = None) -> tuple[torch.Tensor, ...]:
    """One chunk a rank along dim 0, each contiguous."""
    if not x.ndim:
        raise ValueError("a tensor without dimensions cannot be cut: give x.reshape(1)")
    whole = x.detach().contiguous()
    if sizes is None:
        return whole.tensor_split(ranks)
    if len(sizes) != ranks or sum(sizes) != len(x) or min(sizes) < 0:
        raise ValueError(
            f"sizes={list(sizes)} does not fit: {ranks} ranks, and {len(x)} rows to cut; "
            "give every chunk's length along dim 0, by rank, that sum to it"
        )
    return torch.split(whole, list(sizes))


def _shard_sizes(x: torch.Tensor, rank: int, ranks: int, sizes: Sequence[int] | None) -> list[int]:
    if not x.ndim:
        raise ValueError("a shard without dimensions cannot be joined: give x.reshape(1)")
    if sizes is None:
        return [len(x)] * ranks
    if len(sizes) != ranks or sizes[rank] != len(x):
        raise ValueError(
            f"sizes={list(sizes)} does not fit: {ranks} ranks, and rank {rank} has {len(x)} rows; "
            "give every shard's length along dim 0, by rank"
        )
    return list(sizes)
