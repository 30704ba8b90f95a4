"""pac without a test half: thresholds from all hallucinated answers, by topics too, and verdicts.

A run that is refused, or ends in a verdict that is wrong, counts as one that went wrong. Before the
threshold was its own proof, no run without a test half came to an end.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import calibrail
from calibrail.errors import CalibrailError, TooFewExamplesError

from .attack import Attack, Try

ALPHA, DELTA, CONFIDENCE = 0.1, 0.1, 0.95
#: What a verdict by construction may err: half of it is the threshold's.
STATED = 1.0 - CONFIDENCE
#: Distance of the two classes, in standard deviations.
SEPARATION = 1.5
#: Steps in which a coarse score is told, per standard deviation.
STEPS = 2.0
#: Topics with a threshold of their own, and questions of one more that is too small for it.
TOPICS, TINY = 5, 8
#: By how much all scores of a topic are higher than those of the one before it.
BETWEEN = 0.5
#: What raises few false alarms in every topic, as far as its hallucinations are caught.
GENEROUS = 0.9

Floats = NDArray[np.float64]
#: Scores, labels and groups of a file.
Rows = tuple[Floats, NDArray[np.int64], NDArray[np.int64]]
Draw = Callable[[np.random.Generator], Rows]


def alone(n: int, share: float = 0.4) -> Draw:
    """Return answers without groups, of which a share is hallucinated."""

    def draw(rng: np.random.Generator) -> Rows:
        labels = (np.arange(n) < round(share * n)).astype(np.int64)
        return rng.normal(SEPARATION * labels, 1.0), labels, np.arange(n)

    return draw


def grouped(questions: int, sizes: tuple[int, ...], correlation: float) -> Draw:
    """Return questions with several answers of both classes, alike within their question."""

    def draw(rng: np.random.Generator) -> Rows:
        size = rng.choice(sizes, questions)
        groups = np.repeat(np.arange(questions), size)
        shared = rng.normal(0.0, np.sqrt(correlation), questions)[groups]
        labels = rng.integers(0, 2, len(groups))
        noise = rng.normal(0.0, np.sqrt(1.0 - correlation), len(groups))
        return SEPARATION * labels + shared + noise, labels, groups

    return draw


def miss(threshold: float, *, tied: bool) -> float:
    """Return the share of hallucinated answers below a threshold."""
    edge = threshold - 0.5 / STEPS if tied else threshold
    return float(ndtr(edge - SEPARATION))


def alarms(threshold: float, *, tied: bool) -> float:
    """Return the share of faithful answers from a threshold on."""
    edge = threshold - 0.5 / STEPS if tied else threshold
    return float(ndtr(-edge))


def ran(
    rng: np.random.Generator,
    folder: Path,
    draw: Draw,
    *,
    tied: bool = False,
    tiny: bool = False,
    **asked: Any,
) -> calibrail.Run:
    """Write answers as a user has them, and calibrate without a test half."""
    scores, labels, groups = draw(rng)
    topics = np.where(tiny & (groups < TINY), TOPICS, groups % TOPICS)
    if "by" in asked:
        scores = scores + BETWEEN * topics
    if tied:
        scores = np.round(scores * STEPS) / STEPS
    order = rng.permutation(len(labels))
    with (folder / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "question_id", "topic", "label", "score"])
        for row in order.tolist():
            told = f"a{row}", f"q{groups[row]}", f"t{topics[row]}"
            writer.writerow([*told, labels[row], repr(float(scores[row]))])
    return calibrail.calibrate(
        folder / "answers.csv",
        "column:column=score,higher=hallucinated",
        alpha=ALPHA,
        guarantee="pac",
        delta=None if "max_fpr" in asked else DELTA,
        confidence=CONFIDENCE,
        reading=calibrail.ReadOptions(id_column="id", group_column="question_id"),
        baselines=False,
        **{"splitting": calibrail.SplitOptions(calibration_share=1.0), **asked},
    )


def misses_too_much(draw: Draw, *, tied: bool = False) -> Try:
    """Return an attempt at a threshold that misses more than alpha."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool | None:
        try:
            run = ran(rng, folder, draw, tied=tied)
        except TooFewExamplesError:
            return None
        except CalibrailError:
            return True
        return miss(run.calibration.threshold, tied=tied) > ALPHA

    return attempt


def wrong_verdict(draw: Draw, *, tied: bool = False, more: float = 0.0) -> Try:
    """Return an attempt at a wrong verdict, where both limits lie at what a miss of alpha costs.

    Half of all thresholds break one of the two. ``more`` is required than 1 - alpha.
    """
    limit = float(ndtr(-(ndtri(ALPHA) + SEPARATION)))

    def attempt(rng: np.random.Generator, folder: Path) -> bool | None:
        required = 1.0 - ALPHA + more
        try:
            run = ran(rng, folder, draw, tied=tied, max_false_alarms=limit, min_caught=required)
        except CalibrailError:
            return True
        threshold = run.calibration.threshold
        kept = 1.0 - miss(threshold, tied=tied) >= required
        kept = kept and alarms(threshold, tied=tied) <= limit
        return run.verdict == ("rejected" if kept else "certified")

    return attempt


