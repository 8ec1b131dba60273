"""Machines on paper: every number with its source, paths over the right links, and clear errors."""

from __future__ import annotations

import re

import pytest

import mindlab as ml
from mindlab.draw import cjk, cjk_subset
from mindlab.errors import MindlabError, UnknownName
from mindlab.planning import topologies

OWN = """\
name: mine
title: {en: "two cards, one cable"}
cards: 2
card:
  name: a card
  rate: {value: 100e12, unit: FLOP/s, source: "measured here", date: 2026-01-31}
levels:
  - name: cable
    domain: desk
    shape: mesh
    size: 2
    bandwidth: {value: 10e9, unit: B/s, source: "data sheet", date: 2026-01-31}
    alpha: {value: unknown, unit: s, source: "nobody looked", date: 2026-01-31}
"""
TRUNK = OWN.replace("cards: 2", "cards: 8").replace(
    "shape: mesh\n    size: 2", "shape: switch\n    size: 4"
) + (
    OWN[OWN.index("  - name: cable") :]
    .replace("cable", "sockets")
    .replace("desk", "box")
    .replace("shape: mesh\n    size: 2", "shape: trunk\n    size: 8")
    .replace("10e9", "7e9")
)


def own(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", topologies.names())
def test_every_shipped_number_has_a_source_and_a_date(name):
    """Would catch a number that nobody vouches for, a file under another name, a letter without a glyph."""
    machine = ml.topology(name)
    facts = [machine.card.peak, machine.card.rate, machine.card.memory, machine.card.memory_rate]
    facts += [fact for level in machine.levels for fact in (level.bandwidth, level.alpha)]
    assert machine.name == name and machine.levels[-1].size == machine.cards
    assert all(fact.source and re.fullmatch(r"\d{4}-\d\d-\d\d", fact.date) for fact in facts)
    assert all(level.sizes_source and level.sizes_date for level in machine.levels if level.by_size)
    assert all(machine.titles) and cjk_subset.missing(characters=cjk.letters(machine.titles[1])) == ""
    assert name in repr(machine) and "<table>" in machine._repr_html_()


def test_what_is_known_of_the_host_of_eight():
    """Would catch 56 GB/s (both directions of a link), and an assumed number that is not said to be one."""
    machine = ml.topology("atlas-a2")
    assert (machine.cards, machine.levels[0].shape) == (8, "mesh")
    assert machine.bandwidth(machine.path(0, 7)[0][0]) == 28e9
    assert machine.card.peak.value is None and machine.card.rate.value == 159e12
    assert [line.split(" is ")[0] for line in machine.assumptions] == ["alpha of HCCS"]
    assert "unknown" in repr(machine)


def test_hosts_inside_a_cluster_keep_their_links():
    """Would catch a message between hosts that goes over HCCS, and one inside a host over RoCE."""
    two, one = ml.topology("two-atlas-a2"), ml.topology("atlas-a2")
    assert two.cards == 16 and two.levels[0] == one.levels[0] and two.card == one.card
    links, level = two.path(9, 14)
    assert links == ((0, "pair", 9, 14),) and level.name == "HCCS"
    links, level = two.path(7, 8)
    assert links == ((1, "out", 7), (1, "in", 8)) and level.name == "RoCE"
    assert [two.named(link) for link in links] == ["RoCE of card 7, out", "RoCE of card 8, in"]
    assert two.named((0, "pair", 9, 14)) == "HCCS 9 → 14"


def test_where_no_number_was_published_none_is_used():
    """Would catch Ethernet between two hosts that costs nothing, or H100 links as the H20's own."""
    two = ml.topology("two-pcie-l40")
    between = two.path(3, 12)[0]
    assert [two.named(link) for link in between[1:3]] == ["Ethernet of host 0, out", "Ethernet of host 1, in"]
    with pytest.raises(MindlabError, match=r"bandwidth of Ethernet in two-pcie-l40 is unknown.*assume"):
        two.bandwidth(between[1])
    assert two.assume("Ethernet", bandwidth=1e9).bandwidth(between[1]) == 1e9
    assert any(
        "bandwidth of NVLink is 320 GB/s (assumed" in said for said in ml.topology("hgx-h20").assumptions
    )


def test_each_direction_and_each_pair_is_a_link_of_its_own():
    """Would catch half-duplex links, and a mesh in which pairs share."""
    machine = topologies.uniform(6, alpha=0, bandwidth=1)
    paths = {machine.path(a, b)[0] for a in range(6) for b in range(6) if a != b}
    assert len(paths) == 30
    switched = topologies.uniform(6, alpha=0, bandwidth=1, shape="switch")
    assert len({link for a in range(6) for b in range(6) if a != b for link in switched.path(a, b)[0]}) == 12


def test_a_trunk_is_shared_and_reached_by_the_inner_ports(tmp_path):
    """Would catch a way between two roots that skips the card's own port, or shares its directions."""
    machine = ml.topology(own(tmp_path, TRUNK))
    links, level = machine.path(1, 6)
    assert links == ((0, "out", 1), (1, "out", 0), (1, "in", 1), (0, "in", 6))
    assert level.name == "sockets" and [machine.bandwidth(link) for link in links] == [10e9, 7e9, 7e9, 10e9]
    assert machine.named(links[1]) == "sockets of desk 0, out"
    assert set(machine.path(6, 1)[0]).isdisjoint(links)
    assert machine.path(1, 2)[1].name == "cable"


def test_a_file_of_ones_own_is_read(tmp_path):
    """Would catch a file that only shipped ones can be like, and an unknown number that becomes zero."""
    machine = ml.topology(own(tmp_path, OWN))
    assert (machine.name, machine.cards, machine.titles) == ("mine", 2, ("two cards, one cable",) * 2)
    assert machine.card.rate.value == 100e12 and machine.card.memory.value is None
    with pytest.raises(MindlabError, match=r"alpha of cable in mine is unknown \(nobody looked\).*assume"):
        machine.alpha(machine.levels[0])
    assert machine.assume("cable", alpha=0).alpha(machine.assume(alpha=0).levels[0]) == 0


def test_a_file_of_ones_own_can_hold_another_one(tmp_path):
    """Would catch copies that are counted wrong, and a topology inside itself."""
    own(tmp_path, OWN)
    level = TRUNK[TRUNK.rindex("  - name: sockets") :].replace("trunk\n    size: 8", "switch\n    size: 6")
    outer = 'name: three\ntitle: {en: "three desks"}\ninside: mine.yaml\ncopies: 3\nlevels:\n' + level
    machine = ml.topology(own(tmp_path, outer, "three.yaml"))
    assert machine.cards == 6 and [one.size for one in machine.levels] == [2, 6]
    for wrong in ("three.yaml", "other.yaml"):
        text = outer.replace("mine.yaml", wrong)
        with pytest.raises(MindlabError, match=r"three.yaml, line 3, inside: .* is no other file"):
            ml.topology(own(tmp_path, text, "three.yaml"))
    with pytest.raises(MindlabError, match="none of atlas-a2"):
        ml.topology(own(tmp_path, outer.replace("mine.yaml", "atlas-a9"), "three.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cards: 2", "cards: two", r"line 3, cards: 'two': give a whole number"),
        ("cards: 2", "cards: 0", r"line 3, cards: '0'"),
        ("cards: 2", "cards: 4", r"line 8, levels: the outermost size is 2, but cards is 4"),
        ("cards: 2\n", "", r"line 1, the file: the field 'cards' is missing"),
        ("cards: 2", "cards: 2\nspeed: 3", r"line 4, the file: unknown field 'speed'; known: name, title"),
        ("cards: 2", "cards: 2\ncards: 2", r"line 4, the file: the field 'cards' stands here twice"),
        ("name: a card", "name: a card\n  nam: b", r"line 6, card: unknown field 'nam'"),
        ("100e12", "fast", r"line 6, card\.rate\.value: 'fast' is no number"),
        ("100e12", "-1", r"line 6, card\.rate\.value: -1: give a finite number above 0"),
        ("100e12", ".inf", r"line 6, card\.rate\.value: '\.inf' is no number"),
        ("100e12", "inf", r"line 6, card\.rate\.value: inf: give a finite number"),
        ("FLOP/s", "TFLOP/s", r"line 6, card\.rate\.unit: 'TFLOP/s': give the number in FLOP/s"),
        ('"measured here"', '""', r"line 6, card\.rate\.source: give one word"),
        (', source: "data sheet"', "", r"line 12, levels\[0\]\.bandwidth: the field 'source' is missing"),
        ("2026-01-31}\nlevels", "lately}\nlevels", r"line 6, card\.rate\.date: 'lately': write it as"),
        ("2026-01-31}\nlevels", "2026-01-31, assumed: maybe}\nlevels", r"line 6, .*write true or false"),
        ("shape: mesh", "shape: star", r"line 10, levels\[0\]\.shape: 'star' is none of mesh, switch, trunk"),
        ("shape: mesh", "shape: trunk", r"line 8, levels\[0\]\.shape: a trunk needs a level"),
        ("10e9", "0", r"line 12, levels\[0\]\.bandwidth\.value: 0: give"),
        ("10e9, unit: B/s", "[1, 2], unit: B/s", r"line 12, .*value: give one word, text or number"),
        ("title: {en: \"two cards, one cable\"}", "title: two", r"line 2, title: give a mapping with en"),
        ("cards: 2", "cards: [2", r"line \d+: this is no YAML"),
        (OWN[OWN.index("  - name: cable") :], "  cable\n", r"line 8, levels: give a list"),
        (OWN, "", r"the file is empty"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_with_line_and_field(tmp_path, old, new, said):
    """Would catch a typo that gives a wrong machine, or an error that leaves a person searching."""
    assert old in OWN
    with pytest.raises(MindlabError, match=r"mine\.yaml.*" + said):
        ml.topology(own(tmp_path, OWN.replace(old, new, 1)))


def test_sizes_that_do_not_nest_are_refused(tmp_path):
    """Would catch a domain that cuts through another one."""
    with pytest.raises(MindlabError, match=r"levels\[1\]\.size: 6 is no multiple of 4"):
        ml.topology(own(tmp_path, TRUNK.replace("size: 8", "size: 6").replace("cards: 8", "cards: 6")))


def test_an_unknown_name_lists_the_known():
    """Would catch a misspelt machine without a hint, and a missing file that is called an unknown name."""
    with pytest.raises(UnknownName, match="atlas-a2, atlas-a3, cloudmatrix-384, hgx-a100"):
        ml.topology("atlas")
    with pytest.raises(FileNotFoundError):
        ml.topology("nowhere.yaml")


def test_assumed_numbers_replace_only_what_they_name():
    """Would catch an assumption that changes other levels, or that looks like a published number."""
    before = ml.topology("two-atlas-a2")
    after = before.assume("RoCE", bandwidth=12.5e9, rate=1e12)
    assert after.levels[0] == before.levels[0] and after.levels[1].bandwidth.value == 12.5e9
    assert after.levels[1].alpha == before.levels[1].alpha and after.card.rate.assumed
    assert len(after.assumptions) == len(before.assumptions) + 2
    for wrong in ({"bandwidth": 0}, {"alpha": -1}, {"rate": float("inf")}):
        with pytest.raises(ValueError, match="give a number above 0"):
            before.assume(**wrong)
    with pytest.raises(ValueError, match="has no level 'IB'; it has HCCS, RoCE"):
        before.assume("IB", alpha=1e-6)


@pytest.mark.parametrize(
    ("ranks", "cards", "said"),
    [
        (9, None, "9 ranks do not fit on atlas-a2, which has 8 cards"),
        (2, [0], "names 1 cards for 2 ranks"),
        (2, [0, 8], "no card 8; atlas-a2 has the cards 0 to 7"),
        (2, [0, -1], "no card -1"),
        (2, [0, 1.0], "no card 1.0"),
        (2, [3, 3], "two ranks on one card"),
    ],
)
def test_ranks_and_cards_that_do_not_fit_are_refused(ranks, cards, said):
    """Would catch a rank that is put on a card that is not there, or beside another one."""
    with pytest.raises(ValueError, match=re.escape(said)):
        topologies.check_cards(ml.topology("atlas-a2"), ranks, cards)


def test_a_path_needs_two_cards_that_are_there():
    """Would catch a path to nowhere, or from a card to itself over a link."""
    machine = ml.topology("hgx-h100")
    with pytest.raises(ValueError, match="choose 0 to 7"):
        machine.path(0, 8)
    with pytest.raises(ValueError, match="from card 3 to itself"):
        machine.path(3, 3)
    for wrong in ({"shape": "trunk"}, {"cards": 0}, {"bandwidth": 0}):
        with pytest.raises(ValueError):
            topologies.uniform(**{"cards": 2, "alpha": 0, "bandwidth": 1, **wrong})
