"""The HTML of a quiz: questions with radio buttons, and the answers folded below each.

Without a script (an untrusted notebook, a printed page) the radio buttons are hidden, the choices are a list,
and the folded answers say which is right and why. A few lines of script show the buttons and tell, for the
choice that was made, whether it is right and why. There are no ids: each quiz is a
form of its own, so equal quizzes on a page stay apart.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindlab.teach import panel
from mindlab.teach.words import say

if TYPE_CHECKING:
    from mindlab.teach.quizzes import Asked, Option

_CSS = (
    ".ml-quiz{border:1px solid rgba(140,140,140,.45);border-left:5px solid #8c8c8c;border-radius:4px;"
    "background:rgba(140,140,140,.07);color:inherit;padding:.6em .9em;margin:.4em 0;max-width:52em;"
    "line-height:1.45}"
    ".ml-quiz fieldset{border:0;border-top:1px solid rgba(140,140,140,.35);margin:.7em 0 0;padding:.6em 0 0;"
    "min-width:0}"
    ".ml-quiz legend{float:left;width:100%;padding:0;margin:0 0 .3em;font-weight:600}"
    ".ml-quiz legend+*{clear:both}"
    ".ml-quiz .one{display:block;margin:.15em 0;padding:.15em .4em;border-radius:3px}"
    ".ml-quiz .one input,.ml-quiz .bar{display:none}"
    ".ml-quiz.on .one{cursor:pointer}.ml-quiz.on .one input{display:inline-block;margin:0 .5em 0 0;"
    "vertical-align:baseline}"
    ".ml-quiz.on .bar{display:flex;gap:.8em;align-items:baseline;flex-wrap:wrap;margin:.3em 0}"
    ".ml-quiz .one:focus-within{outline:3px solid #1a5fb4;outline-offset:1px}"
    ".ml-quiz button{font:inherit;min-height:2em;padding:0 .9em;color:inherit;"
    "background:rgba(140,140,140,.18);border:1px solid #767676;border-radius:4px;cursor:pointer}"
    ".ml-quiz button:focus-visible,.ml-quiz summary:focus-visible"
    "{outline:3px solid #1a5fb4;outline-offset:2px}"
    ".ml-quiz output{flex:1 1 20em;min-height:1.4em}"
    ".ml-quiz output.good{border-left:4px solid #1a9e4b;padding-left:.6em}"
    ".ml-quiz output.bad{border-left:4px solid #d1402f;padding-left:.6em}"
    ".ml-quiz summary{cursor:pointer;font-size:.92em}.ml-quiz li{margin:.2em 0}"
    "@media print{.ml-quiz .one input,.ml-quiz.on .bar{display:none}}"
)

_SCRIPT = """(function(){
function set(F){F.classList.add("on");
 F.addEventListener("submit",function(e){e.preventDefault()});
 F.addEventListener("keydown",function(e){e.stopPropagation()});
 F.querySelectorAll("fieldset").forEach(function(S){
  var B=S.querySelector("button"),O=S.querySelector("output");
  B.addEventListener("click",function(){var c=S.querySelector("input:checked");
   if(!c){O.className="";O.textContent=B.dataset.none;return}
   O.className=c.dataset.tone;O.innerHTML=S.querySelectorAll("li")[+c.value].innerHTML})})}
document.querySelectorAll('[data-ml-quiz="KEY"]:not(.on)').forEach(set)})()"""


def page(key: str, title: str, questions: Sequence[Asked]) -> str:
    """The whole quiz."""
    asked = "".join(_question(one, len(questions)) for one in questions)
    script = f"<script>{_SCRIPT.replace('KEY', key)}</script>"
    return (
        f'<form class="ml-quiz" data-ml-quiz="{key}" data-lm-suppress-shortcuts="true" '
        f'aria-label="{html.escape(title)}"><style>{_CSS}</style><strong>{html.escape(title)}</strong>'
        f"{asked}{script}</form>"
    )


def verdict(one: Option) -> str:
    """A choice with its verdict and why, as text: "b) 175 MiB: right. …"."""
    word = say("right_choice" if one.right else "wrong_choice")
    read = f" {say('read_again', place=one.read)}" if one.read and not one.right else ""
    return f"{one.letter}) {one.text}: {word}. {one.why}{read}"


def _question(asked: Asked, count: int) -> str:
    choices = "".join(_choice(asked, index, one) for index, one in enumerate(asked.options))
    answers = "".join(f"<li>{_verdict(one)}</li>" for one in asked.options)
    number = html.escape(say("question", number=asked.number, count=count))
    bar = (
        f'<div class="bar"><button type="button" data-none="{html.escape(say("choose_first"))}">'
        f'{html.escape(say("check_answer"))}</button><output aria-live="polite"></output></div>'
    )
    folded = (
        f"<details><summary>{html.escape(say('answers'))}</summary>"
        f'<ul style="list-style:none;margin:.3em 0;padding:0">{answers}</ul></details>'
    )
    return f"<fieldset><legend>{number}. {panel.inline(asked.text)}</legend>{choices}{bar}{folded}</fieldset>"


def _choice(asked: Asked, index: int, one: Option) -> str:
    tone = panel.GOOD if one.right else panel.BAD
    return (
        f'<label class="one"><input type="radio" name="q{asked.number}" value="{index}" data-tone="{tone}">'
        f"{one.letter}) {panel.inline(one.text)}</label>"
    )


def _verdict(one: Option) -> str:
    mark = panel.MARKS[panel.GOOD if one.right else panel.BAD]
    word = html.escape(say("right_choice" if one.right else "wrong_choice"))
    read = f" <em>{html.escape(say('read_again', place=one.read))}</em>" if one.read and not one.right else ""
    return f"<b>{mark} {one.letter}) {panel.inline(one.text)}: {word}.</b> {panel.inline(one.why)}{read}"
