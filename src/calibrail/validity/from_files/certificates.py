"""How often is a verdict about a file wrong, by calibrate, by certify, and by looking again?

The truth lies just on the other side of what a verdict says: coverage just too low or FPR just too
high for a certificate, both just met for a rejection. So that it does, one threshold is fixed: the
calibration answers stay the same, and the test answers are drawn anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

import calibrail
from calibrail import Guardrail
from calibrail.settings import Promise, Requirement, SplitOptions
from calibrail.validity.check import DELTA, Check, Setting
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, QUESTIONS, Population

#: Questions whose labelled answers are the more alike the more there are, and harder.
_HARD: Final = replace(QUESTIONS, name=f"{QUESTIONS.name}, large ones hard", slope=0.5)
POPULATIONS: Final = (ALONE, QUESTIONS, _HARD)
_TOPICS: Final = dict.fromkeys(("first", "second", "third"), 0.0)
BY_TOPIC: Final = tuple(replace(item, topics=_TOPICS) for item in (ALONE, QUESTIONS))
#: What the thresholds promise.
PROMISE: Final = Promise(alpha=0.2)
#: Answers or groups that a threshold comes from.
_CALIBRATING: Final = 60
#: By so little is a requirement broken.
_LITTLE: Final = 1e-6


def requirements(population: Population, threshold: float, error: float) -> dict[str, Requirement]:
    """Return requirements of which a threshold just breaks one, and one that it just meets."""
    coverage, fpr, sure = population.coverage(threshold), population.fpr(threshold), 1.0 - error
    return {
        "coverage just too low": Requirement(0.95, coverage + _LITTLE, sure),
        "FPR just too high": Requirement(fpr - _LITTLE, 0.1, sure),
        "both just met": Requirement(fpr + _LITTLE, coverage - _LITTLE, sure),
    }


def wrong(verdict: str, design: str) -> bool:
    """Return whether a verdict is wrong about one of the ``requirements``."""
    return verdict == ("rejected" if design == "both just met" else "certified")


def calibrate_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict on the test part of a user's own split: at most alpha = 1 - confidence.

    Split by lot, a threshold differs from run to run, and the truth lies where it lies: certified
    although it breaks a requirement, which half of all thresholds do.
    """
    for population in POPULATIONS:
        rng = at.rng(f"calibrate, {population.name}")
        known = population.draw(rng, _CALIBRATING)
        splitting, threshold = SplitOptions(column="part"), None
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            for _ in range(at.runs):
                fresh = population.draw(rng, at.n)
                parts = ["calibration"] * len(known) + ["test"] * len(fresh)
                path = population.write(place, "labelled", known.joined(fresh), part=parts)
                if threshold is None:
                    run = calibrail.calibrate(path, SCORE, PROMISE, splitting=splitting)
                    threshold = run.calibration.threshold
                asked = requirements(population, threshold, at.alpha)
                for design, requirement in asked.items():
                    run = calibrail.calibrate(
                        path, SCORE, PROMISE, requirement, splitting=splitting
                    )
                    assert run.calibration.threshold == threshold
                    failed.setdefault(design, []).append(wrong(run.verdict, design))
        for design, items in failed.items():
            design = f"{design}, {population.name}"
            yield at.check("calibrate, wrong verdict", items, at.alpha, design=design)


def by_lot(at: Setting) -> Iterator[Check]:
    """Certify a threshold that breaks a requirement, split by lot: at most what is stated.

    Of ``pac`` the report states the joint confidence. The limits are the true rates at a miss rate
    of exactly alpha, which about half of all thresholds break.
    """
    pac = replace(PROMISE, guarantee="pac", delta=DELTA)
    for population in (ALONE, QUESTIONS):
        for promise, stated in ((PROMISE, at.alpha), (pac, DELTA + at.alpha / 2.0)):
            rng = at.rng(f"by lot, {population.name}, {promise.guarantee}")
            fpr = population.fpr(population.quantile(PROMISE.alpha))
            limit = Requirement(fpr, 1.0 - PROMISE.alpha, 1.0 - at.alpha)
            failed = []
            with folder() as place:
                for _ in range(at.runs):
                    path = population.write(place, "labelled", population.draw(rng, at.n))
                    run = calibrail.calibrate(path, SCORE, promise, limit)
                    failed.append(
                        run.verdict == "certified"
                        and not population.meets(run.calibration.threshold, limit)
                    )
            design = f"{promise.guarantee}, {population.name}"
            yield at.check("calibrate, broken threshold certified", failed, stated, design=design)


def certify_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict about a frozen guardrail on a fresh file: at most alpha."""

    def judged(guardrail: Guardrail, path: Path, requirement: Requirement) -> list[str]:
        return [calibrail.certify(guardrail, path, requirement).verdict]

    yield from _on_fresh_files(at, "certify", "certify, wrong verdict", POPULATIONS, judged)


def certify_by_topic(at: Setting) -> Iterator[Check]:
    """Give any of three topics a wrong verdict on a fresh file: at most alpha."""

    def judged(guardrail: Guardrail, path: Path, requirement: Requirement) -> list[str]:
        groups = calibrail.certify(guardrail, path, requirement, by="topic").groups
        assert groups is not None and len(groups) == len(_TOPICS)
        return [item.certificate.verdict for item in groups.values()]

    what = "certify by topic, any wrong verdict"
    yield from _on_fresh_files(at, "certify by topic", what, BY_TOPIC, judged)


def _on_fresh_files(
    at: Setting,
    name: str,
    what: str,
    populations: Sequence[Population],
    judged: Callable[[Guardrail, Path, Requirement], list[str]],
) -> Iterator[Check]:
    """Yield how often any verdict of ``judged`` on a fresh file is wrong."""
    for population in populations:
        rng = at.rng(f"{name}, {population.name}")
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            guardrail = frozen(place, population, rng)
            asked = requirements(population, guardrail.calibration.threshold, at.alpha)
            for _ in range(at.runs):
                path = population.write(place, "fresh", population.draw(rng, at.n))
                for design, requirement in asked.items():
                    verdicts = judged(guardrail, path, requirement)
                    failed.setdefault(design, []).append(any(wrong(v, design) for v in verdicts))
        for design, items in failed.items():
            design = f"{design}, {population.name}"
            yield at.check(what, items, at.alpha, design=design)


def frozen(place: Path, population: Population, rng: np.random.Generator) -> calibrail.Guardrail:
    """Return a guardrail calibrated on answers of a population."""
    answers = population.draw(rng, 2 * _CALIBRATING)
    path = population.write(place, "labelled", answers)
    return calibrail.calibrate(path, SCORE, PROMISE).freeze()
