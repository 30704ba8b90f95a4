"""A judge that may not stand in for people, certified all the same.

Before there was a verdict about judges, that of `calibrail.test` on the human labels was the way.
"""

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail

from .attack import Attack, Try

#: Answers that judges label, and the share of them that is hallucinated.
_N: Final = 1500
_PREVALENCE: Final = 0.3
#: Rows of which nothing is known but labels and the probability that people got them.
_ALIKE: Final = 1000
_LIMITS: Final[dict[str, Any]] = {"min_caught": 0.8, "max_false_alarms": 0.2}


def _write(
    path: Path, rng: np.random.Generator, misses: list[float], chances: tuple[float, float]
) -> Path:
    """Write answers with labels of judges, and of people as often as the first judge says."""
    truth = rng.random(_N) < _PREVALENCE
    calls = [np.where(truth, rng.random(_N) >= miss, rng.random(_N) < 0.02) for miss in misses]
    drawn = rng.random(_N) < np.where(calls[0], chances[1], chances[0])
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "human", *(f"judge{k}" for k in range(len(misses)))])
        for row in range(_N):
            human = int(truth[row]) if drawn[row] else ""
            rows.writerow([f"a{row}", human, *(int(call[row]) for call in calls)])
    return path


def best_of(judges: int) -> Try:
    """Try many judges that all catch just too few, and take one that is certified."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        path = _write(folder / "judged.csv", rng, [0.2 + 1e-6] * judges, (0.3, 0.3))
        names = [f"judge{k}" for k in range(judges)]
        result = calibrail.agree(path, label_column="human", judge_column=names, **_LIMITS)
        return any(item["verdict"] == "certified" for item in result.judges)

    return attempt


def flagged_more_often(rng: np.random.Generator, folder: Path) -> bool:
    """Let people label what the judge flags, and little of what it passes."""
    path = _write(folder / "judged.csv", rng, [0.35], (0.1, 0.6))
    result = calibrail.agree(path, label_column="human", judge_column="judge0", **_LIMITS)
    return result.verdict == "certified"


def of_rows_alike(rng: np.random.Generator, folder: Path) -> bool:
    """Draw rows without ids more often in one half: does the range of what is caught miss it?"""
    truth = rng.random(_ALIKE) < _PREVALENCE
    judge = np.where(truth, rng.random(_ALIKE) < 0.8, rng.random(_ALIKE) < 0.02)
    likelier = round(float(rng.uniform(0.4, 1.0)), 2)
    chance = np.where(rng.random(_ALIKE) < 0.5, likelier, 0.2)
    drawn = rng.random(_ALIKE) < chance
    rows: dict[str, Any] = {
        "human": [int(said) if known else None for said, known in zip(truth, drawn, strict=True)],
        "judge": judge.astype(int).tolist(),
        "chance": chance.tolist(),
    }
    named: dict[str, Any] = {"label_column": "human", "judge_column": "judge"}
    asked = {**named, **_LIMITS, "probability": "chance"}
    (found,) = calibrail.agree(rows, looks=False, **asked).to_dict()["judges"]
    caught = found["certificate"]["coverage"]
    return not caught["lower"] <= 0.8 <= caught["upper"]


ATTACKS = [
    Attack(
        "agree: of ten judges that catch just too few, one is certified",
        f"{_N} answers, about 450 by people",
        0.05,
        (21, 40),
        best_of(10),
        200,
    ),
    Attack(
        "agree: people label what the judge flags, and it is certified",
        f"{_N} answers, 6 in 10 flagged and 1 in 10 others by people",
        0.05,
        (36, 40),
        flagged_more_often,
        200,
    ),
    Attack(
        "agree: rows without ids drawn with two probabilities, the range of the caught misses",
        f"{_ALIKE} rows that hold labels and the probability alone",
        0.05,
        (41, 100),
        of_rows_alike,
        400,
    ),
]
