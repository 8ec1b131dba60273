"""A round in words, in English and Chinese. Pure: it draws nothing."""

from __future__ import annotations

from mindlab.draw.rounds import Joint, Move, Round
from mindlab.predict import units

_MOST_NAMED = 4


def name(one: Round, number: int, lang: str = "en") -> str:
    """The name of a round: its step label, else its number from 1."""
    return one.label or (f"第 {number + 1} 轮" if lang == "zh" else f"round {number + 1}")


def sizes(one: Round) -> str:
    """How many transfers of which size, and which collectives: "4 × 256 KiB", "all_reduce 1 MiB"."""
    kinds = list(dict.fromkeys((j.op, j.nbytes) for j in one.joint))
    parts = [f"{len(one.moves)} × {_span(one)}"] if _span(one) else []
    return "; ".join([*parts, *(f"{op} {units.size(n)}" if n else op for op, n in kinds)])


def sentence(one: Round, ranks: int, lang: str = "en") -> str:
    """What happens in a round: "every rank sends 256 KiB to the next rank"."""
    said = [_moves(one, ranks, lang)] if one.moves else []
    said += [_joint(joint, lang) for joint in one.joint]
    return ("；" if lang == "zh" else "; ").join(said)


def so_far(nbytes: int, lang: str = "en") -> str:
    """How much has moved up to now."""
    return f"累计传输 {units.size(nbytes)}。" if lang == "zh" else f"Moved so far: {units.size(nbytes)}."


def _span(one: Round) -> str:
    known = sorted({move.nbytes for move in one.moves if move.nbytes})
    if not known:
        return ""
    return units.size(known[0]) if len(known) == 1 else f"{units.size(known[0])} to {units.size(known[-1])}"


def _moves(one: Round, ranks: int, lang: str) -> str:
    step = _common_step(one, ranks)
    span = _span(one).replace(" to ", " 至 " if lang == "zh" else " to ")
    if step:
        return _by_step(step, ranks, span, lang)
    if len(one.moves) <= _MOST_NAMED:
        return ("，" if lang == "zh" else ", ").join(_move(move, lang) for move in one.moves)
    if _all_pairs(one, ranks):
        text = "每张卡向其他每张卡发送 {}" if lang == "zh" else "every rank sends {} to every other rank"
        return text.format(span or ("一块" if lang == "zh" else "a piece"))
    pairs = ", ".join(f"{move.source}→{move.target}" for move in one.moves[:_MOST_NAMED])
    if lang == "zh":
        return f"{len(one.moves)} 次传输，每次 {span}：{pairs} 等"
    return f"{len(one.moves)} transfers of {span}: {pairs} and others"


def _by_step(step: int, ranks: int, span: str, lang: str) -> str:
    if lang == "zh":
        target = "下一张卡" if step == 1 else "上一张卡" if step == ranks - 1 else f"编号 +{step} 的卡"
        return f"每张卡向{target}发送 {span or '一块'}"
    target = "the next rank" if step == 1 else "the previous rank" if step == ranks - 1 else f"rank + {step}"
    return f"every rank sends {span or 'a piece'} to {target}"


def _common_step(one: Round, ranks: int) -> int:
    """The d of "every rank r sends to rank r + d (mod p)", or 0. At p = 2 there is no next or previous."""
    steps = {(move.target - move.source) % ranks for move in one.moves}
    alike = len({(move.nbytes, bool(move.name)) for move in one.moves}) == 1
    return steps.pop() if len(steps) == 1 and len(one.moves) == ranks > 2 and alike else 0


def _all_pairs(one: Round, ranks: int) -> bool:
    return len({(move.source, move.target) for move in one.moves}) == ranks * (ranks - 1)


def _move(move: Move, lang: str) -> str:
    size = units.size(move.nbytes) if move.nbytes else ""
    what = " ".join(part for part in (move.name, size) if part)
    if lang == "zh":
        return f"卡 {move.source} 向卡 {move.target} 发送 {what}".strip()
    return f"rank {move.source} sends {what or 'a piece'} to rank {move.target}"


def _joint(joint: Joint, lang: str) -> str:
    who = ", ".join(map(str, joint.ranks))
    size = units.size(joint.nbytes)
    if lang == "zh":
        return f"卡 {who} 共同调用 {joint.op}，每卡 {size}：谁发给谁，只有线上计数知道"
    return f"ranks {who} call {joint.op} on {size} each: who sends what to whom shows on the wire only"
