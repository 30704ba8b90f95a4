"""How do several numbers become one probability of a hallucination?

A logistic regression or boosted trees, trained with scikit-learn and kept as plain arrays: what
they compute afterwards needs numpy alone, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

_Floats = NDArray[np.float64]
Kind = Literal["logistic", "boosted"]

#: Boosted trees: few, shallow and slow, since fit splits are small.
N_TREES: Final = 100
DEPTH: Final = 2
RATE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Preparation:
    """How features become what a model reads, learnt on the fit split.

    A missing value becomes the median of its feature, with a feature of its own that says so; then
    all are standardised.

    Attributes
    ----------
    median : ndarray of float64, shape (features,)
        What stands for a missing value.
    flagged : ndarray of int64
        Features with a flag: those that were ever missing.
    mean, scale : ndarray of float64, shape (features + flags,)
        Of the features and then the flags.
    """

    median: _Floats
    flagged: NDArray[np.int64]
    mean: _Floats
    scale: _Floats

    @classmethod
    def of(cls, features: _Floats) -> Preparation:
        """Learn from features, shape (n, features), NaN where missing."""
        missing = np.isnan(features)
        known = [column[~gone] for column, gone in zip(features.T, missing.T, strict=True)]
        median = np.array([np.median(column) if len(column) else 0.0 for column in known])
        flagged = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)).astype(np.int64)
        inputs = cls(median, flagged, np.zeros(1), np.ones(1)).inputs(features)
        spread = inputs.std(axis=0)
        return cls(median, flagged, inputs.mean(axis=0), np.where(spread > 0.0, spread, 1.0))

    def inputs(self, features: _Floats) -> _Floats:
        """Return what the model reads, shape (n, features + flags)."""
        missing = np.isnan(features)
        filled = np.where(missing, self.median, features)
        flags = missing[:, self.flagged].astype(np.float64)
        result: _Floats = (np.concatenate([filled, flags], axis=1) - self.mean) / self.scale
        return result


def train(
    kind: Kind, features: _Floats, labels: NDArray[np.int8], strength: float, seed: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model trained on features, NaN where missing.

    Parameters
    ----------
    kind : {"logistic", "boosted"}
        The model.
    features : ndarray of float64, shape (n, features)
        What it learns from.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated.
    strength : float
        Inverse strength of the L2 penalty of the logistic model.
    seed : int
        Of the trees, which break ties between features by lot.
    """
    preparation = Preparation.of(features)
    inputs = preparation.inputs(features)
    state: dict[str, NDArray[Any]] = {
        "median": preparation.median,
        "flagged": preparation.flagged,
        "mean": preparation.mean,
        "scale": preparation.scale,
    }
    if kind == "logistic":
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=strength, max_iter=5000, tol=1e-10).fit(inputs, labels)
        return state | {
            "weights": np.array(model.coef_[0], np.float64),
            "intercept": np.array(model.intercept_, np.float64),
        }
    return state | _forest(inputs, labels, seed)


def _forest(inputs: _Floats, labels: NDArray[np.int8], seed: int) -> dict[str, NDArray[Any]]:
    """Return the nodes of boosted trees, one after the other; leaves have no children (-1)."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(
        n_estimators=N_TREES, max_depth=DEPTH, learning_rate=RATE, random_state=seed
    ).fit(inputs, labels)
    trees = [estimator.tree_ for estimator in model.estimators_[:, 0]]
    roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])]).astype(np.int64)
    share = float(labels.mean())

    def joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        return np.concatenate(parts).astype(dtype)

    def children(name: str) -> NDArray[Any]:
        pairs = zip((getattr(tree, name) for tree in trees), roots.tolist(), strict=True)
        return joined([np.where(own < 0, -1, own + root) for own, root in pairs], np.int64)

    return {
        "roots": roots,
        "left": children("children_left"),
        "right": children("children_right"),
        "feature": joined([np.maximum(tree.feature, 0) for tree in trees], np.int64),
        "threshold": joined([tree.threshold for tree in trees], np.float64),
        "value": RATE * joined([tree.value[:, 0, 0] for tree in trees], np.float64),
        "intercept": np.array([np.log(share / (1.0 - share))]),
    }


def logits(state: Mapping[str, NDArray[Any]], features: _Floats) -> _Floats:
    """Return log-odds of a hallucination, float64, shape (n,)."""
    preparation = Preparation(state["median"], state["flagged"], state["mean"], state["scale"])
    inputs = preparation.inputs(features)
    if "weights" in state:
        # Row by row: a product of matrices may round differently in another batch.
        result: _Floats = (inputs * state["weights"]).sum(axis=1) + state["intercept"][0]
        return result
    # Trees are grown on float32, and split there.
    read = inputs.astype(np.float32).astype(np.float64)
    total = np.full(len(read), float(state["intercept"][0]))
    rows = np.arange(len(read))
    for root in state["roots"].tolist():
        node = np.full(len(read), root, dtype=np.int64)
        while (inner := state["left"][node] >= 0).any():
            low = read[rows, state["feature"][node]] <= state["threshold"][node]
            node = np.where(inner, np.where(low, state["left"][node], state["right"][node]), node)
        total += state["value"][node]
    return total


def probabilities(state: Mapping[str, NDArray[Any]], features: _Floats) -> _Floats:
    """Return probabilities of a hallucination, float64, shape (n,), in [0, 1]."""
    result: _Floats = expit(logits(state, features))
    return result
