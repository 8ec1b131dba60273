"""The planner: which layouts there are, what they cost by hand, how they are ranked, and what is refused."""

from itertools import product
from math import prod

import pytest

import mindlab as ml
from mindlab.planning import costs, layouts, planner, topologies, workloads
from mindlab.planning.layouts import AXES, Layout

VIDEO = {"height": 720, "width": 1280, "frames": 129, "steps": 50}
CHAT = {"prompt": 4096, "output": 256, "requests": 16}
HUNYUAN = ml.architecture("hunyuan-video")
LLAMA = ml.architecture("llama-3.1-8b")
EIGHT = topologies.uniform(8, alpha=1e-5, bandwidth=50e9, shape="switch", rate=1e14).assume(
    memory_rate=1e12, memory=64e9
)


def every(model: str, ranks: int, work: dict[str, int], stage: str) -> dict[Layout, str]:
    known = ml.architecture(model)
    return dict(layouts.layouts(known, ranks, workloads.workload(known, work), stage))


def test_each_split_of_the_cards_comes_once() -> None:
    """A split that is forgotten, twice, or of other cards than there are."""
    found = every("hunyuan-video", 8, VIDEO, "denoise")
    assert all(layout.ranks == 8 for layout in found)
    ways = sum(prod(s) == 8 for s in product((1, 2, 4, 8), repeat=6))
    assert len(found) == ways == 56
    decode = every("llama-3.1-8b", 4, CHAT, "decode")
    assert len(decode) == 10 and not any(layout.ring > 1 or layout.ulysses > 1 for layout in decode)


@pytest.mark.parametrize(
    ("model", "work", "stage", "layout", "words"),
    [
        ("hunyuan-video", VIDEO, "denoise", Layout(ulysses=5), "ulysses=5 cannot split 24 heads"),
        ("hunyuan-video", VIDEO, "denoise", Layout(cfg=2), "one pass a step"),
        ("wan2.1-14b", VIDEO, "denoise", Layout(cfg=4), "a guided step has two passes"),
        ("wan2.1-14b", VIDEO, "denoise", Layout(data=2), "data=2 replicas for 1 request"),
        (
            "wan2.1-14b",
            VIDEO,
            "denoise",
            Layout(ulysses=8, tensor=2),
            "tensor x ulysses = 16 cannot split 40",
        ),
        ("llama-3.1-8b", CHAT, "prefill", Layout(tensor=3), "tensor=3 cannot split 32 heads with 8 of keys"),
        ("llama-3.1-8b", CHAT, "prefill", Layout(pipeline=33), "33 stages for 32 layers"),
        ("mixtral-8x7b", CHAT, "decode", Layout(data=3, expert=3), "expert=3 does not divide 8 experts"),
    ],
)
def test_each_exclusion_says_why(
    model: str, work: dict[str, int], stage: str, layout: Layout, words: str
) -> None:
    """A layout that cannot be and is planned, or is left out without a word."""
    assert words in every(model, layout.ranks, work, stage)[layout]


def test_grouped_heads_may_be_copied_but_not_torn() -> None:
    """16 ranks for 8 key-value heads refused, though each may lie on two ranks."""
    assert every("llama-3.1-8b", 16, CHAT, "prefill")[Layout(tensor=16)] == ""


def test_the_time_of_a_video_by_hand() -> None:
    """Exchanges counted once for all steps, passes doubled without guidance, one all-to-all for four."""
    work = workloads.Pictures(height=720, width=1280, frames=129, steps=50)
    stage = costs.denoise(HUNYUAN, Layout(ulysses=8), work, EIGHT)
    assert stage.share("computing") * stage.seconds == pytest.approx(50 * 1.207e16 / 8 / 1e14, rel=2e-3)
    sent = 50 * 60 * 4 * (119_056 / 8) * 3072 * 2 * 7 / 8
    gathered = 50 * 119_056 * 64 * 2 * 7 / 8
    assert stage.nbytes == pytest.approx(sent + gathered)
    exchange = 50 * 60 * 4 * (1e-5 + (119_056 / 8) * 3072 * 2 * 7 / 8 / 50e9)
    assert stage.share("ulysses") * stage.seconds == pytest.approx(exchange)


