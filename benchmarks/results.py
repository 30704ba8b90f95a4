"""Where does a benchmark's result go, and on what was it measured?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"


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
