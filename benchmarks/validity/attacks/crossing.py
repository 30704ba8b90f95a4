"""Questions that cross what is told apart: topics, halves, sides; and margins that are just missed.

None of these has led to more wrong results than are stated. They stay here so that none ever does.
"""

import csv
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

import calibrail
from calibrail.conformal.power import Assumption, plan
from calibrail.options import Promise, Requirement

from .attack import Attack

_ALPHA: Final = 0.2
#: Distance of the two classes, in standard deviations, and how alike answers to a question are.
_SEPARATION, _ALIKE = 2.0, 0.9
_SCORE: Final = "column:column=score,higher=hallucinated"
#: Faithful answers flagged where a share alpha of the others is missed, and by how much more.
_FLAGGED: Final = float(ndtr(-(_SEPARATION + ndtri(_ALPHA))))
_MARGIN: Final = 0.03
_DETECTORS: Final = 9
#: Most answers to one question.
_MOST: Final = 4
_TOPICS: Final = 4


def _write(folder: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    path = folder / "answers.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "question_id", "label", *names], *rows])
    return path


def _question(rng: np.random.Generator, label: int, n: int, added: float = 0.0) -> list[float]:
    """Return the scores of the answers to a question, which are alike."""
    own, shared = rng.normal(size=n), rng.normal()
    mean = _SEPARATION * label + added
    scores: list[float] = (mean + _ALIKE**0.5 * shared + (1.0 - _ALIKE) ** 0.5 * own).tolist()
    return scores


def non_inferior(rng: np.random.Generator, folder: Path) -> bool:
    """Ask of nine detectors, all just beyond the margin, whether any is as good as a reference."""
    n, common = 600, rng.normal(size=600)
    labels = rng.integers(2, size=n)
    beyond = float(ndtri(1.0 - _ALPHA) - ndtri(_FLAGGED + _MARGIN + 1e-6))
    distances = [_SEPARATION, *[beyond] * _DETECTORS]
    own = rng.normal(size=(n, len(distances)))
    scores = (0.4**0.5 * common + 0.6**0.5 * own.T).T + np.outer(labels, distances)
    names = [f"s{place}" for place in range(len(distances))]
    told = zip(labels.tolist(), scores.tolist(), strict=True)
    path = _write(
        folder, names, ([f"a{i}", f"q{i}", label, *row] for i, (label, row) in enumerate(told))
    )
    specs = [f"column:column={name},higher=hallucinated" for name in names]
    made = calibrail.compare(
        path, specs, alpha=_ALPHA, baselines=False, reference="s0", margin=_MARGIN
    )
    reference = made.to_dict()["reference"]
    return any(item["verdict"] == "non-inferior" for item in reference["detectors"])


def wrong_of_topics(rng: np.random.Generator, folder: Path) -> bool:
    """Give any topic a wrong verdict, where the answers to a question lie in several topics."""
    rows, limit = [], 0.9
    for number in range(250):
        label, n = number % 2, int(rng.integers(1, _TOPICS + 1))
        scores = _question(rng, label, n)
        for topic, score in zip(rng.permutation(_TOPICS)[:n].tolist(), scores, strict=True):
            told = f"a{number}-{topic}", f"q{number}", label
            rows.append([*told, score + 0.3 * topic, f"t{topic}"])
    run = calibrail.calibrate(
        _write(folder, ["score", "topic"], rows),
        _SCORE,
        Promise(_ALPHA, "pac", by="topic"),
        Requirement(limit),
        group_column="question_id",
        baselines=False,
    )
    assert run.report.by_group is not None
    wrong = False
    for row in run.report.by_group["rows"]:
        at = row["threshold"] - 0.3 * int(row["group"][1:])
        kept = ndtr(at - _SEPARATION) <= _ALPHA and ndtr(-at) <= limit
        wrong |= row["verdict"] == ("rejected" if kept else "certified")
    return wrong


def broken_by_time(rng: np.random.Generator, folder: Path) -> bool:
    """Call a promise broken by later answers, where faithful ones alone have changed.

    Each question has an answer of either class, hard questions are hard for both, and some stand on
    both sides of the middle.
    """
    rows = []
    for number in range(240):
        hard = rng.normal()
        for label in (0, 1):
            score = _SEPARATION * label + 0.7**0.5 * hard + 0.3**0.5 * rng.normal()
            score += (1 - label) * number / 120
            told = f"a{number}-{label}", f"q{number}", label
            rows.append([*told, score, number + int(rng.integers(5))])
    path = _write(folder, ["score", "day"], rows)
    run = calibrail.shift(path, _SCORE, time="day", alpha=_ALPHA, group_column="question_id")
    return any(item["finding"] == "broken" for item in run.to_dict()["tests"])


#: An AUROC, and the limits for which answers are planned.
_AUROC, _PLANNED = 0.93, (Promise(0.1), Requirement(0.4))


@lru_cache
def _planned() -> int:
    """Return how many answers are planned, half of them hallucinated."""
    made = plan(*_PLANNED, Assumption(auroc=_AUROC), base_rate=0.5)
    assert made.n is not None
    return made.n


def not_as_planned(rng: np.random.Generator, folder: Path) -> bool:
    """Miss a certificate with as many questions as are planned, each with up to four answers."""
    rows, added = list[list[Any]](), 2.0**0.5 * float(ndtri(_AUROC)) - _SEPARATION
    for number in range(_planned()):
        label = int(rng.random() < 0.5)
        scores = _question(rng, label, int(rng.integers(1, _MOST + 1)), added * label)
        rows += [[f"a{number}-{i}", f"q{number}", label, item] for i, item in enumerate(scores)]
    path = _write(folder, ["score"], rows)
    asked: dict[str, Any] = {"group_column": "question_id", "baselines": False}
    run = calibrail.calibrate(path, _SCORE, *_PLANNED, **asked)
    return run.verdict != "certified"


ATTACKS = [
    Attack(
        "compare: a detector just beyond the margin is non-inferior",
        f"{_DETECTORS} of them, 600 answers, margin {_MARGIN:g}",
        0.05,
        None,
        non_inferior,
        100,
    ),
    Attack(
        "calibrate by topic: any wrong verdict, questions in several topics",
        f"250 questions, {_TOPICS} topics, alike by {_ALIKE:g}",
        0.05,
        None,
        wrong_of_topics,
        200,
    ),
    Attack(
        "shift in time: broken, though faithful answers alone have changed",
        "240 questions with an answer of either class",
        0.05,
        None,
        broken_by_time,
        200,
    ),
    Attack(
        "plan: no certificate with as many questions as it says",
        f"about 500 questions of 1 to {_MOST} answers, AUROC {_AUROC:g}, alike by {_ALIKE:g}",
        0.2,
        None,
        not_as_planned,
        100,
    ),
]