def test_a_ring_hides_or_is_seen() -> None:
    """Messages that are added though attention is longer, or hidden though it is shorter."""
    work = workloads.Pictures(height=720, width=1280, frames=129, steps=1)
    wide = costs.denoise(HUNYUAN, Layout(ring=4), work, EIGHT)
    assert wide.share("ring") == 0 and any(part.what == "ring" and part.nbytes for part in wide.parts)
    narrow = costs.denoise(HUNYUAN, Layout(ring=4), work, EIGHT.assume(bandwidth=1e8))
    step = 2 * (119_056 / 4) * 3072 * 2 / 1e8
    attention = 4 * 119_056**2 * 3072 / 16 / 1e14
    assert narrow.share("ring") * narrow.seconds == pytest.approx(
        60 * 3 * (step + 1e-5 - attention), rel=1e-3
    )


def test_guided_steps_are_halved_by_cfg_and_by_nothing_else() -> None:
    """Two passes on each half, or an exchange a layer where there is one a step."""
    wan = ml.architecture("wan2.1-14b")
    work = workloads.Pictures(height=720, width=1280, frames=81, steps=50)
    one, two = (costs.denoise(wan, layout, work, EIGHT) for layout in (Layout(), Layout(cfg=2)))
    assert one.share("computing") * one.seconds == pytest.approx(2 * two.share("computing") * two.seconds)
    assert two.nbytes == 50 * 75_600 * 64 * 2
    alone = workloads.Pictures(height=720, width=1280, frames=81, steps=50, guided=False)
    assert costs.denoise(wan, Layout(), alone, EIGHT).seconds == pytest.approx(one.seconds / 2)


def test_a_token_by_hand() -> None:
    """Weights read once a request, a cache that is not read, an embedding read whole, a latency a token."""
    work = workloads.Text(prompt=1000, output=2, requests=4)
    stage = costs.decode(LLAMA, Layout(), work, EIGHT)
    weights = 2 * (8_030_261_248 - 128_256 * 4096)
    assert stage.seconds == pytest.approx((weights + 4 * 1001 * 131_072) / 1e12)
    two = costs.decode(LLAMA, Layout(tensor=2), work, EIGHT)
    calls = 64 * float(ml.seconds.collective("all_reduce", 4 * 4096 * 2, EIGHT, cards=[0, 1]).value)
    assert two.share("tensor") * two.seconds == pytest.approx(calls)
    norms = 65 * 4096 * 2  # whole on both
    half = (weights - norms) / 2 + norms + 4 * 1001 * 131_072 / 2
    assert two.seconds - calls == pytest.approx(half / 1e12, rel=1e-6)


def test_a_cache_by_position_and_one_by_heads() -> None:
    """Key-value heads cut further than there are: 8 heads on 16 ranks stop shrinking, positions do not."""
    machine = topologies.uniform(16, alpha=0, bandwidth=1e15, rate=1e18).assume(memory_rate=1e12)
    work = workloads.Text(prompt=100_000, output=2, requests=1)
    by_heads = costs.decode(LLAMA, Layout(tensor=16), work, machine).seconds
    by_position = costs.decode(LLAMA, Layout(kv=16), work, machine).seconds
    weights = 2 * (8_030_261_248 - 128_256 * 4096) / 1e12
    assert by_position == pytest.approx(weights + 100_001 * 131_072 / 16 / 1e12, rel=1e-3)
    assert by_heads > weights / 16 + 100_001 * 131_072 / 8 / 1e12


def test_few_tokens_meet_few_experts() -> None:
    """All experts read for one token, or those of one token for a large batch."""
    moe = ml.architecture("mixtral-8x7b")
    machine = EIGHT.assume(rate=1e18)
    one, many = (
        costs.decode(moe, Layout(), workloads.Text(prompt=1, output=1, requests=n), machine).seconds
        for n in (1, 512)
    )
    read = 12_879_925_248 - 32_000 * 4096
    assert one == pytest.approx(2 * read / 1e12, rel=1e-2)
    assert many > 3 * one


