"""Makes the shipped font of Chinese letters: python -m mindlab.draw.cjk_subset [--check] [FONT]

FONT is WenQuanYi Micro Hei (Apache License 2.0), in Debian the package fonts-wqy-microhei. With --check
nothing is made: exit code 1 and the characters that `labels` or the glossary has and the font lacks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mindlab.draw import cjk

SOURCE = Path("/usr/share/fonts/truetype/wqy/wqy-microhei.ttc")
VOCABULARY = Path(__file__).with_name("cjk_characters.txt")


def wanted(root: Path | None = None) -> str:
    """Every character that a picture may show and DejaVu Sans lacks, sorted.

    From the labels, the vocabulary and, in a checkout, the glossary and the words of figures/.
    """
    root = root or Path(__file__).parents[2]
    files = [
        Path(__file__).with_name("labels.py"),
        VOCABULARY,
        root / "notebooks" / "src" / "terms.csv",
        *sorted((root / "figures").glob("*.py")),
    ]
    return cjk.letters("".join(path.read_text(encoding="utf-8") for path in files if path.exists()))


def missing(font: Path = cjk.FONT, characters: str | None = None) -> str:
    """The wanted characters that the font lacks."""
    from fontTools.ttLib import TTFont

    has = set(TTFont(font).getBestCmap()) if font.exists() else set()
    return "".join(c for c in (wanted() if characters is None else characters) if ord(c) not in has)


def make(source: Path = SOURCE, target: Path = cjk.FONT) -> Path:
    """The font with the wanted characters alone, under a name of its own."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    font = TTFont(source, fontNumber=0, recalcTimestamp=False)
    options = subset.Options(hinting=False, layout_features=[], drop_tables=["FFTM"], name_IDs=["*"])
    chosen = subset.Subsetter(options)
    chosen.populate(text=wanted())
    chosen.subset(font)
    names = font["name"]
    names.names = [n for n in names.names if n.nameID in (0, 13, 14) and n.langID == 0x409]
    own = {1: cjk.FAMILY, 2: "Regular", 3: f"{cjk.FAMILY} 1", 4: cjk.FAMILY, 6: "MindLabCJK"}
    for number, text in own.items():
        names.setName(text, number, 3, 1, 0x409)
    font.save(target)
    return target


def main(arguments: list[str] | None = None) -> int:
    """0, or 1 with what the font lacks."""
    parser = argparse.ArgumentParser(prog="python -m mindlab.draw.cjk_subset", description=__doc__)
    parser.add_argument("--check", action="store_true", help="make nothing; say what the font lacks")
    parser.add_argument("font", nargs="?", type=Path, default=SOURCE, metavar="FONT")
    options = parser.parse_args(arguments)
    if not options.check:
        print(f"made {make(options.font)}: {cjk.FONT.stat().st_size} bytes")
    lacking = missing()
    if lacking:
        print(f"{cjk.FONT.name} lacks {lacking}: python -m mindlab.draw.cjk_subset", file=sys.stderr)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
