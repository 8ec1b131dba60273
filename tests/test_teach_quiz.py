"""Quizzes: computed answers, a why for every choice, and a page that works with and without its script."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mindlab as ml
from mindlab.teach import registry
from mindlab.teach.journal import journal
from mindlab.teach.lesson import Choice, Question
from mindlab.teach.quizzes import QuizSheet

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NAMES = [one.name for one in registry.quizzes()]


@pytest.fixture(autouse=True)
def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDLAB_PROGRESS", "off")


@pytest.mark.parametrize("name", NAMES)
def test_every_question_has_one_right_choice_with_its_why(name: str) -> None:
    """Would catch a question whose computed answer is among no choice, or among two."""
    for asked in ml.quiz(name).questions:
        assert [one.right for one in asked.options].count(True) == 1, asked.text
        assert all(len(one.why) > 10 for one in asked.options)
        assert all(one.read for one in asked.options), "where to read again"


@pytest.mark.parametrize("name", NAMES)
def test_where_to_read_again_exists(name: str) -> None:
    """Would catch a heading that was renamed in the chapter."""
    (chapter,) = (Path(__file__).parents[1] / "notebooks" / "src").glob(f"{name}_*.md")
    headings = re.findall(r"^#+ (?:\d+ )?(.+)$", chapter.read_text(encoding="utf-8"), re.MULTILINE)
    for place in {one.read for asked in ml.quiz(name).questions for one in asked.options}:
        assert re.sub(r"^\d+, ", "", place) in headings, place


def own(right: object, *, answer: object = None) -> list[Question]:
    choices = (Choice(6, "because", holds=right), Choice(3, "one half"))  # type: ignore[arg-type]
    return [Question("How much?", choices, answer=answer, unit="B")]  # type: ignore[arg-type]


def test_an_answer_is_computed() -> None:
    """Would catch a right choice that is a matter of typing."""
    for p, right in ((4, "a"), (2.5, "b")):
        (asked,) = ml.quiz(own(None, answer=lambda p=p: 2 * (p - 1))).questions
        assert [one.letter for one in asked.options if one.right] == [right]
    assert bool(ml.quiz(own(lambda: True)).answer(1, "a"))


@pytest.mark.parametrize("answer", [lambda: 5, None])
def test_a_question_without_a_right_choice_is_refused(answer: object) -> None:
    """Would catch a quiz that nobody can pass."""
    with pytest.raises(ValueError, match="0 right choices of 2"):
        ml.quiz(own(False if answer is None else None, answer=answer))


def test_answers_without_a_mouse() -> None:
    """Would catch a quiz that only a browser can take."""
    quiz = ml.quiz("01")
    wrong = quiz.answer(1, "b")
    assert not wrong and "One half only" in repr(wrong) and "Read again: 4, A ring by hand." in repr(wrong)
    for asked in quiz.questions:
        letter = next(one.letter for one in asked.options if one.right)
        assert quiz.answer(asked.number, letter)
    assert journal().entry("quizzes", "01")["state"] == "passed"
    assert "a) 175 MiB" in repr(quiz.answer(1, ...))
    with pytest.raises(ValueError, match="1 to 6"):
        quiz.answer(7, "a")
    with pytest.raises(ValueError, match="a, b, c, d"):
        quiz.answer(1, "f")


def test_the_same_quiz_is_the_same_text() -> None:
    """Would catch a random id: two equal runs must not differ."""
    assert ml.quiz("01").html() == ml.quiz("01").html() and ml.quiz("00").key != ml.quiz("01").key
    assert " id=" not in ml.quiz("01").html()


def test_the_page_can_be_read_out() -> None:
    """Would catch a choice without a label, a question without a legend, a verdict in colour alone."""
    html = ml.quiz("01").html()
    options = sum(len(asked.options) for asked in ml.quiz("01").questions)
    assert html.count("<legend>") == html.count("<fieldset>") == 6
    assert html.count('<label class="one"><input type="radio"') == options
    assert html.count('aria-live="polite"') == html.count("<button type=") == 6
    assert html.count(": right.</b>") == 6 and html.count(": wrong.</b>") == options - 6


PROBE = """<script>
var F=document.querySelectorAll("form.ml-quiz"),A=F[0].querySelectorAll("fieldset")[0],log=[];
var B=A.querySelector("button"),O=A.querySelector("output"),R=A.querySelectorAll("input");
B.click();log.push(O.textContent);R[1].click();B.click();log.push(O.className+"|"+O.textContent);
R[0].click();B.click();log.push(O.className+"|"+O.textContent);
log.push(F[1].querySelectorAll("input:checked").length+" "+F[0].querySelectorAll("input:checked").length);
log.push([...F[0].querySelectorAll("input,button,summary")].every(n=>n.tabIndex>=0));
document.body.innerHTML="<pre>"+log.join("\\n").replace(/</g,"")+"</pre>"</script>"""
SHOWN = """<script>var n=q=>[...document.querySelectorAll(q)].filter(e=>e.offsetHeight>0).length;
document.querySelectorAll("details").forEach(d=>d.open=true);
document.body.innerHTML="<pre>"+[n("input"),n("button"),n("label"),n("li")].join(" ")+"</pre>"</script>"""


def opened(body: str, tmp_path: Path) -> list[str]:
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}", encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    command = [str(CHROMIUM), *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    found = re.search("<pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:]
    return found[1].splitlines()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this host")
def test_a_choice_is_judged_in_its_own_quiz(tmp_path: Path) -> None:
    """Would catch a script error, a verdict of another choice, two equal quizzes that share their answers."""
    html = QuizSheet(registry.find_quiz("01")).html()
    none, wrong, right, checked, reachable = opened(html + html + PROBE, tmp_path)
    assert none == "Choose an answer first."
    assert wrong.startswith("bad|✗ b) 87.5 MiB: wrong. One half only") and "Read again" in wrong
    assert right.startswith("good|✓ a) 175 MiB: right.") and "Read again" not in right
    assert checked == "0 1" and reachable == "true"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this host")
def test_without_the_script_choices_and_answers_can_be_read(tmp_path: Path) -> None:
    """Would catch a dead button in an untrusted notebook, or an answer that only a script shows."""
    html = re.sub("<script>.*?</script>", "", ml.quiz("01").html(), flags=re.DOTALL)
    options = sum(len(asked.options) for asked in ml.quiz("01").questions)
    assert opened(html + SHOWN, tmp_path) == [f"0 0 {options} {options}"]
