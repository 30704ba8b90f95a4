"""Do prediction-powered intervals hold, whatever the judge errs with?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from calibrail.evaluation.agree.corrected_rates import corrected_rates
from calibrail.evaluation.agree.rate_estimate import agresti_coull
from tests.evaluation.agree.tables import (
    ALONE,
    BOTH,
    RUNS,
    SLACK,
    estimates,
    files,
    held,
    law,
    made,
    powered,
    rows_of,
)


@pytest.mark.parametrize("along", [(0.0, 0.0), (0.03, 0.02)])
@pytest.mark.parametrize("turned", [False, True])
def test_prediction_powered_intervals_hold_whatever_the_judge_errs_with(
    along: tuple[float, float], turned: bool
) -> None:
    cells = law(0.3, 0.85, 0.2, 0.9, 0.85, along)
    drawn = files(cells, 300, 3000, RUNS, seed=1)
    found = estimates(lambda counts: powered(counts.turned() if turned else counts), drawn)
    truth = 0.2 if turned else 0.85
    noise = 4 * math.sqrt(0.95 * 0.05 / RUNS)
    assert 0.95 - SLACK - noise <= held(found, truth) <= 0.95 + SLACK + noise


@pytest.mark.parametrize(
    ("quality", "narrower"), [((0.95, 0.97), 0.75), ((0.5, 0.5), 1.005), ((0.2, 0.2), 1.005)]
)
def test_a_judge_narrows_the_interval_or_does_no_harm(
    quality: tuple[float, float], narrower: float
) -> None:
    """Without rows that the judge alone labelled, the same formula is the human Wald interval."""
    cells = law(0.4, 0.7, 0.3, *quality)
    drawn = list(files(cells, 400, 4000, 300, seed=5))
    human = estimates(powered, (made(counts.both) for counts in drawn))
    found = estimates(powered, iter(drawn))
    ratio = (found[:, 2] - found[:, 1]) / (human[:, 2] - human[:, 1])
    assert np.mean(ratio) <= narrower
    # The rate itself moves, and with it the variance that belongs to it.
    assert ratio.max() <= 1.1


@pytest.mark.parametrize("name", ["prevalence", "coverage", "fpr"])
def test_prediction_powered_row_by_row(name: Any) -> None:
    """The PPI++ estimating equation and variance, written out on rows instead of counts."""
    counts = made(BOTH, ALONE)
    rows = rows_of(counts)
    has = ~np.isnan(rows["y"])
    y, j, f = rows["y"], rows["j"], rows["f"]
    if name == "fpr":
        y, j = 1 - y, 1 - j
    above = {"y": y, "j": j} if name == "prevalence" else {"y": y * f, "j": j * f}
    ones = np.ones_like(j)
    below = {"y": ones, "j": ones} if name == "prevalence" else {"y": y, "j": j}
    n, rest = has.sum(), (~has).sum()
    pilot = above["y"][has].mean() / below["y"][has].mean()
    mine, its = (above[key] - pilot * below[key] for key in "yj")
    covariance = np.cov(mine[has], its[has], ddof=0)[0, 1]
    weight = covariance / ((1 + n / rest) * its.var())
    assert 0 < weight < 1
    means = [
        part["y"][has].mean() + weight * (part["j"][~has].mean() - part["j"][has].mean())
        for part in (above, below)
    ]
    rate = means[0] / means[1]
    mine, its = (above[key] - rate * below[key] for key in "yj")
    variance = np.var(mine[has] - weight * its[has], ddof=1) / n
    variance += weight**2 * np.var(its[~has], ddof=1) / rest
    hits, trials = above["y"][has].sum(), below["y"][has].sum()
    total = variance / means[1] ** 2 + agresti_coull(hits, trials)
    found = corrected_rates(counts, 0.9)[name].prediction_powered
    half = norm.ppf(0.95) * math.sqrt(total)
    assert found.weight == pytest.approx(weight)
    assert (found.measure.estimate, found.measure.lower, found.measure.upper) == pytest.approx(
        (rate, rate - half, rate + half)
    )