def wrong_table(
    draw: Draw, *, limit: float | None = None, tied: bool = False, tiny: bool = False
) -> Try:
    """Return an attempt at any wrong verdict, of a topic or of all answers.

    The limit of false alarms is that of ``wrong_verdict``, or one that every topic keeps.
    """
    alarmed = float(ndtr(-(ndtri(ALPHA) + SEPARATION))) if limit is None else limit

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        try:
            run = ran(rng, folder, draw, tied=tied, tiny=tiny, by="topic", max_false_alarms=alarmed)
        except CalibrailError:
            return True
        rates, wrong = [], False
        assert run.report.by_group is not None
        for row in run.report.by_group["rows"]:
            at = row["threshold"] - BETWEEN * int(row["group"][1:])
            rates.append((miss(at, tied=tied), alarms(at, tied=tied)))
            kept = rates[-1][0] <= ALPHA and rates[-1][1] <= alarmed
            wrong |= row["verdict"] == ("rejected" if kept else "certified")
        # Topics are as frequent as each other, but for the tiny one.
        missed, flagged = np.mean(rates[:TOPICS], axis=0).tolist()
        kept = missed <= ALPHA and flagged <= alarmed
        return wrong or run.verdict == ("rejected" if kept else "certified")

    return attempt


def topic_not_certified(n: int) -> Try:
    """Return an attempt to certify one of equally good topics with as many labels as are said."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        draw = alone(n, 0.5)
        run = ran(rng, folder, draw, by="topic", max_false_alarms=0.7, splitting=None)
        assert run.report.by_group is not None
        return bool(run.report.by_group["rows"][0]["verdict"] != "certified")

    return attempt


def not_certified(n: int) -> Try:
    """Return an attempt to certify a good detector with as many labels as are said to do."""

    def attempt(rng: np.random.Generator, folder: Path) -> bool:
        scores, labels, groups = alone(n, 0.3)(rng)
        scores += 0.5 * labels
        ids = [f"a{row}" for row in groups]
        data = {"score": scores.tolist(), "label": labels.tolist(), "id": ids}
        run = calibrail.calibrate(
            data,
            "column:column=score,higher=hallucinated",
            alpha=0.05,
            guarantee="pac",
            max_false_alarms=0.5,
            baselines=False,
        )
        return run.verdict != "certified"

    return attempt


_MISSES = "pac from all answers, threshold misses more than alpha, or none"
_VERDICT = "pac from all answers, wrong verdict, or none"
_QUESTIONS = "120 questions of 1 to 8 answers, alike by 0.7"
_DRAWN = grouped(120, (1, 2, 8), 0.7)
_TABLE = "pac by topic from all answers, any wrong verdict, or none"
_MANY = grouped(600, (1, 2, 8), 0.7)

ATTACKS = [
    Attack(_MISSES, "500 answers", DELTA, (40, 40), misses_too_much(alone(500))),
    Attack(f"{_MISSES}, tied", "500", DELTA, (40, 40), misses_too_much(alone(500), tied=True)),
    Attack(f"{_MISSES}, tiny", "60 answers", DELTA, (40, 40), misses_too_much(alone(60))),
    Attack(f"{_MISSES}, grouped", _QUESTIONS, DELTA, (40, 40), misses_too_much(_DRAWN)),
    Attack(_VERDICT, "500 answers", STATED, (40, 40), wrong_verdict(alone(500))),
    Attack(f"{_VERDICT}, tied", "500", STATED, (40, 40), wrong_verdict(alone(500), tied=True)),
    Attack(f"{_VERDICT}, grouped", _QUESTIONS, STATED, (40, 40), wrong_verdict(_DRAWN)),
    Attack(
        f"{_VERDICT}, more required",
        "500 answers, 2 points above 1 - alpha",
        STATED,
        (40, 40),
        wrong_verdict(alone(500), more=0.02),
    ),
    Attack(_TABLE, "5 topics, 1,000 answers", STATED, (40, 40), wrong_table(alone(1000))),
    Attack(
        _TABLE,
        "5 topics, 500 answers, nearly all false alarms accepted",
        STATED,
        (40, 40),
        wrong_table(alone(500), limit=GENEROUS),
    ),
    Attack(
        f"{_TABLE}, grouped, tied, with a tiny topic",
        "600 questions of 1 to 8 answers, alike by 0.7, nearly all false alarms accepted",
        STATED,
        (40, 40),
        wrong_table(_MANY, limit=GENEROUS, tied=True, tiny=True),
    ),
    Attack(
        "pac by topic, one of five good topics is not certified",
        "5 topics, 1,750 answers, AUROC 0.856, at most 10 % missed and 70 % false alarms",
        0.2,
        (36, 40),
        topic_not_certified(1750),
    ),
    Attack(
        "pac, a good detector is not certified",
        "2,122 answers, AUROC 0.921, at most 5 % missed and 50 % false alarms (before: 1,409, "
        "confidence 0.875)",
        0.2,
        (79, 200),
        # As many as `plan` says for a probability of 80 %.
        not_certified(2122),
    ),
]
