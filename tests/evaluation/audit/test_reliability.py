"""Do tenths of the scores say what happens?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import reliability

N = 1200
RNG = np.random.default_rng(4)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)


def test_tenths_hold_the_rates_of_hallucinations() -> None:
    p = RNG.random(N)
    labels = (RNG.random(N) < p).astype(np.int8)
    answers = AuditAnswers(labels, ALONE)
    found = reliability(p, answers)
    parts = np.array_split(np.argsort(p), 10)
    rates = [item.rate.estimate for item in found.deciles]
    assert rates == pytest.approx([labels[rows].mean() for rows in parts])
    assert found.rising and not reliability(-p, answers).rising


def test_tenths_of_odd_scores() -> None:
    assert reliability(np.full(N, np.nan), ANSWERS) is None
    assert len(reliability(np.zeros(N), ANSWERS).deciles) == 1
    huge = reliability(np.where(LABELS == 1, 1e308, -1e308), ANSWERS)
    assert [item.rate.estimate for item in huge.deciles] == [0.0, 1.0]
