"""Are scores read as probabilities compared with what happens?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import calibration_error, reliability, tenths

N = 1200
RNG = np.random.default_rng(4)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)


def test_reliability_of_a_calibrated_score() -> None:
    p = RNG.random(N)
    labels = (RNG.random(N) < p).astype(np.int8)
    answers = AuditAnswers(labels, ALONE)
    calibrated = reliability(p, answers)
    order = np.argsort(p)
    parts = np.array_split(order, 10)
    scaled = (p - p.min()) / (p.max() - p.min())
    expected = sum(len(i) * abs(scaled[i].mean() - labels[i].mean()) for i in parts) / N
    assert calibrated.ece_scaled == pytest.approx(expected)
    assert calibrated.ece_isotonic < 3.0 * calibrated.by_chance
    skewed = reliability(p**6, answers)
    assert skewed.ece_scaled > 0.2
    assert skewed.ece_isotonic == pytest.approx(calibrated.ece_isotonic, abs=1e-3)
    assert calibrated.rising
    assert not reliability(-p, answers).rising


def test_reliability_of_odd_scores() -> None:
    assert reliability(np.full(N, np.nan), ANSWERS) is None
    flat = reliability(np.zeros(N), ANSWERS)
    assert len(flat.deciles) == 1 and flat.ece_scaled == 0.0
    huge = reliability(np.where(LABELS == 1, 1e308, -1e308), ANSWERS)
    assert huge.ece_scaled == 0.0
    one = reliability(np.arange(4.0), AuditAnswers(LABELS[:4], np.zeros(4, np.int64)))
    assert one.ece_isotonic is None and one.reason
    bins = tenths(np.arange(20.0), np.full(20, 0.5), np.tile([0, 1], 10).astype(np.int8))
    assert calibration_error(bins) == 0.0
