"""Do thresholds miss no more of new answers than promised, where they come from a file?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import calibrail
from calibrail.validity.check import DELTA, Check, MeanCheck, Setting
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, LARGE_ARE_HARD, QUESTIONS

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
