"""The ranges of a test in which each question has a hallucinated and a faithful answer.

Hard questions are hard for both, so that the two answers of one question are not independent.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

import calibrail

from .attack import Attack, Try

#: Questions, and the share of the scores' variance that is the question's.
_N = 150
_SHARED = 0.9


def missed(range_of: Callable[[Any], Any], truth: float) -> Try:
    """Test a threshold between the classes: does a range leave out the truth?"""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        hard, own = rng.normal(size=_N), rng.normal(size=(2, _N))
        towards = 0.5 - _SHARED**0.5 * hard + (1.0 - _SHARED) ** 0.5 * own
        path = folder / "pairs.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "question_id", "label", "score"])
            for label, scores in zip((1, 0), (towards[0], -towards[1]), strict=True):
                for question, score in enumerate(scores.tolist()):
                    rows.writerow([f"a{question}-{label}", f"q{question}", label, score])
        found = calibrail.test(
            path,
            score_column="score",
            higher="hallucinated",
            threshold=0.0,
            group_column="question_id",
            looks=folder / "looks.json",
        )
        measured = range_of(found.report.test)
        return not measured.lower <= truth <= measured.upper

    return attempt


_SETTING = f"{_N} questions with an answer of either class, alike hard ({_SHARED:g})"

ATTACKS = [
    Attack(
        "test: the range of the AUROC misses",
        _SETTING,
        0.05,
        (42, 300),
        missed(lambda test: test.auroc, float(ndtr(0.5**0.5))),
    ),
    Attack(
        "test: the range of the accuracy misses",
        _SETTING,
        0.05,
        (32, 300),
        missed(lambda test: test.accuracy, float(ndtr(0.5))),
    ),
]
