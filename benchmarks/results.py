"""Where does a benchmark's result go, and on what was it measured?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
#: The style sheet of pages, whose colours in the dark a dark figure has.
STYLE = files("calibrail.report") / "templates" / "page.css.j2"


def write(
    name: str,
    title: str,
    lines: Sequence[str],
    libraries: Sequence[str] = (),
    script: str | None = None,
) -> None:
    """Print a markdown page and write it to ``results/NAME.md``.

    ``script`` is what measured it: ``benchmarks/NAME.py`` when left out.
    """
    versions = "".join(f", {item} {importlib.metadata.version(item)}" for item in libraries)
    machine = f"Python {platform.python_version()} on {os.cpu_count()} cores{versions}."
    measured = f"Measured by `{script or f'benchmarks/{name}.py'}`: {machine}"
    page = "\n".join([f"# {title}", "", *lines, "", measured])
    print(page)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(page + "\n", encoding="utf-8")


def light_and_dark(svg: str, path: Path) -> None:
    """Write a figure on no background for a light page and for a dark one, as NAME-*.svg."""
    from calibrail.report.html import standing_alone

    both_modes(standing_alone(svg), path)


def both_modes(alone: str, path: Path) -> None:
    """Write a figure's file, which is dark on white, as `light_and_dark` does."""
    from calibrail.report.figures.plot import COLOURS

    alone = re.sub(r'<rect [^>]*fill="#ffffff"/>', "", alone, count=1)
    night = STYLE.read_text(encoding="utf-8").split("(prefers-color-scheme: dark)")[1]
    path.parent.mkdir(exist_ok=True)
    path.with_stem(f"{path.stem}-light").write_text(alone, encoding="utf-8")
    # Letters over lines have an edge of the ground's colour.
    for variable, colour in (*COLOURS.values(), ("var(--ground)", "#ffffff")):
        found = re.search(rf"{variable[4:-1]}: (#[0-9a-f]{{6}})", night)
        assert found is not None, variable
        alone = alone.replace(colour, found[1])
    path.with_stem(f"{path.stem}-dark").write_text(alone, encoding="utf-8")
