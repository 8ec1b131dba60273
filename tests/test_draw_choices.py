"""The picture of a plan: marks where the choices are, and the front that nothing beats."""

import pytest
from draw_marks import texts

import mindlab as ml
from mindlab import draw
from mindlab.draw.frontier import frontier

VIDEO = {"height": 720, "width": 1280, "frames": 81, "steps": 50}
CHAT = {"prompt": 2048, "output": 128, "requests": 64}


def test_the_front_is_what_nothing_beats() -> None:
    """A choice on the front that another one beats, or one left off that none does."""
    plan = ml.plan("llama-3.1-8b", "hgx-a100", CHAT)
    for value, more in ((lambda one: one.throughput, True), (lambda one: one.held, False)):
        sign = -1 if more else 1
        front = {row.name for row in frontier(plan.rows, value, more=more)}
        for row in plan.rows:
            beaten = any(
                one.latency <= row.latency
                and sign * value(one) <= sign * value(row)
                and (one.latency, value(one)) != (row.latency, value(row))
                for one in plan.rows
            )
            assert not (row.name in front and beaten)
            assert (
                beaten
                or row.name in front
                or any(
                    (one.latency, value(one)) == (row.latency, value(row))
                    for one in plan.rows
                    if one is not row
                )
            )


def test_every_choice_has_its_mark() -> None:
    """Choices that are not drawn, marks filled as if they were measured, a full card without a line."""
    plan = ml.plan("wan2.1-14b", "hgx-a100", VIDEO)
    ax = draw.choices(plan, title="Eight cards")
    marks = [line for line in ax.lines if line.get_marker() in ("o", "s")]
    assert sum(len(line.get_xdata()) for line in marks) == len(plan.rows)
    assert all(line.get_markerfacecolor() == "#ffffff" for line in marks)
    drawn = {(x, y) for line in marks for x, y in line.get_xydata()}
    assert drawn == {(row.latency, row.held) for row in plan.rows}
    assert any(set(line.get_ydata()) == {80e9} for line in ax.lines)
    assert {"a card's memory", plan.best.name} <= set(texts(ax)) and ax.get_title("left") == "Eight cards"
    assert "never run" in ax.alt and plan.best.name in ax.alt


def test_upwards_is_what_was_asked_for() -> None:
    """Throughput drawn as memory, or the other way round; many requests are drawn by throughput."""
    plan = ml.plan("llama-3.1-8b", "hgx-a100", CHAT)
    assert draw.choices(plan).get_ylabel() == "tokens a second, all cards"
    assert draw.choices(plan, against="memory").get_ylabel() == "a card holds"
    assert draw.choices(ml.plan("wan2.1-14b", "hgx-a100", VIDEO)).get_ylabel() == "a card holds"
    with pytest.raises(ValueError, match="against='price'"):
        draw.choices(plan, against="price")
    with pytest.raises(ValueError, match="no choice that the model covers"):
        draw.choices(ml.plan("llama-3.1-70b", "hgx-a100", CHAT, cards=1))


def test_no_name_stands_on_a_mark() -> None:
    """Names put right above their marks, over the next mark, so that nobody sees it."""
    two = ml.topology("two-atlas-a2").assume(memory_rate=1e12)
    many = {"prompt": 4096, "output": 256, "requests": 64}
    for plan in (ml.plan("llama-3.1-70b", two, many), ml.plan("wan2.1-14b", "hgx-a100", VIDEO)):
        ax = draw.choices(plan, against="throughput")
        ax.figure.canvas.draw()
        names = [text.get_window_extent().padded(8) for text in ax.texts if text.get_zorder() == 4]
        assert names
        for row in plan.rows:
            mark = ax.transData.transform((row.latency, row.throughput))
            assert not any(box.contains(*mark) for box in names), row.name
