"""What a stage costs on a layout and a topology, part by part: seconds, bytes, and what the model leaves out.

One model for all: FLOP at the rate that a card reaches, weights and cache at the rate of its memory, each
exchange by its closed form on the links that its group uses. Ring steps hide behind attention; nothing else
hides. What one kernel call costs the host is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from mindlab.errors import MindlabError
from mindlab.planning.exchanges import Exchanges
from mindlab.planning.layouts import Layout, guided
from mindlab.planning.parts import Part, Stage
from mindlab.planning.topologies import Fact, Topology
from mindlab.planning.workloads import Pictures, Text
from mindlab.predict import flops
from mindlab.predict.architectures import Architecture
from mindlab.predict.memory import model_weights
from mindlab.predict.quantity import Quantity


def denoise(model: Architecture, layout: Layout, work: Pictures, machine: Topology) -> Stage:
    """All steps of one picture: the passes of a rank, their exchanges, and the swap of predictions."""
    tokens = model.tokens(frames=work.frames, height=work.height, width=work.width)
    passes = work.steps * (2 if guided(model, work) else 1) / layout.cfg
    terms = flops.dit_terms(model, tokens)
    exchanges = Exchanges(model, layout, machine, work.itemsize)
    parts = _whole_pass(terms, layout, machine, exchanges, tokens, passes)
    parts += exchanges.predictions(tokens, work.steps)
    parts.append(Part("serial", work.serial))
    return Stage("denoise", _kept(parts), layout.pipeline)


def vae(model: Architecture, layout: Layout, work: Pictures, machine: Topology) -> Stage:
    """Decoding one picture in rows of tiles, one for each rank that made it; work in halos is done twice.

    Takes the seconds of one card from the work; halos are sent once, before the first layer.
    """
    dit = model.dit
    assert dit is not None
    ranks = layout.ranks // layout.data
    latent = (max(ranks, work.height // dit.vae_stride[1]), work.width // dit.vae_stride[2])
    again = float(flops.recomputed(latent, (ranks, 1), work.vae_halo)) if ranks > 1 else 0.0
    parts = [Part("vae", work.vae * (1 + again) / ranks)]
    if ranks > 1 and work.vae_halo:
        frames = 1 + (work.frames - 1) // dit.vae_stride[0]
        row = latent[1] * dit.channels * frames * work.itemsize
        parts.append(Exchanges(model, layout, machine, work.itemsize).halo(2 * work.vae_halo * row))
    return Stage("vae", _kept(parts))


def prefill(model: Architecture, layout: Layout, work: Text, machine: Topology) -> Stage:
    """The prompt of one request: all positions at once."""
    terms = flops.prefill_terms(model, work.prompt)
    exchanges = Exchanges(model, layout, machine, work.itemsize)
    parts = _whole_pass(terms, layout, machine, exchanges, work.prompt, 1, read=_weights(model, layout, work))
    return Stage("prefill", _kept(parts), layout.pipeline)


def decode(model: Architecture, layout: Layout, work: Text, machine: Topology) -> Stage:
    """One token of each request that a replica serves, in the middle of the answer."""
    batch = -(-work.requests // layout.data)
    micro = -(-batch // layout.pipeline)
    context = work.prompt + work.output // 2
    terms = flops.decode_terms(model, context, batch=micro)
    flop = _flop(terms, layout.tensor, layout.tensor * layout.kv)
    cached = micro * context * model.kv_bytes_per_token(work.itemsize).value / _cache_cut(model, layout)
    weights = _weights(model, layout, work, tokens=micro) * layout.pipeline
    exchanges = Exchanges(model, layout, machine, work.itemsize)
    parts = _roofline(flop, weights + cached, machine)
    parts += exchanges.token(micro)
    return Stage("decode", _kept(parts), 1, work.output)


def layout_change(model: Architecture, before: Layout, after: Layout, work: Text, machine: Topology) -> Part:
    """What a prompt's keys and values cost on their way from the prefill's shards to the decoding ones.

    Each rank keeps what it would hold afterwards too, 1/c of its shard, and sends the rest to its group.
    This is the mean over the cards. Where the decoding splits the requests, and fewer come at once than
    there are replicas, the cards that lose theirs send up to twice as much.
    """
    shared = before.ring * before.ulysses
    cached = work.prompt * model.kv_bytes_per_token(work.itemsize).value
    own = cached / (_cache_cut(model, before) * before.pipeline)
    exchanges = Exchanges(model, before, machine, work.itemsize)
    return exchanges.context_change(own) if shared > 1 else Part("layout change", 0.0)


def rate(machine: Topology) -> float:
    """FLOP/s of a card. Raises MindlabError where that is unknown."""
    return _known(machine, "rate", "computes", "FLOP/s")


def memory_rate(machine: Topology) -> float:
    """Bytes a second of a card's memory. Raises MindlabError where that is unknown."""
    return _known(machine, "memory_rate", "reads its memory", "B/s")


