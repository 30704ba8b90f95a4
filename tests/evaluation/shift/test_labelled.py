"""Do a band and a weighted threshold say about other answers what they are made to say?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal import calibrate_threshold, coverage_band
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.evaluation.shift.labelled import drift
from calibrail.evaluation.shift.weighting import weight_towards
from calibrail.settings import Promise

NO_DIFFERENCE = {"length": np.zeros(200)}


def two_sides(seed: int = 0) -> Sample:
    """400 answers on each side, half of them hallucinated, some scores undefined."""
    rng = np.random.default_rng(seed)
    labels = np.tile([0, 1], 400).astype(np.int8)
    split = np.repeat([CALIBRATION, TEST], 400).astype(np.int8)
    values = rng.normal(size=800) + 2.0 * labels
    values[::50], values[1::50] = np.nan, np.nan
    return Sample(values, labels, split)


def test_the_band_holds_shares_of_the_tested_hallucinations() -> None:
    sample, promise = two_sides(), Promise(alpha=0.1)
    band = drift(sample, {}, promise, 0.9)["band"]
    home = calibrate_threshold(sample.scores(CALIBRATION, 1), Promise(0.1))
    lowest, highest = coverage_band(home, 200, 0.9)
    assert 100 < lowest < highest < 200
    assert band == {"lower": lowest / 200, "upper": highest / 200, "confidence": 0.9}


@pytest.mark.parametrize("undefined", ["flag", "pass"])
def test_weights_that_say_nothing_change_nothing(undefined: str) -> None:
    """Where the features are alike on both sides, each calibration answer weighs as much."""
    sample = two_sides()
    promise = Promise(alpha=0.1, undefined=undefined)
    result = drift(sample, {"length": np.zeros(800)}, promise)
    weighted = result["weighted"]
    # The policy for undefined scores enters calibration, which weighting does without.
    plain = drift(sample, {}, Promise(alpha=0.1))
    known = calibrate_threshold(
        sample.scores(CALIBRATION, 1)[~np.isnan(sample.scores(CALIBRATION, 1))], Promise(0.1)
    )
    flagged = sample.values >= known.threshold
    flagged |= np.isnan(sample.values) & (undefined == "flag")
    for name, label in (("coverage", 1), ("fpr", 0)):
        assert weighted[name]["count"] == int(flagged[sample.rows(TEST, label)].sum())
        assert weighted[name]["n"] == plain[name]["n"] == 200
    assert weighted["features"] == ["length"]
    assert weighted["effective_n"] == pytest.approx(known.n)


def test_only_hallucinated_answers_with_a_score_are_weighted() -> None:
    labels = np.tile([0, 1], 100)
    values = np.arange(200.0)
    values[:40] = np.nan
    made = weight_towards(values, labels, NO_DIFFERENCE, NO_DIFFERENCE, 0.1, 0.95)
    assert made.n == 80
    np.testing.assert_array_equal(made.calibration.scores, values[41::2])
    assert made.calibration.effective_n == pytest.approx(80)
    assert made.weights.shape == (200,)
    assert made.told_apart.estimate == pytest.approx(0.5)
