"""Where does a benchmark's result go, and on what was it measured?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"


def write(name: str, title: str, lines: Sequence[str], libraries: Sequence[str] = ()) -> None:
    """Print a markdown page and write it to ``results/NAME.md``."""
    versions = "".join(f", {item} {importlib.metadata.version(item)}" for item in libraries)
    machine = f"Python {platform.python_version()} on {os.cpu_count()} cores{versions}."
    page = "\n".join(
        [f"# {title}", "", *lines, "", f"Measured by `benchmarks/{name}.py`: {machine}"]
    )
    print(page)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(page + "\n", encoding="utf-8")
