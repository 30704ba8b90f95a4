"""Attacks on what wrong decisions cost."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

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


#: What 1,000 answers of new questions cost on average where a miss is five times as dear, and the
#: share of them that is hallucinated.
_TRUE: Final = 834.2
_HALLUCINATED: Final = 0.387
_DEAR: Final[dict[str, Any]] = {"cost_miss": 5.0, "cost_alarm": 1.0}


def _hard_questions(rng: np.random.Generator) -> dict[str, Any]:
    """Return answers of which most are missed where a question's are mostly hallucinated."""
    hard, sizes = rng.normal(size=200), rng.integers(2, 12, size=200)
    member = np.repeat(np.arange(200), sizes)
    labels = rng.random(len(member)) < 1.0 / (1.0 + np.exp(3.0 * hard[member] + 1.0))
    own = rng.normal(size=len(member))
    scores = 2.0 * labels + 0.7**0.5 * hard[member] + 0.3**0.5 * own
    return {"scores": scores, "labels": labels.astype(int), "groups": member}


def _tested(folder: Path, answers: dict[str, Any], true: float, **costs: Any) -> bool:
    """Test a threshold, and return whether it costs more than it is said to cost at most."""
    ids = np.arange(len(answers["labels"]))
    looks = folder / "looks.json"
    run = calibrail.test(**answers, ids=ids, threshold=1.0, looks=looks, **costs)
    return bool((run.report.cost or {})["upper"] < true)


def dearer_than_bound(rng: np.random.Generator, folder: Path) -> bool:
    """Test a threshold that misses most where a question's answers are mostly hallucinated."""
    return _tested(folder, _hard_questions(rng), _TRUE, **_DEAR)


def dearer_at_base_rate(rng: np.random.Generator, folder: Path) -> bool:
    """Name the share of hallucinated answers that is the true one."""
    answers = _hard_questions(rng)
    return _tested(folder, answers, _TRUE, **_DEAR, base_rate=_HALLUCINATED)


def dearer_than_sampled(rng: np.random.Generator, folder: Path) -> bool:
    """Test on sampled traffic, whose share of hallucinated answers is a sample's, too."""
    labels = rng.random(300) < 0.05
    answers = {"scores": 2.0 * labels + rng.normal(size=300) - 1.0, "labels": labels.astype(int)}
    true = 1000.0 * (0.05 * 20.0 * float(ndtr(0.0)) + 0.95 * float(ndtr(-2.0)))
    return _tested(folder, answers, true, cost_miss=20.0, cost_alarm=1.0)


def dearer_in_pairs(rng: np.random.Generator, folder: Path) -> bool:
    """Test on questions of which a hard one has its one answer missed and the other flagged."""
    hard = rng.normal(size=150)
    towards = 1.0 + hard
    answers = {
        "scores": np.concatenate([towards, -towards]) + 1.0,
        "labels": np.repeat([1, 0], 150),
        "groups": np.tile(np.arange(150), 2),
    }
    costs = {"cost_miss": 1.0, "cost_alarm": 1.0, "base_rate": 0.5}
    return _tested(folder, answers, 1000.0 * float(ndtr(-1.0)), **costs)


def cost_certified(rng: np.random.Generator, folder: Path) -> bool:
    """Certify that a guardrail costs less than it does, where questions are hard as above."""
    rows = [
        {"id": f"{number}", "label": number % 2, "s": float(score)}
        for number, score in enumerate(rng.normal(2.0 * (np.arange(200) % 2)))
    ]
    score = "column:column=s,higher=hallucinated"
    made = calibrail.calibrate(rows, score, threshold=1.0, **_DEAR, base_rate=_HALLUCINATED)
    config = made.freeze().config
    cost = {**(config.headline.cost or {}), "upper": _TRUE - 1.0}
    headline = config.headline.model_copy(update={"cost": cost})
    guardrail = calibrail.Guardrail(config.model_copy(update={"headline": headline}))
    answers = _hard_questions(rng)
    fresh = {
        "id": [f"f{number}" for number in range(len(answers["labels"]))],
        "group": [f"q{number}" for number in answers["groups"].tolist()],
        "label": answers["labels"].tolist(),
        "s": answers["scores"].tolist(),
    }
    return calibrail.certify(guardrail, fresh, looks=False).verdict == "certified"


_QUESTIONS_HARD: Final = "200 questions of 2 to 11 answers, a miss five times as dear"

ATTACKS = [
    Attack(
        "test by costs: the bound is exceeded where misses and hallucinations share questions",
        f"{_QUESTIONS_HARD}, no base rate named",
        0.05,
        (53, 60),
        dearer_than_bound,
        100,
    ),
    Attack(
        "test by costs: the bound at a true base rate is exceeded, misses and questions shared",
        f"{_QUESTIONS_HARD}, the true base rate named",
        0.05,
        (52, 60),
        dearer_at_base_rate,
        100,
    ),
    Attack(
        "test by costs: the bound is exceeded on sampled traffic",
        "300 answers, 5 % hallucinated, a miss 20 times as dear, no base rate named",
        0.05,
        (9, 60),
        dearer_than_sampled,
        200,
    ),
    Attack(
        "test by costs: the bound is exceeded where both answers of a question are hard",
        "150 questions with an answer of either class, one as hard as the other, base rate named",
        0.05,
        (13, 100),
        dearer_in_pairs,
        200,
    ),
    Attack(
        "certify by costs: what questions share is certified to cost less than it does",
        f"{_QUESTIONS_HARD}",
        0.05,
        (57, 60),
        cost_certified,
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
