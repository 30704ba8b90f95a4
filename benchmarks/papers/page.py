"""Where do the cells of a paper go?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from cells import Section, counts, markdown, terminal

FOLDER: Final = Path(__file__).resolve().parents[1] / "results"
LIBRARIES: Final = ("torch", "transformers", "sentence-transformers")

RULE: Final = (
    "A published figure is *reproduced* when it lies within the measured 95 % interval, widened by "
    "the sampling error of the published figure (the same interval scaled to its number of "
    "answers, in quadrature) and by half a unit of its last digit. What was measured with another "
    "model than the paper's has no verdict: it is *not runnable here*, and the last column says "
    "whether the stand-in would agree."
)


def write(name: str, title: str, text: str, sections: Sequence[Section], command: str) -> Path:
    """Print the cells and write the page ``results/papers_NAME.md``; return its path."""
    total = counts(chain.from_iterable(section.cells for section in sections))
    versions = "".join(f", {item} {importlib.metadata.version(item)}" for item in LIBRARIES)
    machine = f"Python {platform.python_version()} on {os.cpu_count()} cores{versions}"
    lines = [
        f"# {title}",
        "",
        text,
        "",
        RULE,
        "",
        f"**{total}**",
        *markdown(sections),
        "",
        f"Measured by `{command}`: {machine}.",
    ]
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"papers_{name}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(terminal(sections))
    print(f"\nAll of {title}: {total}\nWritten to {path}")
    return path
