from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from calibrail.conformal import Calibration, calibrate_threshold
from calibrail.conformal.sequential.audited_calibration import (
    AuditedCalibration,
    AuditedScores,
    audited_verdict,
    calibrate_audited,
    grid_of,
    labelling_probability,
)
from calibrail.conformal.threshold_rule import Rule
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Drawing, Promise, Requirement

ALPHA, DELTA = 0.2, 0.2
PROMISE = Promise(ALPHA, "anytime", DELTA)
#: Where hallucinated scores lie now, faithful ones around 0; the old threshold was set for 2.
SHIFTED = 1.2
OLD = calibrate_threshold(np.random.default_rng(1).normal(2.0, 1.0, 200), Promise(ALPHA))


def drawn(rng: np.random.Generator, n: int, design: str = "uniform") -> AuditedScores:
    """Return answers of a product whose hallucinations have become harder to see."""
    hallucinated = rng.random(n) < 0.4
    score = rng.normal(SHIFTED * hallucinated, 1.0)
    flagged = score >= OLD.threshold
    drawing = Drawing(design, 0.25)  # type: ignore[arg-type]
    probability, guess = np.ones(n), np.full(n, np.nan)
    if design == "active":
        # A guess that is off, and known before any label.
        guess = 1.0 / (1.0 + np.exp(0.7 - score))
        limits = Requirement(max_fpr=0.6, min_coverage=1.0 - ALPHA)
        probability = labelling_probability(flagged, guess, limits, drawing, base_rate=0.4)
    handed_out = rng.random(n) < probability
    label = np.where(handed_out, hallucinated.astype(np.float64), np.nan)
    return AuditedScores(
        score, flagged, label, handed_out, probability, guess, drawing, OLD.threshold
    )


def part(answers: AuditedScores, rows: Any, **changed: Any) -> AuditedScores:
    names = ("score", "flagged", "label", "handed_out", "probability", "guess")
    columns = {name: changed.get(name, getattr(answers, name))[rows] for name in names}
    return dataclasses.replace(answers, **columns)


def weeks(answers: AuditedScores, late: Any, week: int) -> Iterator[AuditedScores]:
    """Yield what is known at the end of every week; labels that are late come two weeks after."""
    for end in range(week, len(answers.score) + 1, week):
        waiting = late & (np.arange(len(late)) >= end - 2 * week)
        yield part(answers, slice(0, end), label=np.where(waiting, np.nan, answers.label))


@pytest.mark.parametrize(
    ("design", "runs", "n", "week"), [("uniform", 400, 1500, 75), ("active", 24, 1200, 300)]
)
def test_no_week_makes_a_threshold_that_misses_too_much(
    design: str, runs: int, n: int, week: int
) -> None:
    bad, ended, grid = 0, 0, grid_of(OLD)
    highest = norm.ppf(ALPHA, SHIFTED)
    for run in range(runs):
        rng = np.random.default_rng([run, 17])
        answers = drawn(rng, n, design)
        # Hard answers take longest: what is late depends on score and truth.
        late = (answers.label == 1.0) & (answers.score < 0.8) & (rng.random(n) < 0.5)
        made = []
        for known in weeks(answers, late, week):
            with suppress(TooFewExamplesError):
                made.append(calibrate_audited(known, PROMISE, grid).threshold)
        bad += any(threshold > highest for threshold in made)
        ended += bool(made)
    assert binom.sf(bad - 1, runs, DELTA) > 1e-4
    # The old threshold misses far too much, and new ones do come out.
    assert norm.cdf(OLD.threshold, SHIFTED) > 2 * ALPHA
    assert ended > 0.9 * runs


def test_no_week_certifies_false_alarms_that_are_too_many() -> None:
    # The limit lies just below what the highest threshold that keeps the promise costs.
    limit, runs, wrong, certified = 0.62, 40, 0, 0
    for run in range(runs):
        answers = drawn(np.random.default_rng([run, 19]), 1000)
        verdicts = []
        for known in weeks(answers, np.zeros(1000, np.bool_), 250):
            with suppress(TooFewExamplesError):
                made = calibrate_audited(known, PROMISE)
                said = audited_verdict(
                    known, made, Requirement(limit, confidence=0.75), grid_of(OLD)
                )
                verdicts.append((norm.sf(made.threshold) > limit, said.verdict))
        wrong += (True, "certified") in verdicts
        certified += any(verdict == "certified" for _, verdict in verdicts)
    assert binom.sf(wrong - 1, runs, 0.05) > 1e-4
    assert certified > 0


