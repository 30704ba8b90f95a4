"""The labelled sets that hold texts, as examples; and pictures for light and dark pages."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from calibrail.data import Example, read
from calibrail.report.figures.plot import COLOURS

ROOT: Final = Path(__file__).resolve().parents[1]
DATA: Final = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))
FIGURES: Final = ROOT / "docs" / "figures"
#: By the name of a set, its folder.
TEXTS: Final[Mapping[str, str]] = {
    "RAGTruth QA": "ragtruth",
    "FaithBench": "faithbench",
    "HaluEval QA": "halueval",
}
#: What the light colours become on a dark page, in the order of ``COLOURS``.
_DARK: Final = (
    *("#e6e9ef", "#a3adbd", "#ff9b85", "#7db8f5", "#4cc38a", "#ff8a7a", "#e0b04a"),
    *("#7db8f5", "#ff9b85", "#4cc38a", "#b794f6", "#e0b04a", "#f58ac0"),
)


def missing() -> list[str]:
    """Return the folders that are not there."""
    return [str(DATA / folder) for folder in TEXTS.values() if not (DATA / folder).is_dir()]


def read_texts(name: str) -> list[Example]:
    """Return all answers of a set; FaithBench's summaries have no question."""
    folder = DATA / TEXTS[name]
    if name != "FaithBench":
        return list(read(folder))
    with (folder / "summaries.csv").open(newline="", encoding="utf-8") as stream:
        return [
            Example(
                question="",
                contexts=(row["contexts"],),
                response=row["response"],
                label=int(row["label"]),
                group=row["group"],
                id=row["id"],
            )
            for row in csv.DictReader(stream)
        ]


def write_schemes(svg: str, name: str) -> None:
    """Write a figure of ``Plot.svg`` for light pages and for dark ones, on no background."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" font-family="\'DejaVu Sans\', sans-serif"'
    for scheme, dark in (("light", None), ("dark", _DARK)):
        text = svg.replace("<svg", head, 1)
        colours = [light for _, light in COLOURS.values()] if dark is None else dark
        for (variable, _), colour in zip(COLOURS.values(), colours, strict=True):
            text = text.replace(variable, colour)
        FIGURES.mkdir(exist_ok=True)
        (FIGURES / f"{name}-{scheme}.svg").write_text(text, encoding="utf-8")
