"""How often is a verdict about a file wrong, a risk broken, or a winner none?

The truth lies just on the other side of what a verdict says: coverage just too low or FPR just too
high for a certificate, both just met for a rejection. So that it does, one threshold is fixed: the
calibration answers stay the same, and the test answers are drawn anew.

Looks: somebody looks again and again at data that grows, or tries seeds. Copies: each answer stands
in the file six times.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

import calibrail
from calibrail import Guardrail
from calibrail.errors import DataError
from calibrail.options import Promise, Requirement, SplitOptions

from ..check import Check, Setting
from .files import ALONE, QUESTIONS, SCORE, SEPARATION, TENS, Answers, Population, folder

#: Questions whose labelled answers are the more alike the more there are, and harder.
_HARD: Final = replace(QUESTIONS, name=f"{QUESTIONS.name}, large ones hard", slope=0.5)
POPULATIONS: Final = (ALONE, QUESTIONS, _HARD)
_TOPICS: Final = dict.fromkeys(("first", "second", "third"), 0.0)
BY_TOPIC: Final = tuple(replace(item, topics=_TOPICS) for item in (ALONE, QUESTIONS))
#: What the thresholds promise.
PROMISE: Final = Promise(alpha=0.2, guarantee="marginal")
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

    The limits are the true rates at a miss rate of exactly alpha, which about half of all
    ``marginal`` thresholds break.
    """
    pac = replace(PROMISE, guarantee="pac")
    for population in (ALONE, QUESTIONS):
        for promise in (PROMISE, pac):
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
            yield at.check("calibrate, broken threshold certified", failed, at.alpha, design=design)


#: What is tested on all labelled answers: a threshold in the numbers of the score, or what a judge
#: says in words, of whom nobody names a threshold.
_TESTED: Final[dict[str, dict[str, Any]]] = {
    "threshold": {"score": SCORE, "threshold": SEPARATION / 2.0},
    "yes or no": {"score_column": "judge", "higher": "hallucinated"},
}


def tested_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict on what was fixed before: at most alpha = 1 - confidence."""
    for population in (ALONE, QUESTIONS):
        rng = at.rng(f"test, {population.name}")
        asked = requirements(population, SEPARATION / 2.0, at.alpha)
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            for _ in range(at.runs):
                answers = population.draw(rng, at.n)
                said = np.where(answers.scores[0] >= SEPARATION / 2.0, "yes", "no")
                path = population.write(place, "labelled", answers, judge=said.tolist())
                for design, requirement in asked.items():
                    goals: dict[str, Any] = {
                        "min_caught": requirement.min_coverage,
                        "max_false_alarms": requirement.max_fpr,
                        "confidence": requirement.confidence,
                    }
                    for how, detector in _TESTED.items():
                        verdict = calibrail.test(path, **detector, **goals).verdict
                        failed.setdefault(f"{how}, {design}", []).append(wrong(verdict, design))
        for design, items in failed.items():
            design = f"{design}, {population.name}"
            yield at.check("test, wrong verdict", items, at.alpha, design=design)


def certify_verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict about a frozen guardrail on a fresh file: at most alpha."""

    def judged(guardrail: Guardrail, path: Path, requirement: Requirement) -> list[str]:
        return [calibrail.certify(guardrail, path, requirement, looks=False).verdict]

    yield from _on_fresh_files(at, "certify", "certify, wrong verdict", POPULATIONS, judged)


def certify_by_topic(at: Setting) -> Iterator[Check]:
    """Give any of three topics a wrong verdict on a fresh file: at most alpha."""

    def judged(guardrail: Guardrail, path: Path, requirement: Requirement) -> list[str]:
        groups = calibrail.certify(guardrail, path, requirement, by="topic", looks=False).groups
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
        promise = replace(PROMISE, guarantee="pac")
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
        yield at.check(what, failed, at.alpha, design=population.name)


def seeds_tried(at: Setting) -> Iterator[Check]:
    """Certify a broken ``pac`` threshold by any of twenty seeds on the same data.

    Delta moves a little with the seed: that makes no other question of it.
    """
    for population in _POPULATIONS:
        rng, failed = at.rng(f"seeds, {population.name}"), []
        promise = replace(PROMISE, guarantee="pac")
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
                        replace(promise, delta=at.alpha / 2.0 - seed / 10_000),
                        limit,
                        splitting=SplitOptions(seed=seed),
                        looks=looks,
                    )
                    good = population.meets(run.calibration.threshold, limit)
                    seen.append(run.verdict == "certified" and not good)
                failed.append(any(seen))
        what = f"calibrate, broken threshold certified by any of {SEEDS} seeds"
        yield at.check(what, failed, at.alpha, design=population.name)


def _limit(at: Setting) -> Requirement:
    """Return a limit on the FPR that nearly all thresholds keep: those that miss too much do."""
    return Requirement(0.6, 1.0 - PROMISE.alpha, 1.0 - at.alpha)


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
                limit = _limit_of_half(at, population)
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
        limit = _limit_of_half(at, population)
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


def _limit_of_half(at: Setting, population: Population) -> Requirement:
    """Return a limit on the FPR that half of all thresholds break."""
    fpr = population.fpr(population.quantile(PROMISE.alpha))
    return Requirement(fpr, 0.5, 1.0 - at.alpha)


