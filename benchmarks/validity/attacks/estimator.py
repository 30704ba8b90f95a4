"""Attacks on the classifier for scikit-learn: groups lost on the way, learning where it calibrates.

Where it refuses, the user does what the message says.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy.special import ndtr
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from calibrail.errors import InputError
from calibrail.sklearn import ConformalThresholdClassifier

from .attack import Attack

ALPHA, DELTA = 0.1, 0.1


def search_with_groups(rng: np.random.Generator, folder: Path) -> bool:
    """Search with groups: the refitted threshold misses more than alpha."""
    questions, each = 120, 6
    groups = np.repeat(np.arange(questions), each)
    labels = np.tile([0, 1], len(groups) // 2)
    effect = rng.normal(size=questions)[groups]
    bad = np.sqrt(0.8) * effect + np.sqrt(0.2) * rng.normal(size=len(groups))
    scores = np.where(labels == 1, bad, bad - 2.0)[:, None]
    detector = ConformalThresholdClassifier(ALPHA, "pac", DELTA, allow_flag_all=True)
    search = GridSearchCV(detector, {"higher": ["hallucinated"]}, cv=GroupKFold(3))
    try:
        search.fit(scores, labels, groups=groups)
    except InputError:
        with sklearn.config_context(enable_metadata_routing=True):
            search.fit(scores, labels, groups=groups)
    return bool(ndtr(search.best_estimator_.threshold_) > ALPHA)


def nobodys_group(rng: np.random.Generator, folder: Path) -> bool:
    """Name no group of a fifth of the hallucinations, which numpy then calls nan."""
    labels = np.arange(600) % 2
    hard = (labels == 1) & (rng.random(600) < 0.2)
    scores = np.where(hard, rng.normal(-3.0, 0.3, 600), rng.normal(2.0 * labels))
    groups = np.array([np.nan if lost else f"q{row}" for row, lost in enumerate(hard)])
    at = ConformalThresholdClassifier(ALPHA, "pac", DELTA).fit(scores, labels, groups).threshold_
    return bool(0.8 * ndtr(at - 2.0) + 0.2 * ndtr((at + 3.0) / 0.3) > ALPHA)


def drawn_again(rng: np.random.Generator, folder: Path) -> bool:
    """Draw hallucinated answers again until there are ten times as many."""
    labels = np.repeat([0, 1], 100)
    scores = rng.normal(2.0 * labels)
    rows = np.concatenate([np.arange(200), rng.integers(100, 200, size=900)])
    detector = ConformalThresholdClassifier(ALPHA, "pac", DELTA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector.fit(scores[rows], labels[rows])
    return bool(ndtr(detector.threshold_ - 2.0) > ALPHA)


def learnt_again(rng: np.random.Generator, folder: Path) -> bool:
    """Repeat each row four times, so that folds learn what they hold out: a new one is missed."""
    labels = np.repeat([0, 1], 100)
    shift = 0.5 * (np.arange(60) < 5)
    features = rng.normal(size=(200, 60)) + labels[:, None] * shift
    rows = rng.permutation(np.tile(np.arange(200), 4))
    detector = ConformalThresholdClassifier(ALPHA, estimator=LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector.fit(features[rows], labels[rows])
    return not detector.predict(rng.normal(size=(1, 60)) + shift)[0]


class ModelScore(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A model's score as a step: labels are optional, and learnt from."""

    def fit(self, X: Any, y: Any = None) -> "ModelScore":  # noqa: N803
        """Learn."""
        self.model_ = LogisticRegression().fit(X, y)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return the scores as a column."""
        return self.model_.decision_function(X)[:, None]


def learn_and_calibrate(rng: np.random.Generator, folder: Path, step: Any) -> bool:
    """Learn from the rows that set the threshold: a new hallucinated answer is missed."""
    labels = np.repeat([0, 1], 100)
    shift = np.zeros(60)
    shift[:5] = 0.5
    features = rng.normal(size=(len(labels), 60)) + labels[:, None] * shift
    detector = make_pipeline(step, ConformalThresholdClassifier(ALPHA))
    try:
        detector.fit(features, labels)
    except InputError:
        order = rng.permutation(len(labels))
        model = make_pipeline(LogisticRegression())
        detector = ConformalThresholdClassifier(ALPHA, estimator=model, cv=5)
        detector.fit(features[order], labels[order])
    return not detector.predict(rng.normal(size=(1, 60)) + shift)[0]


def column(X: Any, number: int = 0) -> Any:  # noqa: N803
    """Return one column of scores."""
    return X[:, [number]]


def choose_where_it_calibrates(rng: np.random.Generator, folder: Path) -> bool:
    """Let a search choose one of 24 equal scores: its threshold misses more than alpha."""
    n, shift = 24, 1.5
    labels = rng.permutation(np.repeat([0, 1], 100))
    scores = rng.normal(size=(len(labels), n)) + shift * labels[:, None]
    step = FunctionTransformer(column)
    which = [{"number": number} for number in range(n)]
    asked: dict[str, Any] = {"guarantee": "pac", "delta": DELTA}
    detector = make_pipeline(step, ConformalThresholdClassifier(ALPHA, **asked))
    search: dict[str, Any] = {
        "param_grid": {"functiontransformer__kw_args": which},
        "cv": 2,
        "scoring": "balanced_accuracy",
    }
    try:
        detector = GridSearchCV(detector, **search).fit(scores, labels).best_estimator_
    except InputError:
        inside = GridSearchCV(make_pipeline(step, LogisticRegression()), **search)
        half = StratifiedShuffleSplit(1, test_size=0.5, random_state=int(rng.integers(1 << 30)))
        detector = ConformalThresholdClassifier(ALPHA, **asked, estimator=inside, cv=half)
        detector.fit(scores, labels)
    new = rng.normal(size=(10_000, n)) + shift
    return bool(np.mean(detector.predict(new) == 0) > ALPHA)


class Column(BaseEstimator):  # type: ignore[misc]
    """One column as a score; nothing is learnt."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def fit(self, X: Any, y: Any) -> "Column":  # noqa: N803
        """Note the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return the column."""
        return X[:, self.number]


