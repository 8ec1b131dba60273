"""One picture a file: data in, axes out. Drawing computes nothing and touches no rank.

    ml.draw.shards(before, after)   who holds what, before and after
    ml.draw.layout(before, after)   which rank holds which positions of which heads, and who sent them
    ml.draw.matmul(x, w, y)         Y = X W, whole or cut by columns or by rows
    ml.draw.pair(x, a, z, b, y)     two products, the first cut by columns and the second by rows
    ml.draw.stages(stages)          what each rank holds from stage to stage of a layer
    ml.draw.mask(positions)         which query sees which key, who computes it, and how much that is
    ml.draw.held(cases)             bytes that each rank holds, by kind
    ml.draw.error(got, want)        where a result is wrong, and by how much
    ml.draw.route(tokens, routes, holders)  tokens, the experts that take them, and who computes how many
    ml.draw.images(rows)            rows of small pictures that a model made
    ml.draw.seams(pictures, want)   photographs made tile by tile, and where they are wrong
    ml.draw.moves(run)              who sends to whom, round by round
    ml.draw.ring(run)               whose block each rank holds, step by step
    ml.draw.mesh(axes)              ranks on a mesh, and who talks to whom on which axis
    ml.draw.traffic(run)            bytes from rank to rank: counted beside on the wire
    ml.draw.timeline(run)           who was in which call, when; or when, on another machine (ml.replay)
    ml.draw.pipeline(slots)         which stage worked on what, when, and when it idled
    ml.draw.topology(topology)      cards, links and their rates
    ml.draw.curve(calibration)      time against message size
    ml.draw.curves(rows)            modelled times of several algorithms, and which is quickest
    ml.draw.choices(plan)           layouts of a plan: seconds against memory or throughput
    ml.draw.play(run)               a run, step by step
    ml.draw.explore(fn, presets)    a picture with sliders

Each takes `ax=None` and returns an Axes; as the last line of a cell it shows one picture with its alt text.
    >>> rounds = [[(0, 1, 1024), (1, 0, 1024)]]  # rounds made by hand: source, target, bytes
    >>> "1 KiB" in ml.draw.moves(rounds).alt
    True

`language="zh"` (or the environment variable MINDLAB_LANGUAGE) draws Chinese words where a font has them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Public name -> the module that draws it. Loaded on first use: matplotlib costs a third of a second.
_HOMES = {
    "shards": "mindlab.draw.strips",
    "layout": "mindlab.draw.exchange",
    "matmul": "mindlab.draw.products",
    "moves": "mindlab.draw.arrows",
    "ring": "mindlab.draw.circulation",
    "traffic": "mindlab.draw.matrix",
    "timeline": "mindlab.draw.lanes",
    "topology": "mindlab.draw.machine",
    "curve": "mindlab.draw.loglog",
    "curves": "mindlab.draw.contest",
    "choices": "mindlab.draw.frontier",
    "error": "mindlab.draw.heat",
    "images": "mindlab.draw.thumbnails",
    "seams": "mindlab.draw.mosaics",
    "held": "mindlab.draw.holdings",
    "mask": "mindlab.draw.causal",
    "pair": "mindlab.draw.paired",
    "stages": "mindlab.draw.handover",
    "route": "mindlab.draw.routed",
    "pipeline": "mindlab.draw.slots",
    "mesh": "mindlab.draw.mesh_places",
    "play": "mindlab.draw.player",
    "explore": "mindlab.draw.explorer",
    "Piece": "mindlab.draw.pieces",
    "Move": "mindlab.draw.rounds",
}

if TYPE_CHECKING:
    from mindlab.draw.arrows import moves as moves
    from mindlab.draw.causal import mask as mask
    from mindlab.draw.circulation import ring as ring
    from mindlab.draw.contest import curves as curves
    from mindlab.draw.exchange import layout as layout
    from mindlab.draw.explorer import explore as explore
    from mindlab.draw.frontier import choices as choices
    from mindlab.draw.handover import stages as stages
    from mindlab.draw.heat import error as error
    from mindlab.draw.holdings import held as held
    from mindlab.draw.lanes import timeline as timeline
    from mindlab.draw.loglog import curve as curve
    from mindlab.draw.machine import topology as topology
    from mindlab.draw.matrix import traffic as traffic
    from mindlab.draw.mesh_places import mesh as mesh
    from mindlab.draw.mosaics import seams as seams
    from mindlab.draw.paired import pair as pair
    from mindlab.draw.pieces import Piece as Piece
    from mindlab.draw.player import play as play
    from mindlab.draw.products import matmul as matmul
    from mindlab.draw.rounds import Move as Move
    from mindlab.draw.routed import route as route
    from mindlab.draw.slots import pipeline as pipeline
    from mindlab.draw.strips import shards as shards
    from mindlab.draw.thumbnails import images as images

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"mindlab.draw has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