def test_labels_left_out_because_they_are_late_would_break_it() -> None:
    # What is late is missed more often: taking what has come in for all there is breaks the
    # promise, and this is what counting open answers as missed is for.
    runs, bad = 100, 0
    highest = norm.ppf(ALPHA, SHIFTED)
    for run in range(runs):
        answers = drawn(np.random.default_rng([run, 18]), 1000)
        late = (answers.label == 1.0) & (answers.score < 0.8)
        naive = calibrate_threshold(answers.score[(answers.label == 1.0) & ~late], PROMISE)
        bad += naive.threshold > highest
        waiting = part(answers, slice(None), label=np.where(late, np.nan, answers.label))
        with suppress(TooFewExamplesError):
            assert calibrate_audited(waiting, PROMISE).threshold <= highest
    assert bad > runs / 2


def test_without_open_answers_below_it_the_threshold_is_that_of_the_rank() -> None:
    answers = drawn(np.random.default_rng(3), 800)
    made = calibrate_audited(answers, PROMISE)
    assert type(made) is Calibration
    assert (
        made.to_dict() == calibrate_threshold(answers.score[answers.label == 1], PROMISE).to_dict()
    )


def test_an_open_answer_below_counts_as_a_miss_and_one_above_not_at_all() -> None:
    answers = drawn(np.random.default_rng(4), 800)
    plain = calibrate_audited(answers, PROMISE)
    low = np.flatnonzero((answers.label == 0) & (answers.score < plain.threshold))[:15]
    high = np.flatnonzero((answers.label == 0) & (answers.score > plain.threshold))[:15]
    for rows, moved in ((low, True), (high, False)):
        label = answers.label.copy()
        label[rows] = np.nan
        made = calibrate_audited(part(answers, slice(None), label=label), PROMISE)
        assert (made.threshold < plain.threshold) == moved
        if moved:
            # As if they had been labelled hallucinated, or are caught.
            worst = part(answers, slice(None), label=np.where(np.isnan(label), 1.0, label))
            assert made.threshold <= calibrate_audited(worst, PROMISE).threshold
            assert isinstance(made, AuditedCalibration) and made.n_open > 0


@pytest.mark.parametrize("undefined", ["flag", "pass"])
def test_undefined_scores_follow_the_policy(undefined: Any) -> None:
    rng = np.random.default_rng(5)
    answers = drawn(rng, 900)
    gone = np.flatnonzero(answers.label == 1)[:10]
    score, flagged = answers.score.copy(), answers.flagged.copy()
    score[gone], flagged[gone] = np.nan, undefined != "pass"
    promise = dataclasses.replace(PROMISE, undefined=undefined)
    made = calibrate_audited(part(answers, slice(None), score=score, flagged=flagged), promise)
    as_if = answers.score.copy()
    as_if[gone] = -9.0 if undefined == "pass" else 9.0
    moved = part(answers, slice(None), score=as_if)
    assert made.threshold == calibrate_audited(moved, PROMISE).threshold
    assert made.n_undefined == 10 and made.undefined == undefined


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_a_calibration_of_audited_answers_is_saved_and_contradicted(design: str) -> None:
    answers = drawn(np.random.default_rng(6), 2000, design)
    label = answers.label.copy()
    label[np.flatnonzero(answers.score < -1)[:12]] = np.nan
    made = calibrate_audited(part(answers, slice(None), label=label), PROMISE, grid_of(OLD))
    assert isinstance(made, AuditedCalibration)
    content = json.loads(json.dumps(Rule(made).to_dict(), allow_nan=False))
    again = Rule.from_dict(content)
    assert again.to_dict() == Rule(made).to_dict()
    assert np.array_equal(again.flags(answers.score), made.flags(answers.score))
    p_values = made.p_value(np.linspace(-3, 4, 50))
    assert (np.diff(p_values) >= 0).all() and 0 < p_values[0] < p_values[-1] <= 1
    for field, value in (("rank", 1 + made.rank), ("n", 3), ("weights", [1.0]), ("n_open", -1)):
        with pytest.raises(InputError):
            Rule.from_dict({**content, "calibration": {**content["calibration"], field: value}})


