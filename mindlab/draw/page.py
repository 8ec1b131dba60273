"""The HTML of a stepper: all frames in a list, a style, and the script that makes it step.

Nothing is fetched. There are no ids, so that two equal steppers on a page do not collide: the script takes
every element with its key that no script has taken yet. It never starts by itself.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from mindlab.draw import cjk, style

_WORDS = {
    "en": ("previous step", "next step", "▶ play", "⏸ pause", "step", "controls"),
    "zh": ("上一步", "下一步", "▶ 播放", "⏸ 暂停", "步骤", "控制"),
}

_CSS = (
    ".ml-play{margin:.6em 0;padding:.7em .9em;max-width:52em;background:#fff;color:#1a1a1a;"
    "border:1px solid #d9d9d9;"
    f"border-radius:6px;font:15px/1.45 {style.FONT_STACK}}}"
    ".ml-play figcaption{font-weight:bold;margin:0 0 .4em}"
    ".ml-play ol{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.8em}"
    ".ml-play li{margin:0;padding:0;flex:0 1 var(--w);min-width:min(220px,100%)}"
    ".ml-play li p{margin:.2em 0;font-size:.87em}"
    ".ml-play svg{max-width:100%;height:auto;display:block;margin:0 auto}"
    ".ml-play .src{margin:.5em 0 0;font-size:.8em;color:#595959}"
    ".ml-play .bar,.ml-play output{display:none}"
    ".ml-play.on ol{display:block}.ml-play.on li{display:none}.ml-play.on li.cur{display:block}"
    ".ml-play.on li p{display:none}"
    ".ml-play.on .bar{display:flex;gap:.5em;align-items:center;margin:.5em 0}"
    ".ml-play.on output{display:block;min-height:3em}"
    ".ml-play button{font:inherit;min-width:2.6em;min-height:2.2em;padding:0 .7em;color:#1a1a1a;"
    "background:#f2f2f2;"
    "border:1px solid #767676;border-radius:4px;cursor:pointer}"
    ".ml-play button:focus-visible,.ml-play input:focus-visible{outline:3px solid #1a5fb4;outline-offset:2px}"
    ".ml-play input{flex:1;min-width:6em;accent-color:#4458bd}"
    "@media (prefers-reduced-motion:no-preference){.ml-play.moved li.cur .mk{animation:ml-go .7s ease-in-out}"
    "@keyframes ml-go{from{transform:translate(var(--dx),var(--dy))}}}"
    "@media print{.ml-play.on ol{display:flex}.ml-play.on li,.ml-play.on li.cur{display:block;flex:0 1 46%;"
    "break-inside:avoid}.ml-play.on li p{display:block}.ml-play.on .bar,.ml-play.on output{display:none}}"
)

_SCRIPT = """(function(){
function set(R){
 var L=R.querySelectorAll("li"),n=L.length,i=0,t=null;
 var B=R.querySelectorAll("button"),I=R.querySelector("input"),O=R.querySelector("output");
 function show(k,user){i=Math.max(0,Math.min(n-1,k));for(var j=0;j<n;j++)L[j].classList.toggle("cur",j===i);
  I.value=i;var c=L[i].querySelector("p").textContent;I.setAttribute("aria-valuetext",c);O.textContent=c;
  if(user)R.classList.add("moved")}
 function stop(){if(t){clearInterval(t);t=null}B[2].textContent=B[2].dataset.play}
 function go(k){stop();show(k,true)}
 B[0].onclick=function(){go(i-1)};B[1].onclick=function(){go(i+1)};I.oninput=function(){go(+I.value)};
 B[2].onclick=function(){if(t){stop();return}if(i===n-1)show(0,true);B[2].textContent=B[2].dataset.pause;
  t=setInterval(function(){if(!document.contains(R)){clearInterval(t);return}
   if(i===n-1)stop();else show(i+1,true)},1600)};
 R.addEventListener("keydown",function(e){if(e.altKey||e.ctrlKey||e.metaKey)return;
  var k={ArrowLeft:i-1,ArrowRight:i+1,Home:0,End:n-1}[e.key];
  if(k!==undefined){go(k);e.preventDefault()}e.stopPropagation()});
 R.classList.add("on");show(0,false)}
document.querySelectorAll('[data-ml-play="KEY"]:not(.on)').forEach(set)})()"""


def stepper(key: str, title: str, frames: Sequence[tuple[str, ...]], line: str, language: str = "en") -> str:
    """The figure: frames are (svg, caption). Readable as it is; the script adds the controls."""
    previous, following, start, pause, step, controls = _WORDS[language]
    safe = html.escape
    wide = frames[0][0].split(' width="', 1)[1].split('"', 1)[0]
    items = "".join(f"<li>{svg}<p>{safe(caption)}</p></li>" for svg, caption in frames)
    buttons = (
        f'<button type="button" aria-label="{previous}">◀</button>'
        f'<input type="range" min="0" max="{len(frames) - 1}" value="0" step="1" aria-label="{step}">'
        f'<button type="button" aria-label="{following}">▶</button>'
        f'<button type="button" data-play="{start}" data-pause="{pause}">{start}</button>'
    )
    letters = cjk.face(f"{title}{line}{items}{buttons}")
    script = "" if len(frames) < 2 else f"<script>{_SCRIPT.replace('KEY', key)}</script>"
    return (
        f'<figure class="ml-play" data-ml-play="{key}" data-lm-suppress-shortcuts="true" '
        f'aria-label="{safe(title)}"><style>{_CSS}{letters}</style><figcaption>{safe(title)}</figcaption>'
        f'<ol style="--w:{wide}px">{items}</ol>'
        f'<div class="bar" role="group" aria-label="{safe(title)}: {controls}">{buttons}</div>'
        f'<output aria-live="polite"></output><p class="src">{safe(line)}</p>{script}</figure>'
    )


def document(title: str, body: str, language: str = "en") -> str:
    """A whole page around a stepper."""
    lang = "zh-CN" if language == "zh" else "en"
    return (
        f'<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title></head>'
        f"<body>{body}</body></html>\n"
    )
