"""The words in the pictures, in English and Chinese.

A picture's language is its `language` argument, else the environment variable MINDLAB_LANGUAGE, else English.
Chinese falls back to English where no font with Chinese glyphs is installed: no picture shows empty boxes.
"""

from __future__ import annotations

import functools
import os

_SAY: dict[str, tuple[str, str]] = {
    "rank": ("rank", "卡"),
    "before": ("before", "之前"),
    "after": ("after", "之后"),
    "step": ("step", "步骤"),
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
    "knee": ("α/β = {size}", "α/β = {size}"),
    "more_rounds": ("and {count} more rounds", "另有 {count} 轮"),
    "explore_line": ("sliders in JupyterLab: {sliders}", "在 JupyterLab 中可用滑块调节:{sliders}"),
    "presets": ("presets", "预设"),
    "drawing": (": drawing …", ":正在绘制 …"),
    "interrupted": (
        "Interrupted. Move a slider, or choose a preset, to draw again.",
        "已中断。移动滑块或选择预设即可重新绘制。",
    ),
    "nothing": ("no transfer was recorded", "没有记录到传输"),
}

_CJK_FONTS = (
    ("Noto Sans CJK SC", "NotoSansCJK"),
    ("Noto Sans SC", "NotoSansSC"),
    ("WenQuanYi Micro Hei", "wqy-microhei"),
    ("WenQuanYi Zen Hei", "wqy-zenhei"),
    ("Microsoft YaHei", "msyh"),
    ("PingFang SC", "PingFang"),
    ("SimHei", "simhei"),
)


def choose(language: str | None = None) -> str:
    """The language to draw in, "en" or "zh". Raises ValueError on any other."""
    wanted = language or os.environ.get("MINDLAB_LANGUAGE") or "en"
    if wanted not in ("en", "zh"):
        raise ValueError(f"language {wanted!r}: choose en or zh")
    return "en" if wanted == "zh" and not cjk_font() else wanted


def say(key: str, language: str, **values: object) -> str:
    """One phrase in a language, its {names} filled in."""
    return _SAY[key][language == "zh"].format(**values)


@functools.cache
def cjk_font() -> str:
    """The name of an installed font with Chinese glyphs that matplotlib can use, or "".

    Fonts installed after matplotlib wrote its cache are looked up on disk.
    """
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    for name, _ in _CJK_FONTS:
        if name in known:
            return name
    for path in sorted(font_manager.findSystemFonts()):
        for _, stem in _CJK_FONTS:
            if stem.lower() in os.path.basename(path).lower():
                font_manager.fontManager.addfont(path)
                return font_manager.fontManager.ttflist[-1].name
    return ""
