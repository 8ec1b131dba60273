"""The words in the pictures, in English and Chinese.

A picture's language is its `language` argument, else the environment variable MINDLAB_LANGUAGE, else English.
Chinese is drawn with the font that ships with the package (see `cjk`): no picture shows empty boxes.
"""

from __future__ import annotations

import os

from mindlab.draw import cjk

_SAY: dict[str, tuple[str, str]] = {
    "rank": ("rank", "卡"),
    "before": ("before", "之前"),
    "after": ("after", "之后"),
    "step": ("step", "步骤"),
    "between_steps": ("step {before} to {after}", "步骤 {before} 到 {after}"),
    "from": ("from rank", "发送卡"),
    "to": ("to rank", "接收卡"),
    "sent": ("sent", "发送"),
    "received": ("received", "接收"),
    "counted": ("counted", "调用计数"),
    "wire": ("on the wire", "实际线上"),
    "counted_by": ("arguments of the calls", "依据调用参数"),
    "payload": ("payload", "有效载荷"),
    "with_framing": ("payload and framing together", "含帧开销"),
    "framing": ("framing, not shown: {size}", "另有帧开销:{size}"),
    "no_wire": ("not measured on the wire", "没有线上测量"),
    "by_definition": ("drawn from the definition, nothing measured", "按定义绘制,并非测量"),
    "by_hand": ("drawn from the values given, nothing measured", "按给定数值绘制,并非测量"),
    "timed": ("timed", "计时"),
    "modelled": ("modelled, not timed", "模型推算,并非计时"),
    "time_ms": ("time in ms since the experiment began", "实验开始后的时间(毫秒)"),
    "longest": ("the {shown} longest of {total} calls", "仅显示 {total} 次调用中最长的 {shown} 次"),
    "send": ("send", "发送"),
    "receive": ("receive", "接收"),
    "collective": ("collective", "集合通信"),
    "unfinished": ("end unknown (nobody waited)", "结束时间未知(无人等待)"),
    "message_size": ("message size", "消息大小"),
    "seconds": ("time", "时间"),
    "median": ("median", "中位数"),
    "spread": ("slowest and fastest", "最慢与最快"),
    "fit": ("α + β·n: α = {alpha}, 1/β = {rate}", "α + β·n:α = {alpha},1/β = {rate}"),
    "latency": ("latency\ndominates", "延迟主导"),
    "bandwidth": ("bandwidth\ndominates", "带宽主导"),
    "quickest": ("quickest: {name}", "最快:{name}"),
    "knee": ("α/β = {size}", "α/β = {size}"),
    "more_rounds": ("and {count} more rounds", "另有 {count} 轮"),
    "explore_line": ("sliders in JupyterLab: {sliders}", "在 JupyterLab 中可用滑块调节:{sliders}"),
    "presets": ("presets", "预设"),
    "drawing": (": drawing …", ":正在绘制 …"),
    "interrupted": (
        "Interrupted. Move a slider, or choose a preset, to draw again.",
        "已中断。移动滑块或选择预设即可重新绘制。",
    ),
    "cut_columns": ("W cut by columns over {ranks} ranks", "W 按列切分到 {ranks} 张卡"),
    "cut_rows": ("W cut by rows, X by columns, over {ranks} ranks", "W 按行、X 按列切分到 {ranks} 张卡"),
    "side_by_side": ("the results side by side:", "结果并排:"),
    "added_up": ("each result is a partial sum; added up:", "各结果是部分和,相加:"),
    "position": ("position in the sequence", "序列位置"),
    "head": ("head", "头"),
    "goes_to": ("the sign: to which rank it goes", "标记:将发往的卡"),
    "came_from": ("the sign: from which rank it came", "标记:来自的卡"),
    "not_followed": ("not drawn: {ops}", "未绘制:{ops}"),
    "small_messages": ("messages of {size} or less", "不超过 {size} 的消息"),
    "sum_of": ("added up", "相加"),
    "key_position": ("position of the key", "键的位置"),
    "query_position": ("position of the query", "查询的位置"),
    "visible_pairs": ("visible pairs", "可见对数"),
    "balance": ("largest / mean = {ratio}", "最大 / 平均 = {ratio}"),
    "axes_of_stage": ("down: the sequence; across: heads or features", "纵向:序列;横向:头或特征"),
    "held_whole": ("whole on every rank", "各卡都有完整一份"),
    "held_terms": ("a term on every rank", "各卡一份部分和"),
    "cut_sequence": ("cut along the sequence", "沿序列切分"),
    "cut_along": ("cut along {dim}", "沿{dim}切分"),
    "error": ("error", "误差"),
    "reference": ("the right values", "正确值"),
    "largest": ("largest: {value}", "最大:{value}"),
    "mean_error": ("mean: {value}", "平均:{value}"),
    "on_one_card": ("on one card", "单卡"),
    "not_finite": ("not finite: {count}", "非有限值:{count}"),
    "from_run": (
        "shapes and ids of a run on {ranks} ranks ({backend})",
        "取自 {ranks} 张卡的一次运行({backend})",
    ),
    "from_calls": (
        "messages of a run on {ranks} ranks ({backend})",
        "{ranks} 张卡的一次运行中的消息({backend})",
    ),
    "nothing": ("no transfer was recorded", "没有记录到传输"),
    "across": ("across", "横向"),
    "down": ("down", "纵向"),
    "panels": ("side by side", "并排"),
    "nobody": ("nobody talks", "无通信"),
    "to_next": ("each to the next", "逐卡传递"),
    "each_with_each": ("each with each", "两两交换"),
    "a_rank": ("{size} a rank", "每卡 {size}"),
}


_TERMS = {
    "heads": "头",
    "hidden": "隐藏维",
    "feature": "特征",
    "features": "特征",
    "position": "位置",
    "weights": "权重",
    "activations": "激活",
    "buffers": "缓冲区",
    "KV": "KV",
}
"""Words that a caller may give and that a Chinese picture translates."""


def choose(language: str | None = None) -> str:
    """The language to draw in, "en" or "zh". Raises ValueError on any other."""
    wanted = language or os.environ.get("MINDLAB_LANGUAGE") or "en"
    if wanted not in ("en", "zh"):
        raise ValueError(f"language {wanted!r}: choose en or zh")
    return "en" if wanted == "zh" and not cjk_font() else wanted


def say(key: str, language: str, **values: object) -> str:
    """One phrase in a language, its {names} filled in."""
    return _SAY[key][language == "zh"].format(**values)


def term(word: str, language: str) -> str:
    """A word of the caller's, translated where it is known."""
    return _TERMS.get(word, word) if language == "zh" else word


def cjk_font() -> str:
    """The name of the font that Chinese is drawn with, the shipped one if it is there, or ""."""
    return next(iter(cjk.families()), "")
