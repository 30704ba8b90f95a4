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


#: What 1,000 answers of new questions cost on average where a miss is five times as dear.
_TRUE: Final = 834.2


def dearer_than_bound(rng: np.random.Generator, folder: Path) -> bool:
    """Test a threshold that misses most where a question's answers are mostly hallucinated."""
    hard, sizes = rng.normal(size=200), rng.integers(2, 12, size=200)
    member = np.repeat(np.arange(200), sizes)
    labels = rng.random(len(member)) < 1.0 / (1.0 + np.exp(3.0 * hard[member] + 1.0))
    own = rng.normal(size=len(member))
    run = calibrail.test(
        scores=2.0 * labels + 0.7**0.5 * hard[member] + 0.3**0.5 * own,
        labels=labels.astype(int),
        groups=member,
        ids=np.arange(len(member)),
        threshold=1.0,
        cost_miss=5.0,
        cost_alarm=1.0,
        looks=folder / "looks.json",
    )
    return bool((run.report.cost or {})["upper"] < _TRUE)


ATTACKS = [
    Attack(
        "test by costs: the bound is exceeded where misses and hallucinations share questions",
        "200 questions of 2 to 11 answers, a miss five times as dear, no base rate named",
        0.05,
        (53, 60),
        dearer_than_bound,
        100,
    ),
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
