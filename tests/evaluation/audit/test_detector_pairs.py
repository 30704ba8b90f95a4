"""Is the agreement of two detectors what it claims to be?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.evaluation.audit_answers import AuditAnswers, overlap_at, pair_agreement

N = 1200
RNG = np.random.default_rng(3)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)


def test_agreement_by_hand() -> None:
    x = np.arange(10.0)
    y = x.copy()
    y[[0, 9]] = y[[9, 0]]
    assert overlap_at(x, y, 0.2).overlap == 0.5
    assert overlap_at(x, np.zeros(10), 0.2).overlap == pytest.approx(0.2)
    both = {"a": RNG.normal(size=N), "b": RNG.normal(size=N)}
    both["b"][:5] = np.nan
    (pair,) = pair_agreement(both, ANSWERS)
    assert pair.n == N - 5
    assert abs(pair.spearman.estimate) < 4.0 / np.sqrt(N)
    assert pair.spearman.lower < pair.spearman.estimate < pair.spearman.upper
    assert [item.by_chance for item in pair.top] == pytest.approx([0.05, 0.1, 0.2], abs=0.001)
    (flat,) = pair_agreement({"a": np.ones(N), "b": both["b"]}, ANSWERS)
    assert flat.spearman.estimate is None and flat.spearman.reason
