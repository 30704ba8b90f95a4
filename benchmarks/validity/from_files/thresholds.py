"""Do thresholds keep their promises from a file, for all answers and in groups that overlap?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import calibrail
from calibrail.conformal import OverlappingCalibration
from calibrail.conformal.group_thresholds import THIRDS, joined, third
from calibrail.options import Costs

from ..check import DELTA, Check, MeanCheck, Setting
from .files import ALONE, LARGE_ARE_HARD, QUESTIONS, SCORE, SEPARATION, folder

#: What a topic adds to the score: answers of a hard one look faithful.
TOPICS: Final = {"easy": 1.0, "middle": 0.0, "hard": -1.0}
POPULATIONS: Final = (ALONE, LARGE_ARE_HARD, QUESTIONS)
#: Topics cut across the answers of one question.
BY_TOPIC: Final = tuple(replace(item, topics=TOPICS) for item in (ALONE, QUESTIONS))
#: Share of faithful answers that a three-way decision may flag.
BETA: Final = 0.2


def miss_rates(at: Setting) -> Iterator[Check | MeanCheck]:
    """Miss a hallucinated answer of a new group, flag a faithful one: alpha and BETA on average.

    With ``pac``, draw a threshold that misses more than alpha: at most DELTA.
    """
    promise = at.promise(beta=BETA)
    for population in POPULATIONS:
        rng = at.rng(f"thresholds, {population.name}")
        missed, flagged, bad = [], [], []
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                rule = calibrail.calibrate(path, SCORE, promise).rule
                missed.append(population.below(rule.calibration.threshold, 1))
                assert rule.flag_above is not None
                flagged.append(population.fpr(rule.flag_above))
                pac = calibrail.calibrate(path, SCORE, at.promise("pac")).calibration
                bad.append(population.below(pac.threshold, 1) > at.alpha)
        name = population.name
        yield at.mean("marginal, missed of new answers", missed, at.alpha, design=name)
        yield at.mean("three-way, faithful answers flagged", flagged, BETA, design=name)
        yield at.check("pac, threshold misses too much", bad, DELTA, design=name)


#: What a miss and a false alarm cost, and the share of hallucinated answers to come.
COSTS: Final = Costs(20.0, 1.0, base_rate=0.1)


def exceeded_costs(at: Setting) -> Iterator[Check]:
    """Exceed the bound of what the threshold of least cost costs: alpha = 1 - confidence at most.

    Of test answers that stand for a half of the same file, and of all answers, at a threshold that
    was fixed before.
    """
    misses, alarms = COSTS.weights(0.5)
    for population in POPULATIONS:
        rng = at.rng(f"costs, {population.name}")
        exceeded: dict[str, list[bool]] = {"picked": [], "fixed before": []}
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                for design, threshold in (("picked", None), ("fixed before", SEPARATION / 2.0)):
                    run = calibrail.calibrate(
                        path, SCORE, threshold=threshold, costs=COSTS, confidence=1.0 - at.alpha
                    )
                    edge, cost = run.calibration.threshold, run.report.cost
                    assert cost is not None
                    true = misses * population.below(edge, 1) + alarms * population.fpr(edge)
                    exceeded[design].append(cost["per"] * true > cost["upper"])
        for design, items in exceeded.items():
            design = f"{design}, {population.name}"
            yield at.check("costs, more than their bound", items, at.alpha, design=design)


def by_topic(at: Setting) -> Iterator[Check | MeanCheck]:
    """Miss a hallucinated answer of a topic from a new group: at most alpha on average, in each.

    With ``pac``, draw a threshold of a topic that misses more than alpha: at most DELTA each.
    """
    for population in BY_TOPIC:
        rng = at.rng(f"by topic, {population.name}")
        missed = {topic: list[float]() for topic in TOPICS}
        bad = {topic: list[float]() for topic in TOPICS}
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                for promise, rates in (
                    (at.promise(by="topic"), missed),
                    (at.promise("pac", by="topic"), bad),
                ):
                    rule = calibrail.calibrate(path, SCORE, promise).rule
                    for topic in TOPICS:
                        (threshold,) = rule.thresholds(1, [topic]).tolist()
                        rates[topic].append(population.below(threshold, 1, topic))
        for topic in TOPICS:
            design = f"{topic}, {population.name}"
            yield at.mean("by topic, missed of new answers", missed[topic], at.alpha, design=design)
            failed = [rate > at.alpha for rate in bad[topic]]
            yield at.check("by topic, pac threshold misses too much", failed, DELTA, design=design)


#: What a model adds to the score, and how often a topic is written on by the hard one.
MODELS: Final = {"large": 0.0, "small": -1.2}
_SMALL: Final = {"easy": 0.1, "middle": 0.2, "hard": 0.4}
#: A long answer looks faithful, one of the hard model most of all.
_LENGTHS: Final = (20, 60, 200)
_LONG: Final = {"large": -0.3, "small": -0.8}
_FIT: Final = 0.2


def overlapping_misses(at: Setting) -> Iterator[MeanCheck]:
    """Miss a hallucinated answer of a topic, a model, a third of the lengths: alpha on average.

    The scores are no sum of what topic, model and length add, and models and topics hang together.
    """
    population, rng = ALONE, at.rng("overlapping groups")
    by = ("model", "topic", "length")
    cells = [(model, topic, length) for model in MODELS for topic in TOPICS for length in _LENGTHS]
    shares = np.array([_share(model, topic) for model, topic, _ in cells])
    means = np.array([SEPARATION + _added(*cell) for cell in cells])
    missed: dict[str, list[float]] = {}
    with folder() as place:
        for _ in range(at.runs):
            answers, columns = _drawn(at.n, rng)
            path = population.write(place, "labelled", answers, **columns)
            splitting = calibrail.SplitOptions(fit_share=_FIT, seed=int(rng.integers(1 << 30)))
            run = calibrail.calibrate(path, SCORE, at.promise(by=by), splitting=splitting)
            grouped = run.rule.groups
            assert isinstance(grouped, OverlappingCalibration) and grouped.cuts is not None
            thirds = [third(length, grouped.cuts) for *_, length in cells]
            names = [(*cell[:2], part) for cell, part in zip(cells, thirds, strict=True)]
            keys = [joined(cell) for cell in names]
            rates = ndtr(grouped.thresholds(keys) - means) * grouped.is_covered(keys)
            for column, values in enumerate((MODELS, TOPICS, THIRDS)):
                for value in values:
                    inside = np.array([cell[column] == value for cell in names]) * shares
                    own = grouped.has_promise(column, value)
                    rate = float(inside @ rates / inside.sum()) if own else 0.0
                    missed.setdefault(f"{by[column]}: {value}", []).append(rate)
    for design, rates_of in missed.items():
        yield at.mean(
            "overlapping groups, missed of new answers", rates_of, at.alpha, design=design
        )


def _added(model: str, topic: str, length: int) -> float:
    """Return what an answer's groups add to its score."""
    return MODELS[model] + TOPICS[topic] + _LONG[model] * (length == _LENGTHS[-1])


def _share(model: str, topic: str) -> float:
    """Return the share of answers on a topic, of one length, that are a model's."""
    return _SMALL[topic] if model == "small" else 1.0 - _SMALL[topic]


def _drawn(n: int, rng: np.random.Generator) -> tuple[Any, dict[str, list[str]]]:
    """Draw answers that stand alone, and their models, topics and texts."""
    answers = ALONE.draw(rng, n)
    topics = rng.choice(list(TOPICS), n).tolist()
    models = ["small" if rng.random() < _SMALL[topic] else "large" for topic in topics]
    lengths: NDArray[np.int64] = rng.choice(_LENGTHS, n)
    groups = zip(models, topics, lengths.tolist(), strict=True)
    answers.scores[0] += [_added(*group) for group in groups]
    # Random letters: no two answers are copies.
    letters = (rng.integers(97, 123, size=length) for length in lengths)
    texts = [bytes(item.astype(np.uint8)).decode() for item in letters]
    return answers, {"model": models, "topic": topics, "response": texts}