def _known(machine: Topology, name: str, does: str, unit: str) -> float:
    fact: Fact = getattr(machine.card, name)
    if fact.value is None:
        raise MindlabError(
            f"how fast {machine.card.name} {does} is unknown ({fact.source}): give the topology with "
            f".assume({name}=…), in {unit}"
        )
    return fact.value


def _whole_pass(
    terms: Mapping[str, Quantity],
    layout: Layout,
    machine: Topology,
    exchanges: Exchanges,
    tokens: int,
    passes: float,
    read: float = 0.0,
) -> list[Part]:
    """The parts of passes over a whole sequence, which `context` ranks share."""
    uneven = -(-tokens // layout.context) * layout.context / tokens
    cut = layout.tensor * layout.context / uneven
    flop = _flop(terms, cut, cut)
    parts = _roofline(flop, read * layout.pipeline, machine)
    attention = terms["attention"].value / cut / rate(machine)
    parts += exchanges.sequence(tokens, attention)
    return [Part(part.what, part.seconds * passes, part.nbytes * passes) for part in parts]


def _flop(terms: Mapping[str, Quantity], cut: float, attention_cut: float) -> float:
    return sum(term.value / (attention_cut if name == "attention" else cut) for name, term in terms.items())


def _roofline(flop: float, nbytes: float, machine: Topology) -> list[Part]:
    """Computing, and how much longer the memory takes."""
    computing = flop / rate(machine)
    reading = nbytes / memory_rate(machine) if nbytes else 0.0
    return [Part("computing", computing), Part("memory", max(0.0, reading - computing))]


def _weights(model: Architecture, layout: Layout, work: Text, tokens: int | None = None) -> float:
    """Bytes of weights that a rank reads in a pass; of experts those that so few tokens are sent to.

    Of an embedding that is not the matrix to logits too, only the rows of the tokens: they are left out.
    """
    whole = model_weights(
        model, itemsize=work.itemsize, tensor=layout.tensor, pipeline=layout.pipeline, expert=layout.expert
    ).value
    if not model.tied:
        whole -= model.vocabulary * model.hidden * work.itemsize / (layout.tensor * layout.pipeline)
    if model.experts is None or tokens is None:
        return float(whole)
    idle = (1 - model.experts.top_k / model.experts.count) ** tokens
    return float(whole) - idle * routed_weights(model, layout, work.itemsize)


def routed_weights(model: Architecture, layout: Layout, itemsize: int) -> float:
    """Bytes of the experts that tokens are routed to, on one rank: what is not read where no token came."""
    experts = model.experts
    if experts is None:
        return 0.0
    sparse = model.layers - experts.dense_layers
    one = 3 * model.hidden * experts.inner * itemsize
    return sparse * experts.count * one / (layout.pipeline * max(layout.tensor, layout.expert))


def _cache_cut(model: Architecture, layout: Layout) -> float:
    """Over how many ranks one token's keys and values are spread: heads only as far as there are some."""
    heads = 1 if model.latent is not None else min(layout.tensor, model.kv_heads)
    return heads * layout.context


def _kept(parts: list[Part]) -> tuple[Part, ...]:
    """The parts that are something, the longest first."""
    return tuple(sorted((part for part in parts if part.seconds or part.nbytes), key=lambda p: -p.seconds))
