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
#: Questions, each with several answers.
_QUESTIONS: Final = 200
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


def of_one_id(rng: np.random.Generator, folder: Path) -> bool:
    """Let ids be those of questions, whose five answers a judge calls alike."""
    rows: dict[str, Any] = {"id": [], "response": [], "human": [], "judge": []}
    for question in range(_QUESTIONS):
        truth = int(rng.random() < 0.5)
        judge = int(rng.random() < (0.8 if truth else 0.02))
        for answer in range(5):
            cells = f"q{question}", f"Answer {answer} to question {question}", truth, judge
            for values, cell in zip(rows.values(), cells, strict=True):
                values.append(cell)
    named: dict[str, Any] = {"label_column": "human", "judge_column": "judge"}
    return calibrail.agree(rows, looks=False, **named, **_LIMITS).verdict == "certified"


def of_large_ids(rng: np.random.Generator, folder: Path) -> bool:
    """Let people label rows without texts singly, where ids of five rows are the hard ones."""
    rows: dict[str, Any] = {"id": [], "human": [], "judge": []}
    for question in range(2 * _QUESTIONS):
        size, caught = (5, 0.55) if question % 2 else (1, 0.97)
        for _ in range(size):
            truth = int(rng.random() < 0.5)
            judge = int(rng.random() < (caught if truth else 0.05))
            cells = f"q{question}", truth if rng.random() < 0.3 else None, judge
            for values, cell in zip(rows.values(), cells, strict=True):
                values.append(cell)
    named: dict[str, Any] = {"label_column": "human", "judge_column": "judge"}
    return calibrail.agree(rows, looks=False, **named, **_LIMITS).verdict == "certified"


def of_segments(*, drawn_alike: bool) -> Try:
    """Test judges by segments that share questions, or label most in the one where it is good."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        rows: dict[str, Any] = {"id": [], "group": [], "lang": [], "human": [], "judge": []}
        for question in range(_QUESTIONS):
            # Hard questions are so in every language.
            hard = rng.random() < 0.5
            for lang in range(4):
                truth, good = int(rng.random() < 0.4), not drawn_alike and lang == 0
                caught = 0.98 if good else (0.6 if hard else 1.0) if drawn_alike else 0.7
                judge = int(rng.random() < (caught if truth else 0.02))
                drawn = rng.random() < (0.9 if drawn_alike or good else 0.05)
                human = truth if drawn else None
                group = f"q{question}" if drawn_alike else f"q{question}-{lang}"
                cells = f"{question}-{lang}", group, f"l{lang}", human, judge
                for values, cell in zip(rows.values(), cells, strict=True):
                    values.append(cell)
        named: dict[str, Any] = {"label_column": "human", "judge_column": "judge", "by": "lang"}
        found = calibrail.agree(rows, looks=False, **named, **_LIMITS)
        if drawn_alike:
            return any(row["verdict"] == "certified" for row in found.by)
        return found.verdict == "certified"

    return attempt


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
    Attack(
        "agree: ids are those of questions, and a judge that catches just too few is certified",
        f"{_QUESTIONS} questions with five answers that are alike",
        0.05,
        (5, 20),
        of_one_id,
        200,
    ),
    Attack(
        "agree: rows of ids labelled singly, of which the large ones are hard, are certified",
        f"{2 * _QUESTIONS} ids of one row or five, without texts, of which it catches 76 %",
        0.05,
        (10, 20),
        of_large_ids,
        200,
    ),
    Attack(
        "agree: most labels lie in the segment where the judge is good, and it is certified",
        f"{_QUESTIONS} answers in each of four segments, of which it catches 77 %",
        0.05,
        (11, 20),
        of_segments(drawn_alike=False),
        200,
    ),
    Attack(
        "agree: of four segments with the same questions one is certified that catches too few",
        f"{_QUESTIONS} questions in each of four segments",
        0.05,
        None,
        of_segments(drawn_alike=True),
        200,
    ),
]
