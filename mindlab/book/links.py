"""Links in a chapter's prose: Markdown's `[text](target)` and `![alt](target)`, HTML's src and href."""

from __future__ import annotations

import re
from collections.abc import Callable

_LINK = re.compile(
    r"(?P<head>!?\[(?:[^\[\]]|\[[^\]]*\](?:\([^()]*\))?)*\]\()(?P<target>[^()\s]+)(?P<tail>[^()]*\))"
)
_ATTRIBUTE = re.compile(r"(?P<head><[^<>]*\b(?:src|href)=\")(?P<target>[^\"]+)(?P<tail>\")")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_SPAN = re.compile(r"(`+[^`]+`+)")
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|/|#")


def rewrite(text: str, change: Callable[[str], str]) -> str:
    """The prose with every link's target put through `change`; fenced code stays as it is."""
    lines, fence = [], ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and fence and mark[1].startswith(fence):
            fence = ""
        lines.append(line if fence or mark else _line(line, change))
    return "\n".join(lines)


def is_elsewhere(target: str) -> bool:
    """True for an address on the net, an absolute path, or a place on the same page."""
    return bool(_ELSEWHERE.match(target))


def chapter_of(target: str) -> str:
    """The chapter that a link leads to ("02_tensor_parallel.ipynb#Top" gives "02_tensor_parallel"), or ""."""
    path = target.split("#")[0]
    return path.removesuffix(".ipynb") if path.endswith(".ipynb") and "/" not in path else ""


def _line(line: str, change: Callable[[str], str]) -> str:
    """One line with its targets changed, but for those inside `code`."""
    parts = _SPAN.split(line)
    return "".join(part if index % 2 else _prose(part, change) for index, part in enumerate(parts))


def _prose(text: str, change: Callable[[str], str]) -> str:
    def link(match: re.Match[str]) -> str:
        # A picture inside a link's text is a link of its own.
        mark, bracket, words = match["head"].removesuffix("](").partition("[")
        return mark + bracket + _LINK.sub(link, words) + "](" + change(match["target"]) + match["tail"]

    def attribute(match: re.Match[str]) -> str:
        return match["head"] + change(match["target"]) + match["tail"]

    return _ATTRIBUTE.sub(attribute, _LINK.sub(link, text))
