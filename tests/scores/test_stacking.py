from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from calibrail.scores import ensemble


def data(n: int = 200, missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = (rng.random(n) < 0.4).astype(np.int8)
    features = rng.normal(labels[:, None] * np.array([1.0, 8.0, 0.05]), [1.0, 10.0, 0.1])
    features[rng.random(features.shape) < missing] = np.nan
    return features, labels


def drawn_in(features: np.ndarray) -> np.ndarray:
    return np.sign(features) * np.log1p(np.abs(features))


def prepared(features: np.ndarray) -> np.ndarray:
    features = drawn_in(features)
    median = np.nanmedian(features, axis=0)
    flags = np.isnan(features)
    full = np.concatenate([np.where(flags, median, features), flags], axis=1)
    return (full - full.mean(axis=0)) / np.maximum(full.std(axis=0), 1e-300)


def test_the_logistic_model_is_that_of_scikit_learn() -> None:
    features, labels = data()
    state = ensemble.train("logistic", features, labels, 0.5)
    inputs = prepared(features)
    peer = LogisticRegression(C=0.5, max_iter=5000, tol=1e-10).fit(inputs, labels)
    assert (peer.coef_[0, :3] > 0.0).all()
    expected = peer.predict_proba(inputs)[:, 1]
    assert ensemble.probabilities(state, features) == pytest.approx(expected, abs=1e-5)


def test_a_score_that_points_the_wrong_way_gets_no_weight_and_is_named() -> None:
    features, labels = data(missing=0.0)
    features[:, 1] *= -1.0
    names = ["one", "two", "three"]
    for kind in ("logistic", "boosted"):
        state = ensemble.train(kind, features, labels, 0.5)
        (said,) = ensemble.unweighted(state, names)
        assert said.startswith("two points the wrong way on the fit split (AUROC 0.")
        other = features.copy()
        other[:, 1] += 100.0
        expected = ensemble.probabilities(state, features)
        assert ensemble.probabilities(state, other) == pytest.approx(expected, abs=1e-9)
    # What is left is the best there is without it.
    state = ensemble.train("logistic", features, labels, 0.5)
    inputs = prepared(features[:, [0, 2]])[:, :2]
    peer = LogisticRegression(C=0.5, max_iter=5000, tol=1e-10).fit(inputs, labels)
    assert state["weights"][[0, 2]] == pytest.approx(peer.coef_[0], abs=1e-4)


def test_the_trees_are_those_of_scikit_learn() -> None:
    features, labels = data()
    state = ensemble.train("boosted", features, labels)
    inputs = prepared(features)
    bound = np.arange(inputs.shape[1]) < 3
    peer = HistGradientBoostingClassifier(**ensemble.FOREST, monotonic_cst=bound.astype(int))
    peer.fit(inputs, labels)
    assert ensemble.logits(state, features) == pytest.approx(
        peer.decision_function(inputs), abs=1e-9
    )


def test_a_feature_that_is_always_missing_or_constant_does_no_harm() -> None:
    features, labels = data(missing=0.0)
    features[:, 1] = np.nan
    features[:, 2] = 7.0
    state = ensemble.train("logistic", features, labels, 1.0)
    features[0] = [np.nan, 3.0, 9.0]
    assert np.isfinite(ensemble.probabilities(state, features)).all()