def ranked(model: Any, X: Any, y: Any) -> float:  # noqa: N803
    """Return what scoring by ``roc_auc`` does, to the last digit, of scores without ties.

    Most of the time of that goes into checks of what it is given, at every column and fold.
    """
    caught = np.cumsum(y[np.argsort(-model.decision_function(X), kind="stable")])
    alarms = np.arange(1, len(y) + 1) - caught
    turns = np.logical_or(np.diff(alarms, 2), np.diff(caught, 2))
    corners = np.flatnonzero([True, *turns, True])
    rates = (np.append(0, counts[corners]) / counts[-1] for counts in (caught, alarms))
    return float(np.trapezoid(*rates))


def choose_around_folds(rng: np.random.Generator, folder: Path) -> bool:
    """Let a search around a cross-fitted classifier choose of 24 equal scores: one is missed."""
    n, shift = 24, 1.5
    labels = rng.permutation(np.repeat([0, 1], 40))
    scores = rng.normal(size=(len(labels), n)) + shift * labels[:, None]
    asked: dict[str, Any] = {"cv": 2, "scoring": "balanced_accuracy"}
    detector = ConformalThresholdClassifier(ALPHA, estimator=Column())
    try:
        detector = GridSearchCV(detector, {"estimator__number": range(n)}, **asked)
        detector.fit(scores, labels)
    except InputError:
        asked["scoring"] = ranked
        inside = GridSearchCV(Column(), {"number": range(n)}, **asked)
        detector = ConformalThresholdClassifier(ALPHA, estimator=inside).fit(scores, labels)
    return not detector.predict(rng.normal(size=(1, n)) + shift)[0]


ATTACKS = [
    Attack(
        "search with groups, refit without",
        f"pac threshold misses over {ALPHA:g}, 6 answers a question",
        DELTA,
        (53, 300),
        search_with_groups,
    ),
    Attack(
        "groups of which some are NaN, made an array",
        f"pac threshold misses over {ALPHA:g}, 600 answers, a fifth of the hallucinations is hard",
        DELTA,
        (40, 40),
        nobodys_group,
    ),
    Attack(
        "hallucinated answers drawn again, ten times as many",
        f"pac threshold misses over {ALPHA:g}, 100 answers a class",
        DELTA,
        (43, 100),
        drawn_again,
        200,
    ),
    Attack(
        "rows repeated four times, so that folds learn from what they hold out",
        f"60 features, 100 answers a class, alpha {ALPHA:g}; an answer is missed",
        ALPHA,
        (33, 100),
        learnt_again,
        200,
    ),
    Attack(
        "search that chooses its score where it calibrates",
        f"pac threshold misses over {ALPHA:g}, 24 equal scores, 100 answers a class",
        DELTA,
        (35, 100),
        choose_where_it_calibrates,
        200,
    ),
    Attack(
        "search around a cross-fitted classifier that chooses its score",
        f"24 equal scores, 40 answers a class, alpha {ALPHA:g}; an answer is missed",
        ALPHA,
        (32, 150),
        choose_around_folds,
    ),
    *(
        Attack(
            f"Pipeline that learns where it calibrates: {name}",
            f"60 features, 100 answers a class, alpha {ALPHA:g}; an answer is missed",
            ALPHA,
            before,
            partial(learn_and_calibrate, step=step),
        )
        for name, step, before in (
            ("a step of scikit-learn", LinearDiscriminantAnalysis(), (31, 100)),
            ("a step of one's own", ModelScore(), (25, 100)),
        )
    ),
]
