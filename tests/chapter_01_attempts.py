"""Answers to the exercises of chapter 01: right ones, and wrong ones with what must be said."""

from __future__ import annotations

HEAD = (
    "    rank, p = dist.get_rank(), dist.get_world_size()\n    right, left = (rank + 1) % p, (rank - 1) % p\n"
)


def _function(name: str, body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"def {name}(numel):\n{HEAD}{lines}"


def scatter(body: str) -> str:
    """The text of my_reduce_scatter with this body."""
    return _function("my_reduce_scatter", "chunks = list(mine(numel).tensor_split(p))\n" + body.strip())


def broadcast(body: str) -> str:
    """The text of my_broadcast with this body."""
    start = "x = mine(numel) if rank == 0 else torch.zeros(numel, device=ml.device())\n"
    return _function("my_broadcast", start + body.strip())


def repaired(body: str) -> str:
    """The text of repaired_ring with this body."""
    return _function("repaired_ring", body)


def forward(expression: str) -> str:
    """The text of forward."""
    return f"def forward(rank, step):\n    return {expression}\n"


_RING = """
for step in range({steps}):
    into = chunks[(rank - step - {lag}) % p]
    arriving = torch.empty_like(into)
    sending = dist.isend(chunks[(rank - step - {lag} + 1) % p], {to})
    dist.recv(arriving, {source})
    sending.wait()
    {add}
return chunks[{kept}]
"""


def _ring(**changes: str) -> str:
    usual = {
        "steps": "p - 1",
        "lag": "2",
        "to": "right",
        "source": "left",
        "add": "into += arriving",
        "kept": "rank",
    }
    return _RING.format(**{**usual, **changes})


RIGHT = {
    "scatter: in a batch": scatter("""
total = chunks[rank - 1]
for step in range(2, p + 1):
    arriving = torch.empty_like(chunks[rank - step])
    pair = [dist.P2POp(dist.isend, total, right), dist.P2POp(dist.irecv, arriving, left)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    total = arriving + chunks[rank - step]
return total
"""),
    "scatter: irecv first": scatter(
        _ring()
        .replace("sending = ", "coming = dist.irecv(arriving, left)\n    sending = ")
        .replace("dist.recv(arriving, left)", "coming.wait()")
    ),
    "broadcast: from the top": broadcast("""
width = 1
while width < p:
    width *= 2
while width > 1:
    half = width // 2
    if rank % width == 0 and rank + half < p:
        dist.send(x, rank + half)
    elif rank % width == half:
        dist.recv(x, rank - half)
    width = half
return x
"""),
    "broadcast: the package's": broadcast("return ml.collectives.tree_broadcast(x)"),
    "repaired: the package's ring": repaired("return ml.collectives.ring_all_reduce(mine(numel))"),
    "repaired: halves by hand": repaired("""
chunks = list(mine(numel).tensor_split(p))
def move(number, adding):
    into = chunks[(number - 1) % p]
    arriving = torch.empty_like(into)
    sending = dist.isend(chunks[number % p], right)
    dist.recv(arriving, left)
    sending.wait()
    into.copy_(into + arriving if adding else arriving)
for step in range(p - 1):
    move(rank - step, adding=True)
for step in range(p - 1):
    move(rank + 1 - step, adding=False)
return torch.cat(chunks)
"""),
    "forward: with a modulus": forward("(rank + 1 - step) % dist.get_world_size()"),
    "forward: counted on": forward("rank - (step - 1)"),
}

WRONG_SCATTER = {
    "the whole tensor travels": (
        r"p = 3: bytes: .*3(\.00\d)? times the predicted.*whole tensor",
        scatter("""
whole = torch.cat(chunks)
total, travelling = whole.clone(), whole
for step in range(p - 1):
    arriving = torch.empty_like(whole)
    sending = dist.isend(travelling, right)
    dist.recv(arriving, left)
    sending.wait()
    total += arriving
    travelling = arriving
return total.tensor_split(p)[rank]
"""),
    ),
    "the neighbour's chunk is kept": (
        r"chunk r of the sum on rank r: rank \d",
        scatter(_ring(lag="1", kept="(rank + 1) % p")),
    ),
    "one round is missing": (r"chunk r of the sum on rank r: rank 0: element", scatter(_ring(steps="p - 2"))),
    "what arrives is kept, not added": (
        r"chunk r of the sum on rank r: rank 0: element",
        scatter(_ring(add="into.copy_(arriving)")),
    ),
    "the remainder is dropped": (
        r"chunk r of the sum on rank r: rank 0: shape",
        scatter(
            """
chunks = list(torch.cat(chunks)[: numel // p * p].chunk(p))
"""
            + _ring()
        ),
    ),
    "towards the left": (
        r"all to the right neighbour: .*0 B",
        scatter("""
for step in range(p - 1):
    into = chunks[(rank + step + 2) % p]
    arriving = torch.empty_like(into)
    sending = dist.isend(chunks[(rank + step + 1) % p], left)
    dist.recv(arriving, right)
    sending.wait()
    into += arriving
return chunks[rank]
"""),
    ),
    "straight to the owner": (
        r"all to the right neighbour: ",
        scatter("""
arriving = [torch.empty_like(chunks[rank]) for _ in range(p)]
coming = [dist.irecv(arriving[r], r) for r in range(p) if r != rank]
going = [dist.isend(chunks[r], r) for r in range(p) if r != rank]
for work in coming + going:
    work.wait()
return sum(arriving[r] if r != rank else chunks[rank] for r in range(p))
"""),
    ),
    "chunks in two messages": (
        r"messages: .*2 times the predicted",
        scatter("""
for step in range(p - 1):
    for part in (0, 1):
        into = chunks[(rank - step - 2) % p].tensor_split(2)[part]
        arriving = torch.empty_like(into)
        sending = dist.isend(chunks[(rank - step - 1) % p].tensor_split(2)[part], right)
        dist.recv(arriving, left)
        sending.wait()
        into += arriving
return chunks[rank]
"""),
    ),
    "the library does it": (
        r"bytes: nothing was measured|bytes: no ",
        scatter("""
whole = torch.cat(chunks)
dist.all_reduce(whole)
return whole.tensor_split(p)[rank]
"""),
    ),
}

WRONG_BROADCAST = {
    "a star": (
        r"p = 4: the most bytes of one rank: .*1\.5 times",
        broadcast("""
if rank == 0:
    for work in [dist.isend(x, r) for r in range(1, p)]:
        work.wait()
else:
    dist.recv(x, 0)
return x
"""),
    ),
    "a chain": (
        r"the most bytes of one rank: .*0\.5 times",
        broadcast("""
if rank > 0:
    dist.recv(x, left)
if rank < p - 1:
    dist.send(x, right)
return x
"""),
    ),
    "powers of two only": (
        r"rank 0's tensor: rank 2",
        broadcast("""
have = 1
while 2 * have <= p:
    if rank < have:
        dist.send(x, rank + have)
    elif rank < 2 * have:
        dist.recv(x, rank - have)
    have *= 2
return x
"""),
    ),
    "everybody gets it twice": (
        r"the most bytes of one rank: .*2 times",
        broadcast("""
return ml.collectives.tree_broadcast(ml.collectives.tree_broadcast(x))
"""),
    ),
    "another root": (
        r"rank 0's tensor: rank 0",
        broadcast("return ml.collectives.tree_broadcast(mine(numel), root=1)"),
    ),
    "in two rows, one after the other": (
        r"p = 4: the most bytes of one rank: .*1\.5 times|rounds: ",
        broadcast("""
if rank == 0:
    for r in range(1, p):
        dist.send(x, r)
else:
    dist.recv(x, 0)
return x
"""),
    ),
}

WRONG_BYTES = {
    "a ring of chunks": (r"case 2: what the published ring sends: ", "2 * (ranks - 1) * D // ranks"),
    "one phase": (r"case 2: what the published ring sends: ", "(ranks - 1) * D // ranks"),
    "p rounds": (r"case 2: what the published ring sends: ", "ranks * D"),
    "all ranks together": (r"4|total of all ranks|0\.25 times", "ranks * (ranks - 1) * D"),
    "elements, not bytes": (r"4 times the predicted", "(ranks - 1) * D // 4"),
}

WRONG_REPAIR = {
    "as published": (r"p = 3: bytes: .*1\.5\d* times", repaired("return published_ring(numel)")),
    "gather, then add": (r"p = 3: bytes: .*1\.5\d* times", repaired("return gather_then_add(numel)")),
    "without the second half": (
        r"the sum: rank 0: shape",
        repaired("return ml.collectives.ring_reduce_scatter(mine(numel))"),
    ),
    "equal chunks": (
        r"the sum: .*shape",
        repaired("""
x = mine(numel)[: numel // p * p]
return ml.collectives.ring_all_gather(ml.collectives.ring_reduce_scatter(x))
"""),
    ),
    "summed twice": (
        r"the sum: rank 0: element",
        repaired("""
x = ml.collectives.ring_all_reduce(mine(numel))
return x + x
"""),
    ),
    "as before 2020": (r"the sum: rank 0: element", repaired("return ring_until_2020(numel)")),
}

WRONG_FORWARD = {
    text: (r"p = 3: the sum: rank 0: element", forward(text))
    for text in ("rank - step", "rank", "rank + 1 + step", "rank - 1 - step", "rank + 2 - step", "step")
}
