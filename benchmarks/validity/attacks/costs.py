"""Attacks on what wrong decisions cost."""

from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail

from .attack import Attack

_QUESTIONS: Final = 60
_ANSWERS: Final = 10
#: How far hallucinated answers lie above the others.
_TOLD: Final = 1.8


def cheaper_than_passing(rng: np.random.Generator, folder: Path) -> bool:
    """Show that a threshold costs less than passing all, where passing all costs half as much."""
    n = _QUESTIONS * _ANSWERS
    labels = np.arange(n) % _ANSWERS == 0
    rows: dict[str, Any] = {
        "id": [f"a{row}" for row in range(n)],
        "group": [f"q{row // _ANSWERS}" for row in range(n)],
        "label": labels.astype(int).tolist(),
        "score": rng.normal(_TOLD * labels).tolist(),
    }
    run = calibrail.calibrate(
        rows,
        "column:column=score,higher=hallucinated",
        cost_miss=1.0,
        cost_alarm=1.0,
        baselines=False,
    )
    return bool((run.report.cost or {})["beats"])


ATTACKS = [
    Attack(
        "calibrate by costs: a threshold is shown to cost less than passing all",
        f"{_QUESTIONS} questions of {_ANSWERS} answers, one hallucinated, errors as dear; it costs "
        "about twice as much",
        0.05,
        (20, 20),
        cheaper_than_passing,
        100,
    ),
]
