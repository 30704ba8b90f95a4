"""How often does somebody who looks again and again see a wrong certificate?"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import calibrail
from calibrail.settings import Requirement, SplitOptions
from calibrail.validity.check import DELTA, Check, Setting
from calibrail.validity.from_files.certificates import PROMISE, frozen, requirements, wrong
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.population import ALONE, QUESTIONS

#: Looks at data that grows to n groups, and seeds that split the same data.
GROWING: Final = 8
SEEDS: Final = 20
_POPULATIONS: Final = (ALONE, QUESTIONS)


def certify_growing(at: Setting) -> Iterator[Check]:
    """Certify in any of eight looks at fresh data that grows: at most alpha = 1 - confidence."""
    for population in _POPULATIONS:
        rng = at.rng(f"growing, {population.name}")
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            guardrail = frozen(place, population, rng)
            asked = requirements(population, guardrail.calibration.threshold, at.alpha)
            asked.pop("both just met")
            for _ in range(at.runs):
                answers, verdicts = (
                    population.draw(rng, at.n),
                    {name: set[bool]() for name in asked},
                )
                for step in range(1, GROWING + 1):
                    part = answers.first(at.n * step // GROWING)
                    path = population.write(place, "fresh", part)
                    for design, requirement in asked.items():
                        verdict = calibrail.certify(
                            guardrail, path, requirement, looks=place / f"{design}.json"
                        ).verdict
                        verdicts[design].add(wrong(verdict, design))
                for design, seen in verdicts.items():
                    failed.setdefault(design, []).append(True in seen)
                    (place / f"{design}.json").unlink()
        for design, items in failed.items():
            what = f"certify, wrong certificate in any of {GROWING} looks"
            yield at.check(what, items, at.alpha, design=f"{design}, {population.name}")


def calibrate_growing(at: Setting) -> Iterator[Check]:
    """Certify a broken ``pac`` threshold in any of eight looks at data that grows."""
    for population in _POPULATIONS:
        rng, failed = at.rng(f"calibrate again, {population.name}"), []
        promise = replace(PROMISE, guarantee="pac", delta=DELTA)
        limit = _limit(at)
        with folder() as place:
            for _ in range(at.runs):
                answers, looks = population.draw(rng, at.n), place / "looks.json"
                looks.unlink(missing_ok=True)
                seen = []
                for step in range(1, GROWING + 1):
                    part = answers.first(at.n * step // GROWING)
                    path = population.write(place, "labelled", part)
                    run = calibrail.calibrate(
                        path, SCORE, replace(promise, allow_flag_all=True), limit, looks=looks
                    )
                    good = population.meets(run.calibration.threshold, limit)
                    seen.append(run.verdict == "certified" and not good)
                failed.append(any(seen))
        what = f"calibrate, broken threshold certified in any of {GROWING} looks"
        yield at.check(what, failed, DELTA + at.alpha / 2.0, design=population.name)


def seeds_tried(at: Setting) -> Iterator[Check]:
    """Certify a broken ``pac`` threshold by any of twenty seeds on the same data.

    Delta moves a little with the seed: that makes no other question of it.
    """
    for population in _POPULATIONS:
        rng, failed = at.rng(f"seeds, {population.name}"), []
        promise = replace(PROMISE, guarantee="pac", delta=DELTA)
        limit = _limit(at)
        with folder() as place:
            for _ in range(at.runs):
                looks = place / "looks.json"
                looks.unlink(missing_ok=True)
                path: Path = population.write(place, "labelled", population.draw(rng, at.n))
                seen = []
                for seed in range(SEEDS):
                    run = calibrail.calibrate(
                        path,
                        SCORE,
                        replace(promise, delta=DELTA - seed / 10_000),
                        limit,
                        splitting=SplitOptions(seed=seed),
                        looks=looks,
                    )
                    good = population.meets(run.calibration.threshold, limit)
                    seen.append(run.verdict == "certified" and not good)
                failed.append(any(seen))
        what = f"calibrate, broken threshold certified by any of {SEEDS} seeds"
        yield at.check(what, failed, DELTA + at.alpha / 2.0, design=population.name)


def _limit(at: Setting) -> Requirement:
    """Return a limit on the FPR that nearly all thresholds keep: those that miss too much do."""
    return Requirement(0.6, 1.0 - PROMISE.alpha, 1.0 - at.alpha)
