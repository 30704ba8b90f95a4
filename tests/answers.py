"""Small labelled answers for tests, made up on the spot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

PLACES = ("Ard", "Belm", "Corvo", "Dunnet", "Elmar", "Foss", "Gilder", "Harrow", "Inver", "Jura")


def rows(n: int = 120, seed: int = 0, prefix: str = "") -> list[dict[str, Any]]:
    """Return n faithful and n hallucinated answers, two a question, with a column of scores."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(n):
        place = f"{prefix}{PLACES[index % len(PLACES)]} {index}"
        height, length = int(rng.integers(100, 900)), int(rng.integers(10, 90))
        context = (
            f"Mount {place} is {height} metres high and overlooks a valley of {length} kilometres."
        )
        answers = (
            f"Mount {place} is {height} metres high.",
            f"Mount {place} is {height + 7} metres high, taller than its famous neighbour.",
        )
        for label, answer in enumerate(answers):
            found.append(
                {
                    "id": f"{prefix}q{index}-{label}",
                    "question": f"How high is Mount {place}?",
                    "contexts": [context],
                    "response": answer,
                    "label": label,
                    "group": f"{prefix}q{index}",
                    "detector": float(rng.normal(1.5 * label, 1.0)),
                }
            )
    return found


def write(path: Path, items: Iterable[Mapping[str, Any] | str]) -> Path:
    """Write rows as JSON lines; a string is written as it stands."""
    lines = (item if isinstance(item, str) else json.dumps(item) for item in items)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
