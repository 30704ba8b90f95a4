from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.sections import confounds
from calibrail.evaluation.stats.tests import rank_correlation

RNG = np.random.default_rng(3)
LABELS = np.tile([0, 1], 300).astype(np.int8)
CODES = np.full(600, 2, np.int8)
VALUES = RNG.normal(size=600) + 1.0 * LABELS
LENGTH = np.round(RNG.normal(size=600) + 3.0 * LABELS, 1)
NOISE = RNG.normal(size=600)


def beside(values: np.ndarray = VALUES, **baselines: np.ndarray) -> dict:
    result = confounds(Sample(values, LABELS, CODES), baselines, undefined="flag", confidence=0.95)
    assert result is not None
    return result


def test_a_baseline_that_ranks_better_is_named_whichever_way_round() -> None:
    for column in (LENGTH, -LENGTH):
        result = beside(length=column, noise=NOISE)
        length, noise = result["rows"]
        assert length["ranks"] == "better" and noise["ranks"] == "worse"
        assert length["reversed"] == (column is not LENGTH)
    assert beside(same=VALUES + 1e-9 * NOISE)["rows"][0]["ranks"] == "as well"


def test_spearman_agrees_with_scipy_over_answers_that_have_both() -> None:
    holed = np.where(np.arange(600) % 5 == 0, np.nan, LENGTH)
    (row,) = beside(length=holed)["rows"]
    kept = ~np.isnan(holed)
    assert row["n"] == kept.sum()
    expected = stats.spearmanr(VALUES[kept], holed[kept]).statistic
    assert row["spearman"]["estimate"] == pytest.approx(expected, abs=1e-12)
    assert row["spearman"]["lower"] < expected < row["spearman"]["upper"]


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng, rho, n, covered = np.random.default_rng(0), 0.5, 60, 0
    # The population's Spearman correlation of a bivariate normal pair.
    true = 6.0 / np.pi * np.arcsin(rho / 2.0)
    for _ in range(1000):
        x = rng.normal(size=n)
        y = rho * x + np.sqrt(1.0 - rho**2) * rng.normal(size=n)
        measure = rank_correlation(x, y, 0.95)
        assert measure.lower is not None and measure.upper is not None
        covered += measure.lower <= true <= measure.upper
    # Four standard errors of a share of 1,000, and a point for the approximation.
    assert abs(covered / 1000 - 0.95) <= 4 * np.sqrt(0.95 * 0.05 / 1000) + 0.01


def test_where_nothing_can_be_said_nothing_is() -> None:
    arguments = {"undefined": "flag", "confidence": 0.95}
    assert confounds(Sample(VALUES, LABELS, CODES), {}, **arguments) is None
    one_class = np.zeros(600, np.int8)
    assert confounds(Sample(VALUES, one_class, CODES), {"length": LENGTH}, **arguments) is None
    never = beside(never=np.full(600, np.nan), constant=np.zeros(600))
    for row in never["rows"]:
        assert row["spearman"]["estimate"] is None and row["spearman"]["reason"]
    perfect = rank_correlation(np.arange(9.0), np.arange(9.0), 0.95)
    assert perfect.estimate == 1.0 and perfect.lower is None
