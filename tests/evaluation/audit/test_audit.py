"""Does an audit refuse what it cannot do, and count what is undefined?"""

from __future__ import annotations

import numpy as np
import pytest

from calibrail.errors import InputError
from calibrail.evaluation.audit import Leakage, Material, audit_scores
from calibrail.evaluation.audit_answers import AuditAnswers

N = 1200
RNG = np.random.default_rng(6)
LABELS = np.tile([0, 1], N // 2).astype(np.int8)
ALONE = np.arange(N)
ANSWERS = AuditAnswers(LABELS, ALONE)
NOTHING = Material(Leakage((), (), (), 0))


def test_audits_are_refused_without_what_they_need() -> None:
    with pytest.raises(InputError, match="both classes"):
        zeros = np.zeros(N, np.int8)
        audit_scores({"a": np.zeros(N)}, AuditAnswers(zeros, ALONE), NOTHING)


def test_undefined_scores_rank_by_policy_and_are_counted() -> None:
    values = RNG.normal(size=N) + LABELS
    values[LABELS == 1] = np.where(RNG.random(N // 2) < 0.3, np.nan, values[LABELS == 1])
    audits = {
        policy: audit_scores({"a": values}, ANSWERS, NOTHING, undefined=policy)
        for policy in ("flag", "pass")
    }
    areas = {policy: item.detectors[0].auroc.estimate for policy, item in audits.items()}
    assert areas["flag"] > areas["pass"]
    count = int(np.isnan(values).sum())
    for item in audits.values():
        assert item.detectors[0].n_undefined == {"hallucinated": count, "faithful": 0}
        assert item.detectors[0].reliability.n_undefined == count