_TIMES: Final = 6
_WORDS: Final = np.array([f"word{number}" for number in range(500)])
#: Share of faithful answers that may be flagged: nothing but the misses decides.
_MAX_FPR: Final = 0.9


def broken_certified(at: Setting) -> Iterator[Check]:
    """Certify a ``pac`` threshold that misses too much, from copies: at most what is stated.

    Copies have ids of their own. They are known by their scores alone, or by texts of which the
    context bears another stamp in each copy.
    """
    promise = replace(PROMISE, guarantee="pac")
    limit = Requirement(_MAX_FPR, 1.0 - PROMISE.alpha, 1.0 - at.alpha)
    for design in ("copies of scores with ids", "copies with stamped contexts"):
        rng, failed = at.rng(design), []
        with folder() as place:
            for _ in range(at.runs):
                answers = ALONE.draw(rng, at.n)
                texts = _stamped(answers, rng) if "contexts" in design else {}
                copies = answers.repeated(_TIMES, rng)
                path = ALONE.write(place, "labelled", copies, **texts)
                run = calibrail.calibrate(path, SCORE, promise, limit, baselines=False)
                broken = ALONE.coverage(run.calibration.threshold) < 1.0 - PROMISE.alpha
                failed.append(run.verdict == "certified" and broken)
        yield at.check("calibrate, broken threshold certified", failed, at.alpha, design=design)


def _stamped(answers: Answers, rng: np.random.Generator) -> dict[str, Iterable[Any]]:
    """Return texts of every copy: those of its answer, and when its context was retrieved."""
    texts: dict[str, list[str]] = {"question": [], "context": [], "response": []}
    for _ in range(len(answers)):
        question, context, response = (" ".join(rng.choice(_WORDS, n)) for n in (8, 30, 15))
        texts["question"] += [question] * _TIMES
        texts["response"] += [response] * _TIMES
        stamps = rng.integers(10**9, size=_TIMES).tolist()
        texts["context"] += [f"{context} retrieved {stamp}" for stamp in stamps]
    return dict(texts)


#: Of what people call hallucinated judges catch at least, and of the rest they call so at most.
_ASKED: Final[dict[str, Any]] = {"min_caught": 0.8, "max_false_alarms": 0.2}
#: What each of three judges misses and raises: just too much of one, or just as much as allowed.
_JUDGES: Final = {
    "caught just too few": [(0.2 + _LITTLE, 0.02)] * 3,
    "false alarms just too many": [(0.02, 0.2 + _LITTLE)] * 3,
    "both just met": [(0.2 - _LITTLE, 0.2 - _LITTLE)] * 3,
    "one just too bad, two good": [(0.2 + _LITTLE, 0.02), (0.01, 0.01), (0.01, 0.01)],
}
#: Share of hallucinated answers, and by how much errors on answers of one question hang together.
_SHARES: Final = ((0.05, 0.0), (0.2, 0.6), (0.5, 0.6))


def judge_gates(at: Setting) -> Iterator[Check]:
    """Say wrongly of any of three judges, or of any in three segments, that it may stand in.

    Or that it may not: each at most alpha. People have labelled three questions in four.
    """
    for share, together in _SHARES:
        for design, judges in _JUDGES.items():
            rng = at.rng(f"judges, {share}, {design}")
            failed: dict[str, list[bool]] = {}
            with folder() as place:
                for _ in range(at.runs):
                    path = _judged(place / "judged.csv", rng, at.n, share, together, judges)
                    result = calibrail.agree(
                        path,
                        label_column="human",
                        judge_column=[f"judge{k}" for k in range(len(judges))],
                        group_column="question",
                        by="topic",
                        confidence=1.0 - at.alpha,
                        **_ASKED,
                    )
                    bad = {f"judge{k}": max(rates) > 0.2 for k, rates in enumerate(judges)}
                    for name, rows in (
                        ("", result.judges),
                        (" in any segment", result.by),
                    ):
                        wrongly = [
                            row["verdict"] == ("certified" if bad[row["judge"]] else "rejected")
                            for row in rows
                        ]
                        failed.setdefault(f"agree, wrong verdict{name}", []).append(any(wrongly))
            for what, items in failed.items():
                named = f"{design}, {share:.0%} hallucinated" + ", clusters" * (together > 0)
                yield at.check(what, items, at.alpha, design=named)


def _judged(
    path: Path,
    rng: np.random.Generator,
    questions: int,
    share: float,
    together: float,
    judges: Sequence[tuple[float, float]],
) -> Path:
    """Write answers, up to five a question, with labels of people and of judges."""
    sizes = rng.integers(1, 6, questions) if together else np.ones(questions, np.int64)
    member, labelled = np.repeat(np.arange(questions), sizes), rng.random(questions) < 0.75
    truth = (rng.random(len(member)) < share).astype(int)
    columns = []
    for miss, alarm in judges:
        shared, own = rng.normal(size=questions)[member], rng.normal(size=len(member))
        drawn = ndtr(together**0.5 * shared + (1.0 - together) ** 0.5 * own)
        columns.append(truth ^ (drawn < np.where(truth == 1, miss, alarm)))
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["id", "question", "topic", "human", *(f"judge{k}" for k in range(len(judges)))]
        )
        for row, question in enumerate(member.tolist()):
            human = truth[row] if labelled[question] else ""
            calls = (int(column[row]) for column in columns)
            rows.writerow([f"a{row}", f"q{question}", f"t{question % 3}", human, *calls])
    return path
