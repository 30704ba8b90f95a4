"""Do attacks that leave out what nobody reads do the same?"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.validity.attacks.estimator import Column, ranked


def test_the_scorer_of_the_search_gives_the_same_last_digit() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        labels = rng.permutation(np.repeat([0, 1], rng.integers(2, 30, 2)))
        scores = rng.normal(size=(len(labels), 1)) + labels[:, None]
        assert ranked(Column(0), scores, labels) == roc_auc_score(labels, scores[:, 0])
