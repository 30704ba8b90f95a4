"""Does each side of the triangle get its own measures?"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from calibrail.evaluation.audit_answers import AuditAnswers, components

N = 1200
RNG = np.random.default_rng(2)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)


def test_components_name_the_angle_that_separates() -> None:
    angles = {
        "theta_rq": 1.0 - 0.3 * LABELS + 0.2 * RNG.normal(size=N),
        "theta_rc": 0.8 + 0.02 * LABELS + 0.2 * RNG.normal(size=N),
    }
    parts = components("encoder", angles, ANSWERS)
    assert parts.driver == "theta_rq"
    by_name = {row.name: row for row in parts.rows}
    expected = roc_auc_score(LABELS, -angles["theta_rq"])
    assert by_name["theta_rq"].auroc.estimate == pytest.approx(expected)
    ratio = roc_auc_score(LABELS, -angles["theta_rq"] / (angles["theta_rc"] + 1e-8))
    assert by_name["ratio"].auroc.estimate == pytest.approx(ratio)
    nothing = {name: np.full(N, np.nan) for name in angles}
    assert components("encoder", nothing, ANSWERS) is None