def test_a_pipeline_helps_many_and_not_one() -> None:
    """A pipeline that makes one request quicker, or that does nothing for many."""
    work = workloads.Text(prompt=4096, output=1, requests=8)
    one, four = (costs.prefill(LLAMA, layout, work, EIGHT) for layout in (Layout(), Layout(pipeline=4)))
    assert four.seconds > one.seconds and four.period < one.seconds / 3.5


def test_changing_the_layout_has_its_price() -> None:
    """Keys and values that get from prefill shards to decoding shards for nothing."""
    work = workloads.Text(prompt=4096, output=1)
    before, after = Layout(ulysses=4), Layout(kv=4)
    change = costs.layout_change(LLAMA, before, after, work, EIGHT)
    assert change.nbytes == 4096 * 131_072 / 4 * 3 / 4 and change.seconds > 0
    assert costs.layout_change(LLAMA, Layout(tensor=4), Layout(tensor=4), work, EIGHT).nbytes == 0


def test_the_plan_of_a_video() -> None:
    """A ranking that does not follow the goal, rows outside the model with seconds, choices that are lost."""
    plan = ml.plan("hunyuan-video", "atlas-a2", VIDEO)
    assert plan.best.name == "ulysses 8"
    assert [row.latency for row in plan.rows] == sorted(row.latency or 0 for row in plan.rows)
    assert all(row.latency is None and row.throughput is None for row in plan.outside)
    assert any("full mesh" in reason for reason in plan.find(ring=8).outside)
    assert len(plan.rows) + len(plan.outside) + len(plan.excluded) == 56
    memory = ml.plan("hunyuan-video", "atlas-a2", VIDEO, goal="memory")
    assert [row.held for row in memory.rows] == sorted(row.held for row in memory.rows)
    assert "outside the model (a)" in repr(plan) and "never run" in plan._repr_html_()
    with pytest.raises(ml.MindlabError, match="cfg 2 x ulysses 4 is not in the plan: one pass a step"):
        plan.find(cfg=2, ulysses=4)


def test_the_plan_of_a_chat() -> None:
    """Decoding on other weights than the prefill's, a tail shorter than the latency, tokens counted twice."""
    machine = ml.topology("hgx-a100")
    plan = ml.plan("llama-3.1-70b", machine, CHAT, goal="throughput")
    assert [row.throughput for row in plan.rows] == sorted(
        (row.throughput or 0 for row in plan.rows), reverse=True
    )
    for row in plan.rows:
        before, after = row.layouts["prefill"], row.layouts["decode"]
        assert (before.tensor, before.pipeline) == (after.tensor, after.pipeline) and before.ranks == 8
        assert row.tail is not None and row.latency is not None and row.tail >= row.latency
        assert row.throughput == pytest.approx(16 * 256 / row.tail)
        assert row.margin is not None and row.margin >= 0
    assert any(reason.startswith("needs ") and "weights" in reason for _, reason in plan.excluded)


def test_memory_rules_out_what_does_not_fit() -> None:
    """70 B parameters on one card of 64 GB, planned."""
    small = EIGHT.assume(memory=20e9)
    plan = ml.plan("llama-3.1-8b", small, {"prompt": 128, "output": 8}, cards=1)
    assert plan.best.name == "one card"
    with pytest.raises(ml.MindlabError, match=r"llama-3.1-70b fits .* needs 141.2 GB a card"):
        _ = ml.plan("llama-3.1-70b", small, {"prompt": 128, "output": 8}, cards=1).best


def test_advice_of_the_planner_where_networks_are_slow() -> None:
    """Groups judged without the links that they stand on: tensor parallel over two hosts is never first."""
    two = ml.topology("two-atlas-a2").assume(memory_rate=1e12)
    plan = ml.plan("llama-3.1-70b", two, CHAT, goal="latency")
    assert plan.best.layouts["decode"].tensor <= 8
    across = plan.find(tensor=16)
    assert any("no published times" in reason for reason in across.outside)
    pictures = ml.plan("hunyuan-video", two, VIDEO)
    assert any("between hosts" in reason for reason in pictures.find(ring=2, ulysses=8).outside)


