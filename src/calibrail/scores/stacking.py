"""How do several scores become one probability of a hallucination?

A logistic model or boosted trees, kept as plain arrays: what they compute afterwards needs numpy
alone, and nothing is ever unpickled. Both are told that a higher score means more likely
hallucinated. A score that says the opposite on the fit split gets no weight, and is named: to turn
it around would be to learn from a detector that does not work.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from calibrail.scores.learned import separation

_Floats = NDArray[np.float64]
#: What was learnt: arrays by name.
State = Mapping[str, NDArray[Any]]
Kind = Literal["logistic", "boosted"]

#: Boosted trees: few, shallow and slow, since fit splits are small.
FOREST: Final[Mapping[str, Any]] = {
    "max_iter": 100,
    "max_depth": 2,
    "learning_rate": 0.05,
    "min_samples_leaf": 10,
    "early_stopping": False,
    "random_state": 0,
}


def train(
    kind: Kind, features: _Floats, labels: NDArray[np.int8], strength: float = 1.0
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model trained on features, NaN where missing.

    Features are compressed by sign(x) log(1 + |x|), since counts have long tails. A missing value
    becomes the median of its feature, with a feature of its own, a flag, that says so; then all are
    standardised.

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
    """
    reached = np.array([separation(column, labels) for column in features.T])
    # Bound to rise, a score that points the wrong way could still help by accident in a forest.
    kept = np.ones(len(reached), bool) if kind == "logistic" else reached >= 0.5
    compressed = _compressed(np.where(kept, features, 0.0))
    missing = np.isnan(compressed)
    known = [column[~gone] for column, gone in zip(compressed.T, missing.T, strict=True)]
    state: dict[str, NDArray[Any]] = {
        "auroc": reached,
        "kept": kept.astype(np.int64),
        "median": np.array([np.median(column) if len(column) else 0.0 for column in known]),
        "flagged": np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)).astype(np.int64),
    }
    filled = _filled(state, compressed)
    spread = filled.std(axis=0)
    state |= {"mean": filled.mean(axis=0), "scale": np.where(spread > 0.0, spread, 1.0)}
    inputs = (filled - state["mean"]) / state["scale"]
    # What is not bound says that a score is undefined: that may speak either way.
    bound = np.arange(inputs.shape[1]) < features.shape[1]
    if kind == "boosted":
        return state | _forest(inputs, labels, bound)
    return state | _logistic(inputs, labels, strength, bound)


def unweighted(state: State | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each score that pointed the wrong way where the model learnt."""
    if state is None:
        return ()
    weights = state["weights"] if "weights" in state else state["kept"]
    return tuple(
        f"{name} points the wrong way on the fit split (AUROC {reached:.2f}), and was given no "
        "weight"
        for name, reached, weight in zip(names, state["auroc"].tolist(), weights, strict=False)
        if reached < 0.5 and weight <= 1e-9
    )


def _compressed(features: _Floats) -> _Floats:
    result: _Floats = np.sign(features) * np.log1p(np.abs(features))
    return result


def _filled(state: State, compressed: _Floats) -> _Floats:
    """Return the features without gaps, and the flags of those that were ever missing."""
    missing = np.isnan(compressed)
    flags = missing[:, state["flagged"]].astype(np.float64)
    return np.concatenate([np.where(missing, state["median"], compressed), flags], axis=1)


def _logistic(
    inputs: _Floats, labels: NDArray[np.int8], strength: float, bound: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return weights, at least 0 where bound, of the least loss with an L2 penalty."""
    signs = 2.0 * labels - 1.0

    def loss(x: _Floats) -> tuple[float, _Floats]:
        weights, total = x[:-1], inputs @ x[:-1] + x[-1]
        slope = -signs * expit(-signs * total)
        value = float(-log_expit(signs * total).sum() + weights @ weights / (2.0 * strength))
        gradient = np.append(inputs.T @ slope + weights / strength, slope.sum())
        return value, gradient

    bounds = [(0.0 if held else None, None) for held in bound] + [(None, None)]
    best = minimize(
        loss,
        np.zeros(inputs.shape[1] + 1),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    return {"weights": best[:-1], "intercept": best[-1:]}


def _forest(
    inputs: _Floats, labels: NDArray[np.int8], bound: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return the nodes of boosted trees that rise with what is bound; leaves have no children."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(**FOREST, monotonic_cst=bound.astype(int))
    model.fit(inputs, labels)
    trees = [stage[0].nodes for stage in model._predictors]
    roots = np.cumsum([0, *(len(tree) for tree in trees[:-1])]).astype(np.int64)

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([tree[name] for tree in trees]).astype(dtype)

    shift = np.repeat(roots, [len(tree) for tree in trees])
    leaf = joined("is_leaf", bool)
    return {
        "roots": roots,
        "left": np.where(leaf, -1, joined("left", np.int64) + shift),
        "right": np.where(leaf, -1, joined("right", np.int64) + shift),
        "feature": joined("feature_idx", np.int64),
        "threshold": joined("num_threshold", np.float64),
        "value": joined("value", np.float64),
        "intercept": np.array(model._baseline_prediction, np.float64).reshape(-1),
    }


def logits(state: State, features: _Floats) -> _Floats:
    """Return log-odds of a hallucination, float64, shape (n,)."""
    filled = _filled(state, _compressed(np.where(state["kept"] > 0, features, 0.0)))
    inputs = (filled - state["mean"]) / state["scale"]
    if "weights" in state:
        # Row by row: a product of matrices may round differently in another batch.
        result: _Floats = (inputs * state["weights"]).sum(axis=1) + state["intercept"][0]
        return result
    total = np.full(len(inputs), float(state["intercept"][0]))
    rows = np.arange(len(inputs))
    for root in state["roots"].tolist():
        node = np.full(len(inputs), root, dtype=np.int64)
        while (inner := state["left"][node] >= 0).any():
            low = inputs[rows, state["feature"][node]] <= state["threshold"][node]
            node = np.where(inner, np.where(low, state["left"][node], state["right"][node]), node)
        total += state["value"][node]
    return total


def tolerance(state: State | None, tolerances: Sequence[float]) -> float:
    """Return how far a probability may move when each score moves by its tolerance, or one of them.

    A logistic curve climbs by a quarter at most, and compressing never widens. Without weights it
    is the largest of the tolerances.
    """
    largest = max(tolerances)
    if state is None or "weights" not in state:
        return largest
    n = len(tolerances)
    slopes = state["weights"][:n] / state["scale"][:n]
    return max(largest, float(0.25 * (np.abs(slopes) * np.array(tolerances)).sum()))


def probabilities(state: State, features: _Floats) -> _Floats:
    """Return probabilities of a hallucination, float64, shape (n,), in [0, 1]."""
    result: _Floats = expit(logits(state, features))
    return result
