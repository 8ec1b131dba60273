"""The colours of the ranks: apart in grey print and for colour-blind eyes, and readable under text."""

import numpy as np
import pytest

from mindlab.draw import style

# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(fill: str) -> np.ndarray:
    c = np.array([int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.clip(rgb, 0, 1) @ TO_XYZ.T / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=-1)


EIGHTS = [style.RANK_COLOURS[:8], style.RANK_COLOURS[8:]]


@pytest.mark.parametrize("colours", EIGHTS)
@pytest.mark.parametrize("eye", VISION)
def test_two_ranks_never_look_alike(colours: tuple[str, ...], eye: str) -> None:
    """Would catch a new colour that a colour-blind reader takes for another rank's (CIE76 below 20)."""
    seen = lab(np.array([linear(c) for c in colours]) @ VISION[eye].T)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    assert distance[np.triu_indices(8, 1)].min() > 20


@pytest.mark.parametrize("colours", EIGHTS)
def test_two_ranks_differ_in_grey(colours: tuple[str, ...]) -> None:
    """Would catch two plain (or two hatched) ranks that print as the same grey (L* steps under 4)."""
    lightness = np.sort(lab(np.array([linear(c) for c in colours]))[:, 0])
    assert np.diff(lightness).min() > 4


def test_the_first_four_ranks_differ_strongly_in_grey() -> None:
    """Would catch a reordering that gives p = 4, the usual case, two neighbouring greys."""
    lightness = np.sort(lab(np.array([linear(c) for c in style.RANK_COLOURS[:4]]))[:, 0])
    assert np.diff(lightness).min() > 12


def test_sixteen_ranks_are_told_apart_by_colour_and_hatch() -> None:
    """Would catch a rank 8 that looks like rank 0."""
    assert len({(style.colour(r), style.hatch(r)) for r in range(16)}) == 16
    assert [bool(style.hatch(r)) for r in (0, 7, 8, 15)] == [False, False, True, True]


@pytest.mark.parametrize("rank", range(16))
def test_a_rank_number_is_readable_on_its_colour(rank: int) -> None:
    """Would catch white on yellow: contrast under 4.5 (WCAG 2.2, 1.4.3)."""
    light, dark = sorted(
        (style.luminance(style.colour(rank)), style.luminance(style.ink_on(style.colour(rank)))), reverse=True
    )
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_the_style_leaves_the_persons_settings_alone() -> None:
    """Would catch rcParams (or the backend) that stay changed after a picture was drawn."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    with style.look():
        assert matplotlib.rcParams["svg.fonttype"] == "none"
    assert dict(matplotlib.rcParams) == before