def test_order_of_the_axes_decides_who_is_near() -> None:
    """Axes placed the other way round that cost the same: heavy groups belong on the fast links."""
    two = ml.topology("two-atlas-a2").assume(memory_rate=1e12)
    work = workloads.Pictures(height=720, width=1280, frames=81, steps=1)
    wan = ml.architecture("wan2.1-14b")
    near = Layout(cfg=2, ulysses=8)
    far = Layout(cfg=2, ulysses=8, order=("data", "pipeline", "ring", "ulysses", "kv", "tensor", "cfg"))
    assert near.groups("ulysses")[0] == tuple(range(8)) and far.groups("cfg")[0] == (0, 1)
    times = [costs.denoise(wan, layout, work, two).seconds for layout in (near, far)]
    assert times[0] < times[1]


def test_what_cannot_be_asked_is_refused() -> None:
    """A wrong word that becomes a default, a number that is not known and is taken as none."""
    for call, kind, words in (
        (lambda: ml.plan("llama-3.1-8b", EIGHT, {"prompt": 8}), ValueError, "needs output"),
        (lambda: ml.plan("llama-3.1-8b", EIGHT, VIDEO), ValueError, "has no 'frames'"),
        (lambda: ml.plan("flux.1-dev", EIGHT, CHAT), ValueError, "has no 'output'"),
        (
            lambda: ml.plan("llama-3.1-8b", EIGHT, CHAT, goal="speed"),
            ValueError,
            "goal='speed': choose latency",
        ),
        (lambda: ml.plan("llama-3.1-8b", "atlas-a2", CHAT), ml.MindlabError, r"\.assume\(memory_rate="),
        (lambda: ml.plan("llama-3.1-8b", "atlas", CHAT), ml.MindlabError, "atlas-a2"),
        (lambda: ml.plan("llama-3.1-8b", EIGHT, CHAT, cards=9), ValueError, "9 ranks do not fit"),
        (lambda: ml.plan("llama-3.1-8b", EIGHT, {**CHAT, "requests": 0}), ValueError, "requests=0"),
        (lambda: Layout(tensor=0), ValueError, "tensor=0"),
        (lambda: Layout(order=("tensor",)), ValueError, "name each axis once"),
        (
            lambda: workloads.workload(LLAMA, workloads.Pictures(8, 8, 1)),
            ValueError,
            "takes a workload of prompt",
        ),
    ):
        with pytest.raises(kind, match=words):
            call()
    assert set(AXES) == set(Layout().sizes) and planner.GOALS == ("latency", "throughput", "memory")


def test_a_vae_is_shared_in_tiles_and_halos_are_decoded_twice() -> None:
    """A decoder that nobody shares, or whose halos cost nothing."""
    video = {**VIDEO, "vae": 160.0}
    plain, halo = (ml.plan(HUNYUAN, EIGHT, {**video, "vae_halo": size}).find(ulysses=8) for size in (0, 6))
    assert plain.stages["vae"].seconds == pytest.approx(20.0)
    again = float(ml.flops.recomputed((90, 160), (8, 1), 6))
    row = 160 * 16 * 33 * 2
    sent = 1e-5 + 6 * row / 50e9
    assert halo.stages["vae"].seconds == pytest.approx(20.0 * (1 + again) + sent)
    assert plain.latency == pytest.approx(plain.stages["denoise"].seconds + 20.0)
    one = ml.plan(HUNYUAN, EIGHT, video, cards=1).best
    assert one.stages["vae"].seconds == 160.0


def test_two_pcie_roots_need_their_trunk() -> None:
    """A box with two roots planned as if every pair had the same way."""
    box = ml.topology("pcie-two-roots").assume(rate=1e14, memory_rate=1e12)
    with pytest.raises(ml.MindlabError, match="between sockets"):
        ml.seconds.collective("all_to_all", 2**20, box)
    known = box.assume("between sockets", bandwidth=20e9)
    inside = ml.seconds.collective("all_to_all", 2**26, known, cards=range(4))
    assert ml.seconds.collective("all_to_all", 2**26, known).value > 1.5 * inside.value
