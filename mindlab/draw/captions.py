"""A round in words, in English and Chinese. Pure: it draws nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mindlab.draw.rounds import Joint, Move, Round
from mindlab.predict import units

_MOST_NAMED = 4


def names(rounds: Sequence[Round], lang: str = "en") -> list[str]:
    """The name of each round: its step label, counted where several rounds share it, else its number."""
    totals, met = Counter(one.label for one in rounds), Counter[str]()
    found = []
    for number, one in enumerate(rounds, 1):
        met[one.label] += 1
        turn = f" {met[one.label]} / {totals[one.label]}" if totals[one.label] > 1 else ""
        unnamed = f"第 {number} 轮" if lang == "zh" else f"round {number}"
        found.append(f"{one.label}{turn}" if one.label else unnamed)
    return found


def sizes(one: Round) -> str:
    """How many transfers of which size, and which collectives: "4 × 256 KiB", "all_reduce 1 MiB"."""
    kinds = list(dict.fromkeys((j.op, j.nbytes) for j in one.joint))
    count = sum(move.messages for move in one.moves)
    parts = [f"{count} × {_span(one, each=True)}"] if _span(one) else []
    return "; ".join([*parts, *(f"{op} {units.size(n)}" if n else op for op, n in kinds)])


def sentence(one: Round, ranks: int, lang: str = "en") -> str:
    """What happens in a round: "every rank sends 256 KiB to the next rank"."""
    said = [_moves(one, ranks, lang)] if one.moves else []
    kinds = dict.fromkeys((joint.op, joint.nbytes) for joint in one.joint)
    said += [_joint([j for j in one.joint if (j.op, j.nbytes) == kind], lang) for kind in kinds]
    return ("；" if lang == "zh" else "; ").join(said)


def so_far(nbytes: int, lang: str = "en") -> str:
    """How much has moved up to now, without what the calls' arguments do not say."""
    return f"累计计数 {units.size(nbytes)}。" if lang == "zh" else f"Counted so far: {units.size(nbytes)}."


def _span(one: Round, each: bool = False) -> str:
    """The bytes of a move, or from the least to the most; with `each` those of one message, on average."""
    known = sorted({move.nbytes / (move.messages if each else 1) for move in one.moves if move.nbytes})
    if not known:
        return ""
    return units.size(known[0]) if len(known) == 1 else f"{units.size(known[0])} to {units.size(known[-1])}"


def _moves(one: Round, ranks: int, lang: str) -> str:
    step = _common_step(one, ranks)
    span = _span(one)
    if " to " in span:
        span = span.replace(" to ", " 至 ") if lang == "zh" else f"between {span.replace(' to ', ' and ')}"
    span += _in_messages(one, lang)
    if step:
        return _by_step(step, ranks, span, lang)
    if fan := _fan(one, ranks, lang):
        return fan.format(span or ("一块" if lang == "zh" else "a piece"))
    if len(one.moves) <= _MOST_NAMED:
        return ("，" if lang == "zh" else ", ").join(_move(move, lang) for move in one.moves)
    pairs = ", ".join(f"{move.source}→{move.target}" for move in one.moves[:_MOST_NAMED])
    if lang == "zh":
        return f"{len(one.moves)} 次传输，每次 {span}：{pairs} 等"
    return f"{len(one.moves)} transfers of {span}: {pairs} and others"


def _in_messages(one: Round, lang: str) -> str:
    """The words " in 2 messages" where every move stands for as many, and for more than one."""
    counts = {move.messages for move in one.moves}
    if counts == {1} or len(counts) > 1:
        return ""
    return f"（分 {counts.pop()} 条消息）" if lang == "zh" else f" in {counts.pop()} messages"


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


def _fan(one: Round, ranks: int, lang: str) -> str:
    """The sentence for all to all, one to all, or all to one, with {} for the size; else ""."""
    pairs = {(move.source, move.target) for move in one.moves}
    sources, targets = ({pair[end] for pair in pairs} for end in (0, 1))
    if ranks < 3 or len(pairs) != len(one.moves) or any(move.name for move in one.moves):
        return ""
    if len(pairs) == ranks * (ranks - 1):
        return "每张卡向其他每张卡发送 {}" if lang == "zh" else "every rank sends {} to every other rank"
    if len(pairs) != ranks - 1 or min(len(sources), len(targets)) != 1:
        return ""
    source, target = min(sources), min(targets)
    if len(sources) == 1:
        return (
            f"卡 {source} 向其他每张卡发送 {{}}"
            if lang == "zh"
            else f"rank {source} sends {{}} to every other rank"
        )
    return (
        f"其他每张卡向卡 {target} 发送 {{}}"
        if lang == "zh"
        else f"every other rank sends {{}} to rank {target}"
    )


def _move(move: Move, lang: str) -> str:
    size = units.size(move.nbytes) if move.nbytes else ""
    what = " ".join(part for part in (move.name, size) if part)
    if lang == "zh":
        return f"卡 {move.source} 向卡 {move.target} 发送 {what}".strip()
    return f"rank {move.source} sends {what or 'a piece'} to rank {move.target}"


def _joint(alike: Sequence[Joint], lang: str) -> str:
    """One call of one group, or the same call of several groups side by side."""
    op, nbytes = alike[0].op, alike[0].nbytes
    groups = [", ".join(map(str, joint.ranks)) for joint in alike]
    if lang == "zh":
        who = f"卡 {groups[0]}" if len(groups) == 1 else "卡组 " + "、".join(f"({g})" for g in groups)
        size = f"，每卡 {units.size(nbytes)}：谁发给谁，只有线上计数知道" if nbytes else "，不传输数据"
        return f"{who} 共同调用 {op}{size}"
    who = f"ranks {groups[0]}" if len(groups) == 1 else "groups " + " and ".join(f"({g})" for g in groups)
    size = f" on {units.size(nbytes)} each: who sends what to whom shows on the wire only"
    return f"{who} call {op}" + (size if nbytes else ", which moves no data")
