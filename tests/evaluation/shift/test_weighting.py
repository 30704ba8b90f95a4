from __future__ import annotations

import numpy as np
import pytest

from calibrail.conformal import calibrate_threshold
from calibrail.data.splits import CALIBRATION
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.shift import density_ratio, measured_shift
from calibrail.formatting import Scale
from calibrail.options import Promise
from calibrail.report.documents.calibrate_sections import shift_sentences


def test_the_ratio_of_two_normal_laws_is_found() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.normal(0.0, 1.0, (4000, 1)), rng.normal(1.0, 1.0, (2000, 1))
    mine, theirs = density_ratio(near, far)
    # The ratio of N(1, 1) to N(0, 1) at x is exp(x - 1/2), linear on the logit scale.
    assert np.corrcoef(np.log(mine), near[:, 0])[0, 1] > 0.99
    slope = np.polyfit(near[:, 0], np.log(mine), 1)
    # Standard errors of a logistic fit on 6,000 points lie below 0.05.
    assert slope == pytest.approx([1.0, -0.5], abs=0.25)
    assert mine.mean() == pytest.approx(1.0, abs=0.1)
    assert len(theirs) == 2000


@pytest.mark.parametrize(("move", "share"), [(0.0, 0.95), (1.0, 0.6), (2.0, 0.25)])
def test_the_further_production_moves_the_less_is_left(move: float, share: float) -> None:
    rng = np.random.default_rng(1)
    n = 2000
    feature, labels = rng.normal(0.0, 1.0, n), np.arange(n) % 2
    values = feature + labels
    calibration = calibrate_threshold(values[labels == 1], Promise(0.1))
    sample = Sample(values, labels.astype(np.int8), np.full(n, CALIBRATION, dtype=np.int8))
    target = {"length": rng.normal(move, 1.0, 500)}
    found = measured_shift(calibration, sample, {"length": feature}, target)
    assert found["n"] == 1000
    assert found["effective_n"] < 1000
    # exp(-move^2) of the examples are left, for normal laws and the true ratio.
    assert (found["effective_n"] / 1000 > share) == (move == 0.0)
    assert found["weighted_threshold"] >= found["threshold"] - 0.05
    said = " ".join(shift_sentences(found, Scale()))
    assert "no exact promise" in said
    assert ("no weighting repairs that" in said) == (found["auroc"]["estimate"] > 0.9)