def test_what_is_missing_is_said() -> None:
    answers = drawn(np.random.default_rng(7), 30)
    with pytest.raises(TooFewExamplesError, match=r"at least 12 hallucinated .* label until"):
        calibrate_audited(part(answers, answers.label == 0), dataclasses.replace(PROMISE))
    many = drawn(np.random.default_rng(7), 300)
    label = np.where(many.score < 0.5, np.nan, many.label)
    with pytest.raises(TooFewExamplesError, match="may all have been missed: label them"):
        calibrate_audited(part(many, slice(None), label=label), PROMISE)
    with pytest.raises(InputError, match="guarantee must be anytime"):
        calibrate_audited(many, Promise(0.1))


def test_the_grid_is_fixed_by_the_old_scores_and_reaches_below_them() -> None:
    grid = grid_of(OLD)
    assert (np.diff(grid) > 0).all() and grid[0] < OLD.scores[0] - 1
    assert set(grid[20:]) == set(OLD.scores)
    large = calibrate_threshold(np.arange(10_000.0), Promise(0.1))
    assert len(grid_of(large)) < 500


@pytest.mark.parametrize(("limit", "verdict"), [(0.95, "certified"), (0.05, "rejected")])
@pytest.mark.parametrize("design", ["uniform", "active"])
def test_the_verdict_is_about_false_alarms(design: str, limit: float, verdict: str) -> None:
    answers = drawn(np.random.default_rng(8), 3000, design)
    grid = grid_of(OLD)
    made = calibrate_audited(answers, PROMISE, grid)
    found = audited_verdict(answers, made, Requirement(max_fpr=limit, confidence=0.75), grid)
    assert found.verdict == verdict and found.confidence == 0.75
    assert found.coverage.lower < norm.sf(made.threshold, SHIFTED) < found.coverage.upper
    assert found.fpr.lower < norm.sf(made.threshold) < found.fpr.upper
    assert audited_verdict(answers, made, Requirement(), grid).reason == "no_limit"
    strict = audited_verdict(answers, made, Requirement(0.95, 0.9, 0.75), grid)
    assert (strict.verdict, strict.reason) == ("inconclusive", "coverage_not_promised") or (
        limit == 0.05
    )


def test_more_answers_are_asked_for_where_that_helps() -> None:
    answers = drawn(np.random.default_rng(9), 400)
    made = calibrate_audited(answers, PROMISE)
    rate = float(np.mean(answers.score[answers.label == 0] >= made.threshold))
    grid = grid_of(OLD)
    near = audited_verdict(answers, made, Requirement(max_fpr=rate + 0.02, confidence=0.75), grid)
    assert near.verdict == "inconclusive" and near.needed is not None and near.needed > 100
    below = audited_verdict(answers, made, Requirement(max_fpr=rate - 0.02, confidence=0.75), grid)
    assert below.verdict == "inconclusive" and below.needed is None


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_what_a_log_rounds_speaks_against_the_threshold_and_its_verdict(design: str) -> None:
    tolerance, within = 1e-4, 0.05
    exact = drawn(np.random.default_rng(10), 3000, design)
    raw = exact.score
    # As wide as a log may round, and to where the decision stays the same.
    logged = np.where(np.round(raw, 1) >= OLD.threshold, np.round(raw, 1), raw)
    logged = np.where((logged >= OLD.threshold) == exact.flagged, logged, raw)
    answers = dataclasses.replace(
        part(exact, slice(None), score=logged - within), tolerance=tolerance, spread=2 * within
    )
    grid = grid_of(OLD)
    made = calibrate_audited(answers, PROMISE, grid)
    for threshold in (made.threshold, OLD.threshold - 0.03, OLD.threshold + 0.4):
        decided = raw + tolerance >= threshold
        assert not np.any(answers.flags(threshold) & ~decided)
        assert not np.any(decided & ~answers.flags(threshold, most=True))
        # No bet is larger than what the least probability of either kind allows.
        floors = answers.floors(threshold)
        for flags in (answers.flags(threshold), answers.flags(threshold, most=True)):
            for rows, floor in ((flags, floors[0]), (~flags, floors[1])):
                assert np.all(answers.probability[rows] >= floor - 1e-12)
    assert made.threshold <= calibrate_audited(exact, PROMISE, grid).threshold
    wide, sharp = (
        audited_verdict(item, made, Requirement(max_fpr=0.7, confidence=0.75), grid)
        for item in (answers, exact)
    )
    assert wide.coverage.estimate is not None and sharp.coverage.estimate is not None
    assert wide.coverage.estimate <= sharp.coverage.estimate
    assert wide.fpr.upper >= sharp.fpr.upper
