"""Are thresholds that keep several risks, and winners of a comparison, what they are said to be?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import calibrail
from calibrail.errors import DataError
from calibrail.settings import Requirement
from calibrail.validity.check import Check, Setting
from calibrail.validity.from_files.certificates import PROMISE
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, QUESTIONS, TENS, Population

#: Miss rate of the threshold whose true rates are asked for.
_MISSED: Final = 0.2
#: Of each design, the risk that all thresholds on one side of that one break.
_TIGHT: Final = ("recall", "fpr", "precision")
#: Two columns of scores: equally good ones, and one that is better by far.
EQUAL: Final = tuple(replace(item, columns=2) for item in (ALONE, QUESTIONS))
UNEQUAL: Final = tuple(replace(item, columns=2, lead=1.5) for item in (ALONE, QUESTIONS))


def broken_risks(at: Setting) -> Iterator[Check]:
    """Choose a threshold that breaks a risk: at most alpha = 1 - confidence."""
    for population in (ALONE, TENS):
        at_limit = _true(population, population.quantile(_MISSED))
        for tight in _TIGHT:
            rng, failed = at.rng(f"risks, {tight}, {population.name}"), []
            sign = "<=" if tight == "fpr" else ">="
            loose = "fpr<=0.95" if tight == "recall" else "recall>=0.2"
            risks = (f"{tight}{sign}{at_limit[tight]:.9f}", loose)
            asked = Requirement(risks=risks, confidence=1.0 - at.alpha)
            with folder() as place:
                for _ in range(at.runs):
                    path = population.write(place, "labelled", population.draw(rng, at.n))
                    try:
                        chosen = calibrail.calibrate(path, SCORE, PROMISE, asked).rule.chosen
                    except DataError:
                        # No threshold keeps them: nothing is promised, so nothing is broken.
                        failed.append(False)
                        continue
                    assert chosen is not None
                    true = _true(population, chosen)[tight]
                    over = true - at_limit[tight]
                    failed.append((over if tight == "fpr" else -over) > 1e-8)
            design = f"{tight}, {population.name}"
            yield at.check(
                "several risks, broken threshold chosen", failed, at.alpha, design=design
            )


def _true(population: Population, threshold: float) -> dict[str, float]:
    coverage, fpr = population.coverage(threshold), population.fpr(threshold)
    return {"recall": coverage, "fpr": fpr, "precision": coverage / (coverage + fpr)}


def winner_among_equals(at: Setting) -> Iterator[Check]:
    """Name a winner of two equally good detectors: at most alpha = 1 - confidence."""
    for population in EQUAL:
        rng, named, ranked = at.rng(f"equals, {population.name}"), [], []
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                limit = _limit(at, population)
                run = calibrail.compare(path, _columns(population), PROMISE, limit)
                winner = run.comparison.winner
                named.append(winner.name is not None)
                detectors = [test for test in winner.choosing if not test.baseline]
                ranked.append(any(test.auroc.p_adjusted <= at.alpha for test in detectors))
        yield at.check("compare, winner among equals", named, at.alpha, design=population.name)
        yield at.check("compare, AUROC of equals differs", ranked, at.alpha, design=population.name)


def winners_certificate(at: Setting) -> Iterator[Check]:
    """Certify a winner's threshold that breaks a requirement, as half of them do: at most alpha."""
    for population in UNEQUAL:
        rng, failed = at.rng(f"winner, {population.name}"), []
        limit = _limit(at, population)
        with folder() as place:
            for _ in range(at.runs):
                path = population.write(place, "labelled", population.draw(rng, at.n))
                run = calibrail.compare(path, _columns(population), PROMISE, limit)
                winner, reports = run.comparison.winner, dict(run.comparison.detectors)
                certified = (winner.certificate or {}).get("verdict") == "certified"
                threshold = reports["s0"].threshold
                assert threshold is not None
                # The other one is far from what is asked.
                sound = winner.name == "s0" and population.meets(threshold, limit)
                failed.append(certified and not sound)
        yield at.check("compare, wrong certificate", failed, at.alpha, design=population.name)


def _columns(population: Population) -> list[str]:
    return [f"column:column={name},higher=hallucinated" for name in population.detectors]


def _limit(at: Setting, population: Population) -> Requirement:
    """Return a limit on the FPR that half of all thresholds break."""
    fpr = population.fpr(population.quantile(PROMISE.alpha))
    return Requirement(fpr, 0.5, 1.0 - at.alpha)
