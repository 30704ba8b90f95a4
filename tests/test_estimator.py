"""Is the estimator the core with scikit-learn's manners, and nothing else?"""

from __future__ import annotations

import warnings
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    IsolationForest,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import RFECV, SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrail.conformal import calibrate_clusters, calibrate_threshold
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.options import Promise
from calibrail.sklearn import ConformalThresholdClassifier

RNG = np.random.default_rng(7)
LABELS = np.repeat([1, 0], 150)
SCORES = RNG.normal(LABELS * 2.0)
BAD = SCORES[LABELS == 1]


class OnFirstColumn(ConformalThresholdClassifier):
    """The estimator on data of many columns: scikit-learn's checks know no other."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = True, False
        return tags

    def _one_column(self, checked: Any) -> Any:
        return super()._one_column(checked[:, :1])


#: By the name of the check, why it does not apply.
NOT_FOR_IT = {
    "check_fit1d": "one score per answer is what it is for",
    "check_fit2d_predict1d": "one score per answer is what it is for",
    "check_classifiers_classes": "words that say neither class are refused",
    "check_fit2d_1sample": "the error says how many hallucinated answers the promise needs",
    "check_classifiers_one_label": "hallucinated answers alone set the threshold; it stays one",
}


NOT_CROSS_FITTED = {
    "check_classifiers_classes": "words that say neither class are refused",
    "check_classifiers_one_label_sample_weights": "the clones do not learn from all rows",
}


@parametrize_with_checks(
    [
        ConformalThresholdClassifier(alpha=0.3),
        OnFirstColumn(alpha=0.3),
        ConformalThresholdClassifier(
            0.3, allow_flag_all=True, estimator=LogisticRegression(), cv=2
        ),
    ],
    expected_failed_checks=lambda made: NOT_FOR_IT if made.estimator is None else NOT_CROSS_FITTED,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("guarantee", ["marginal", "pac", "paper"])
@pytest.mark.parametrize("undefined", ["flag", "review", "pass"])
def test_threshold_decisions_and_p_values_are_those_of_the_core(
    guarantee: Any, undefined: Any
) -> None:
    scores = np.append(SCORES, [np.nan, np.nan])
    labels = np.append(LABELS, [1, 0])
    detector = ConformalThresholdClassifier(0.2, guarantee, 0.3, undefined).fit(scores, labels)
    core = calibrate_threshold(scores[labels == 1], Promise(0.2, guarantee, 0.3, undefined))
    assert detector.calibration_.to_dict() == core.to_dict()
    assert detector.threshold_ == core.threshold
    queries = np.append(np.linspace(-3, 5, 50), [core.threshold, np.nan])
    assert np.array_equal(detector.predict(queries), core.flags(queries).astype(int))
    assert np.array_equal(detector.decision_function(queries) > 0, core.flags(queries))
    p = detector.p_values(queries)
    assert np.isnan(p[-1]) and np.array_equal(p[:-1], core.p_value(queries[:-1]))


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32", "objects", "frame"])
def test_the_precision_of_scores_makes_no_difference(kind: str) -> None:
    digits = np.round(SCORES, 1)
    single = pd.Series(digits).astype("float32" if kind in ("frame", "objects") else kind)
    single = pd.Series(list(single.to_numpy()), dtype=object) if kind == "objects" else single
    given: Any = single.to_frame("score") if kind == "frame" else single
    wide = digits[:, None] if kind != "frame" else pd.DataFrame({"score": digits})
    detector = ConformalThresholdClassifier(alpha=0.1).fit(given, LABELS)
    expected = ConformalThresholdClassifier(alpha=0.1).fit(wide, LABELS)
    assert detector.threshold_ == expected.threshold_ == round(detector.threshold_, 1)
    np.testing.assert_array_equal(detector.predict(given), expected.predict(wide))
    if kind != "frame":
        np.testing.assert_array_equal(detector.predict(digits), expected.predict(given))


def test_faithful_scores_are_turned_round_and_only_hallucinated_ones_count() -> None:
    plain = ConformalThresholdClassifier(0.1).fit(SCORES, LABELS)
    turned = ConformalThresholdClassifier(0.1, higher="faithful").fit(-SCORES, LABELS)
    assert turned.threshold_ == -plain.threshold_
    assert np.array_equal(turned.predict(-SCORES), plain.predict(SCORES))
    assert np.array_equal(turned.decision_function(-SCORES), plain.decision_function(SCORES))
    assert np.array_equal(turned.p_values(-SCORES), plain.p_values(SCORES))
    alone = ConformalThresholdClassifier(0.1).fit(BAD, np.ones(len(BAD)))
    assert alone.threshold_ == plain.threshold_ and alone.classes_.tolist() == [0, 1]
    missed = ConformalThresholdClassifier(0.1).fit(SCORES, LABELS).predict(BAD) == 0
    assert 0.0 < missed.mean() <= 0.1


def test_groups_count_once_and_reach_it_through_a_pipeline() -> None:
    groups = np.arange(len(LABELS)) // 3
    names = [f"question {group:03}" for group in groups]
    detector = ConformalThresholdClassifier(0.2).fit(SCORES, LABELS, names)
    core = calibrate_clusters(BAD, groups[LABELS == 1], Promise(0.2))
    assert detector.calibration_.to_dict() == core.to_dict()
    pipeline = make_pipeline(FunctionTransformer(), clone(detector))
    pipeline.fit(SCORES[:, None], LABELS, conformalthresholdclassifier__groups=names)
    assert pipeline[-1].threshold_ == detector.threshold_
    with pytest.raises(InputError, match="clustered needs the guarantee marginal or pac"):
        ConformalThresholdClassifier(0.2, "paper").fit(SCORES, LABELS, names)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clone(detector).fit(SCORES, LABELS, names[:-1])


def test_it_stands_at_the_end_of_a_pipeline_in_a_search_and_is_cloned() -> None:
    features = RNG.normal(LABELS[:, None], size=(len(LABELS), 3))
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(features[::2], LABELS[::2])
    pipeline = make_pipeline(
        FunctionTransformer(lambda x: fitted.decision_function(x)[:, None]),
        ConformalThresholdClassifier(alpha=0.2),
    )
    pipeline.fit(features[1::2], LABELS[1::2])
    assert (pipeline.predict(features[1::2][LABELS[1::2] == 1]) == 0).mean() <= 0.2
    assert pipeline.score(features[1::2], LABELS[1::2]) > 0.6
    search = GridSearchCV(
        ConformalThresholdClassifier(), {"alpha": [0.1, 0.3]}, scoring="balanced_accuracy", cv=3
    ).fit(SCORES[:, None], LABELS)
    assert search.best_params_["alpha"] in (0.1, 0.3)
    copy = clone(search.best_estimator_).set_params(guarantee="pac")
    assert copy.get_params()["guarantee"] == "pac" and not hasattr(copy, "threshold_")


#: Features that say little, in any order of the classes, and three rows a question.
MIXED = RNG.permutation(LABELS)
FEATURES = RNG.normal(size=(len(MIXED), 30)) + 0.4 * MIXED[:, None] * (np.arange(30) < 3)
QUESTIONS = np.arange(len(MIXED)) // 3


class ModelScore(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A model as a step: its labels look optional, or it was fitted before and stays as it is."""

    def __init__(self, model: Any = None, fitted: bool = False) -> None:
        self.model, self.fitted = model, fitted

    def fit(self, X: Any, y: Any = None) -> ModelScore:  # noqa: N803
        self.model_ = self.model if self.fitted else LogisticRegression().fit(X, y)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        return self.model_.decision_function(X)[:, None]


class Direction(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step that draws at random and asks no label."""

    def fit(self, X: Any, y: Any = None) -> Direction:  # noqa: N803
        self.weights_ = np.random.normal(size=X.shape[1])
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        return (X @ self.weights_)[:, None]


@pytest.mark.parametrize(
    "step",
    [
        LinearDiscriminantAnalysis(n_components=1),
        SelectKBest(k=1),
        ModelScore(),
        FeatureUnion([("inside", ModelScore())]),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(n_components=1)),
        SelectFromModel(LogisticRegression(), threshold=-np.inf, max_features=1),
        VotingClassifier([("one", LogisticRegression())], voting="soft", flatten_transform=False),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_step_that_learns_from_the_rows_that_calibrate_is_refused(step: Any) -> None:
    before = np.random.get_state()[1].copy()
    pipeline = make_pipeline(StandardScaler(), step, ConformalThresholdClassifier(0.1))
    with pytest.raises(InputError, match="learnt from the labels of the rows"):
        pipeline.fit(FEATURES, MIXED)
    assert (np.random.get_state()[1] == before).all()


FITTED = LogisticRegression().fit(FEATURES[::2], MIXED[::2])


@pytest.mark.parametrize(
    "step",
    [
        ModelScore(FITTED, fitted=True),
        FrozenEstimator(LinearDiscriminantAnalysis(n_components=1).fit(FEATURES, MIXED)),
        SelectFromModel(FITTED, threshold=-np.inf, max_features=1, prefit=True),
        FunctionTransformer(lambda x: FITTED.decision_function(x)[:, None]),
        Direction(),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_step_that_learns_nothing_from_these_labels_is_taken(step: Any) -> None:
    detector = ConformalThresholdClassifier(0.1)
    make_pipeline(step, detector).fit(FEATURES[1::2], MIXED[1::2])
    assert np.isfinite(detector.threshold_)


def test_an_estimator_is_cross_fitted_and_its_groups_stay_whole() -> None:
    words = np.where(MIXED == 1, "FAIL", "PASS")
    plain = ConformalThresholdClassifier(0.1, estimator=LogisticRegression(), cv=5)
    plain.fit(FEATURES, MIXED)
    named = clone(plain).fit(FEATURES, words)
    assert plain.threshold_ == named.threshold_ == 15 and len(plain.estimators_) == 5
    assert plain.n_features_in_ == 30
    flagged = plain.predict(FEATURES) == 1
    assert ((named.predict(FEATURES) == "FAIL") == flagged).all()
    assert ((plain.p_values(FEATURES) > 0.1) == flagged).all()
    assert ((plain.decision_function(FEATURES) > 0) == flagged).all()
    # Sentences of an answer, answers to a question: each question counts once.
    grouped = clone(plain).fit(FEATURES, MIXED, QUESTIONS)
    bad = len(set(QUESTIONS[MIXED == 1]))
    assert grouped.calibration_.n_clusters == bad and grouped.threshold_ == (bad + 1) // 10
    for train, test in grouped._folds(MIXED, QUESTIONS):
        assert not set(QUESTIONS[train]) & set(QUESTIONS[test])
    weights = np.where(MIXED == 1, 5.0, 1.0)
    assert (
        clone(plain).fit(FEATURES, MIXED, sample_weight=weights).estimators_[0].intercept_
        > plain.estimators_[0].intercept_
    )
    texts = [f"word{row % 7} kind{label}" for row, label in enumerate(MIXED)]
    told = ConformalThresholdClassifier(
        0.1, estimator=make_pipeline(CountVectorizer(), LogisticRegression())
    ).fit(texts, words)
    assert told.predict(["word1 kind1", "word1 kind0"]).tolist() == ["FAIL", "PASS"]


class _OneColumn(BaseEstimator):  # type: ignore[misc]
    """Scores that are features; those of one fold alone may be undefined."""

    def __init__(self, lost: bool = False) -> None:
        self.lost = lost

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803
        self.classes_, self.first_ = np.unique(y), bool(X[0, 1])
        return self

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        scores = np.asarray(X)[:, 0]
        return np.full(len(X), np.nan) if self.lost and self.first_ else scores


@pytest.mark.parametrize("groups", [None, np.arange(400) // 4])
def test_undefined_scores_that_pass_count_in_a_cross_fit(groups: Any) -> None:
    labels = np.tile([0, 0, 1, 1], 100)
    scores = np.random.default_rng(1).normal(labels * 2.0)
    made = ConformalThresholdClassifier(0.1, estimator=_OneColumn(), undefined="pass", cv=5)
    features = np.column_stack([scores, np.zeros(400)])
    features[np.flatnonzero(labels)[:16], 0] = np.nan
    made.fit(features, labels, groups)
    assert (made.predict(features) == 0)[labels == 1].mean() <= 0.1
    # Otherwise the promise would be broken by those that pass for want of a score.
    features[np.flatnonzero(labels)[:60], 0] = np.nan
    with pytest.raises(InputError, match="undefined and would be passed"):
        made.fit(features, labels, groups)
    assert made.set_params(undefined="flag").fit(features, labels, groups).predict([[np.nan, 0]])


def test_a_score_that_one_fold_lacks_passes_for_that_fold_alone() -> None:
    labels, half = np.tile([0, 1], 100), np.repeat([1.0, 0.0], 100)
    features = np.column_stack([np.random.default_rng(1).normal(labels * 2.0), half])
    folds = [(np.arange(100), np.arange(100, 200, 7)), (np.arange(100, 200), np.arange(100))]
    made = ConformalThresholdClassifier(0.3, estimator=_OneColumn(True), undefined="pass", cv=folds)
    assert made.fit(features, labels).predict([[9.0, 0.0], [-9.0, 0.0]]).tolist() == [1, 0]
    made.set_params(undefined="flag").fit(features, labels)
    assert made.predict([[9.0, 0.0], [-9.0, 0.0]]).tolist() == [1, 1]


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_a_fitted_estimator_and_a_single_split_set_a_threshold_on_its_scores(
    guarantee: Any,
) -> None:
    rest, labels = FEATURES[1::2], MIXED[1::2]
    scores = FITTED.decision_function(rest)
    expected = ConformalThresholdClassifier(0.1, guarantee).fit(scores, labels)
    for estimator, cv in ((FITTED, "prefit"), (FrozenEstimator(FITTED), 5)):
        made = ConformalThresholdClassifier(0.1, guarantee, estimator=estimator, cv=cv)
        made.fit(rest, labels)
        assert made.threshold_ == expected.threshold_
        assert (made.predict(rest) == expected.predict(scores)).all()
    split = ShuffleSplit(1, test_size=0.5, random_state=0)
    made = ConformalThresholdClassifier(0.1, guarantee, estimator=LogisticRegression(), cv=split)
    ((train, test),) = split.split(FEATURES)
    alone = LogisticRegression().fit(FEATURES[train], MIXED[train])
    expected = ConformalThresholdClassifier(0.1, guarantee).fit(
        alone.decision_function(FEATURES[test]), MIXED[test]
    )
    assert made.fit(FEATURES, MIXED).threshold_ == expected.threshold_
    outliers = IsolationForest(n_estimators=5, random_state=0).fit(FEATURES)
    made = ConformalThresholdClassifier(0.1, higher="faithful", estimator=outliers, cv="prefit")
    made.fit(FEATURES, MIXED)
    assert (
        (outliers.decision_function(FEATURES) <= made.threshold_) == made.predict(FEATURES)
    ).all()


@pytest.mark.parametrize(
    ("options", "groups", "error", "message"),
    [
        ({"guarantee": "pac"}, None, InputError, "one threshold of one score"),
        (
            {"cv": KFold(5, shuffle=True, random_state=0)},
            QUESTIONS,
            InputError,
            "parts the answers",
        ),
        ({"cv": GroupKFold(5)}, None, ValueError, "'groups' parameter should not be None"),
        ({"cv": RepeatedKFold(n_splits=3, n_repeats=2)}, None, InputError, "twice"),
        ({"cv": [(range(300), range(200, 300))]}, None, InputError, "learns from answers that it"),
        ({"higher": "faithful"}, None, InputError, "an estimator without classes"),
        ({"cv": "prefit"}, None, NotFittedError, "not fitted"),
        (
            {"cv": "prefit", "estimator": clone(FITTED).fit(FEATURES, MIXED + 1)},
            None,
            InputError,
            "knows the classes",
        ),
        ({"estimator": None, "cv": 5}, None, InputError, "cv are for an estimator"),
    ],
)
def test_what_cannot_be_cross_fitted_is_refused(
    options: Any, groups: Any, error: Any, message: str
) -> None:
    made = ConformalThresholdClassifier(**{"estimator": LogisticRegression(), **options})
    with pytest.raises(error, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(FEATURES, MIXED, groups)


def test_groups_of_a_search_reach_it_or_it_refuses() -> None:
    scores, folds = SCORES[:, None], GroupKFold(3)
    groups = np.arange(len(LABELS)) // 3
    detector = ConformalThresholdClassifier(0.2)
    inside = make_pipeline(FunctionTransformer(), detector)
    values = {"alpha": [0.2, 0.3]}
    for attempt in (
        lambda: GridSearchCV(detector, values, cv=folds).fit(scores, LABELS, groups=groups),
        lambda: GridSearchCV(inside, {}, cv=folds).fit(scores, LABELS, groups=groups),
        lambda: cross_val_score(inside, scores, LABELS, groups=groups, cv=folds),
        lambda: cross_validate(detector, scores, LABELS, groups=groups, cv=3, n_jobs=2),
    ):
        with pytest.raises(InputError, match="enable_metadata_routing"):
            attempt()
    with sklearn.config_context(enable_metadata_routing=True):
        for made in (detector, inside):
            search = GridSearchCV(made, {}, cv=folds).fit(scores, LABELS, groups=groups)
            best = search.best_estimator_
            best = best if made is detector else best[-1]
            assert best.threshold_ == clone(detector).fit(scores, LABELS, groups).threshold_
            done = cross_validate(
                made, scores, LABELS, params={"groups": groups}, cv=folds, return_estimator=True
            )
            first = done["estimator"][0] if made is detector else done["estimator"][0][-1]
            assert first.calibration_.n_clusters < best.calibration_.n_clusters == 50
        # Who says that groups do not matter is believed.
        told = clone(detector).set_fit_request(groups=False)
        best = GridSearchCV(told, {}, cv=folds).fit(scores, LABELS, groups=groups).best_estimator_
        assert not hasattr(best.calibration_, "n_clusters")
        crossed = ConformalThresholdClassifier(0.2, estimator=LogisticRegression())
        search = GridSearchCV(crossed, {"alpha": [0.1, 0.2]}, cv=folds)
        best = search.fit(FEATURES, MIXED, groups=QUESTIONS).best_estimator_
        assert best.calibration_.n_clusters == len(set(QUESTIONS[MIXED == 1]))


class SpacesSearchCV(BaseEstimator):  # type: ignore[misc]
    """A search by others, who call its grid otherwise."""

    def __init__(self, estimator: Any, search_spaces: Any, refit: bool = True) -> None:
        self.estimator, self.search_spaces, self.refit = estimator, search_spaces, refit

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803
        return clone(self.estimator).fit(X, y)


def test_a_search_chooses_no_scores_by_the_rows_that_set_their_threshold() -> None:
    scores = np.random.default_rng(0).normal(size=(len(LABELS), 2)) + 2.0 * LABELS[:, None]
    step = FunctionTransformer(lambda x, number=0: x[:, [number]])
    columns = {"functiontransformer__kw_args": [{"number": 0}, {"number": 1}]}
    raw = make_pipeline(step, ConformalThresholdClassifier(0.2))
    inside = GridSearchCV(make_pipeline(step, LogisticRegression()), columns, cv=2)
    model = make_pipeline(step, LogisticRegression())
    pac: dict[str, Any] = {"guarantee": "pac", "cv": ShuffleSplit(1, test_size=0.5, random_state=0)}
    crossed = ConformalThresholdClassifier(0.2, estimator=model)
    nested = {f"estimator__{name}": values for name, values in columns.items()}
    halves = np.split(np.arange(len(LABELS)), 2)
    same = {name: values[:1] for name, values in columns.items()}
    # Values that are written alike where they are long.
    long = {"functiontransformer__kw_args": [{"number": np.arange(2000) != k} for k in (999, 1)]}
    frozen = [FrozenEstimator(made) for made in (FITTED, clone(FITTED))]
    for refused, asked in (
        (GridSearchCV(raw, columns, cv=2), "functiontransformer__kw_args"),
        (GridSearchCV(raw, [{}, columns], cv=2), "functiontransformer__kw_args"),
        (GridSearchCV(raw, [{}, same], cv=2), "functiontransformer__kw_args"),
        (GridSearchCV(clone(crossed).set_params(cv=[halves]), nested, cv=2), "estimator__func"),
        (RandomizedSearchCV(raw, columns, n_iter=2, cv=2), "functiontransformer__kw_args"),
        (GridSearchCV(raw[-1], {"higher": ["hallucinated", "faithful"]}, cv=2), "higher"),
        (GridSearchCV(clone(crossed).set_params(**pac), nested, cv=2), "estimator__func"),
        # Of several folds it is said that about alpha is missed: of the best of many more is.
        (GridSearchCV(crossed, nested, cv=2), "estimator__func"),
        (GridSearchCV(crossed, {**nested, "cv": [pac["cv"]]}, cv=2), "estimator__func"),
        (GridSearchCV(crossed, {"estimator": frozen}, cv=2), "estimator"),
        (GridSearchCV(raw, long, cv=2), "functiontransformer__kw_args"),
        (HalvingGridSearchCV(raw, columns, cv=2), "functiontransformer__kw_args"),
        (SpacesSearchCV(raw, search_spaces=columns), "functiontransformer__kw_args"),
        (SpacesSearchCV(raw, search_spaces=[(columns, 2)]), "functiontransformer__kw_args"),
        # Two that choose without a grid.
        (RFECV(crossed, cv=2, importance_getter="estimators_"), "features.*=RFECV"),
        (TunedThresholdClassifierCV(raw, cv=2), "makes another decision"),
    ):
        with pytest.raises(InputError, match=asked):
            refused.fit(scores, LABELS)
    # What no score depends on may be chosen; so may what is chosen, or measured, on other rows.
    alphas = {"conformalthresholdclassifier__alpha": [0.2, 0.3]}
    GridSearchCV(raw, [alphas | same, same]).fit(scores, LABELS)
    GridSearchCV(raw, columns, cv=2, refit=False).fit(scores, LABELS)
    halved = ConformalThresholdClassifier(estimator=clone(FITTED), cv=2)
    whole = [clone(halved).set_params(alpha=alpha) for alpha in (0.2, 0.3)]
    GridSearchCV(Pipeline([("last", crossed)]), {"last": whole}, cv=2).fit(scores, LABELS)
    SpacesSearchCV(raw, search_spaces=alphas).fit(scores, LABELS)
    # How results are measured is no grid, whatever a measure is called.
    measured = {"scoring": {"higher": "f1", "p": "precision"}, "refit": "higher", "cv": 2}
    GridSearchCV(raw[-1], {"alpha": [0.2, 0.3]}, **measured).fit(scores[:, :1], LABELS)
    best = ConformalThresholdClassifier(0.2, **pac, estimator=inside).fit(scores, LABELS)
    assert best.estimators_[0].best_params_ and best.calibration_.n < LABELS.sum()


def test_text_labels_and_columns_of_a_table_are_kept() -> None:
    words = np.where(LABELS == 1, "hallucinated", "faithful")
    detector = ConformalThresholdClassifier(0.1).fit(SCORES, words)
    assert detector.classes_.tolist() == ["faithful", "hallucinated"]
    assert set(detector.predict(SCORES)) == {"faithful", "hallucinated"}
    assert detector.score(SCORES, words) == np.mean(detector.predict(SCORES) == words)
    assert detector.n_features_in_ == 1


@pytest.mark.parametrize(
    ("faithful", "hallucinated"),
    [
        ("PASS", "FAIL"),
        ("entailment", "contradiction"),
        ("supported", "not_supported"),
        ("not hallucinated", "Hallucinated"),
        ("truthful", "fabricated"),
        (False, True),
        (-1, 1),
        (1, 2),
    ],
)
def test_what_classes_mean_is_said_by_their_words_and_never_by_the_alphabet(
    faithful: Any, hallucinated: Any
) -> None:
    plain = ConformalThresholdClassifier(0.1).fit(SCORES, LABELS)
    named = ConformalThresholdClassifier(0.1).fit(SCORES, np.where(LABELS, hallucinated, faithful))
    assert named.threshold_ == plain.threshold_
    assert named.classes_.tolist() == [faithful, hallucinated]
    order = pd.Categorical.from_codes(1 - LABELS, [str(hallucinated), str(faithful)])
    if isinstance(faithful, str):
        told = ConformalThresholdClassifier(0.1).fit(SCORES, pd.Series(order))
        assert told.threshold_ == plain.threshold_


def test_the_name_of_a_series_says_what_its_labels_mean() -> None:
    plain = ConformalThresholdClassifier(0.1).fit(SCORES, LABELS)
    for labels in (1 - LABELS, LABELS == 0):
        named = pd.Series(labels, name="is_faithful")
        assert ConformalThresholdClassifier(0.1).fit(SCORES, named).threshold_ == plain.threshold_
    with pytest.raises(InputError, match="thumbs_up: which of 0 and 1"):
        ConformalThresholdClassifier(0.1).fit(SCORES, pd.Series(LABELS, name="thumbs_up"))


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("kind", [BaggingClassifier, VotingClassifier, StackingClassifier])
def test_an_ensemble_of_it_is_refused_and_one_within_keeps_the_promise(
    kind: Any, n_jobs: int | None
) -> None:
    detector = ConformalThresholdClassifier(0.1)
    single = kind is BaggingClassifier
    around = kind(detector if single else [("one", detector)], n_jobs=n_jobs)
    for labels in (LABELS, np.where(LABELS, "FAIL", "PASS")):
        with (
            joblib.parallel_backend("threading"),
            pytest.raises(InputError, match=rf"estimator={kind.__name__}\(\.\.\.\)\)"),
        ):
            around.fit(SCORES[:, None], labels)
    inner = kind(LogisticRegression() if single else [("one", LogisticRegression())])
    inner.set_params(**({"voting": "soft"} if kind is VotingClassifier else {}))
    within = ConformalThresholdClassifier(0.1, estimator=inner, cv=3)
    assert within.fit(SCORES[:, None], LABELS).predict([[3.0]]).tolist() == [1]


def test_an_own_classifier_and_a_search_may_hold_it() -> None:
    class Own(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
            self.inner_ = clone(ConformalThresholdClassifier(0.1)).fit(X, y)
            self.classes_ = self.inner_.classes_
            return self

    assert Own().fit(SCORES, LABELS).inner_.predict([3.0]).tolist() == [1]


def test_with_too_few_answers_it_fails_or_flags_everything_as_told() -> None:
    few = SCORES[:5], LABELS[:5]
    with pytest.raises(TooFewExamplesError, match="at least 19"):
        ConformalThresholdClassifier(0.05).fit(*few)
    everything = ConformalThresholdClassifier(0.05, allow_flag_all=True).fit(*few)
    assert everything.threshold_ == -np.inf
    assert everything.predict([-1e300, np.nan]).tolist() == [1, 1]
    assert (everything.decision_function([-1e300, np.nan]) > 0).all()


@pytest.mark.parametrize(
    ("options", "scores", "labels", "message"),
    [
        ({"alpha": 1.5}, SCORES, LABELS, r"alpha must lie in \(0, 1\)"),
        ({"guarantee": "x"}, SCORES, LABELS, "guarantee must be one of"),
        ({"higher": "x"}, SCORES, LABELS, "higher must be one of"),
        ({}, np.stack([SCORES, SCORES], axis=1), LABELS, "one score per answer"),
        ({}, SCORES, np.zeros(300), "hallucinated"),
        (
            {},
            SCORES,
            np.where(LABELS == 1, "hallucinated", "ok"),
            "which of 'hallucinated' and 'ok'",
        ),
        ({}, SCORES, np.arange(300) % 3, "Only binary classification"),
        ({}, np.where(SCORES > 3, np.inf, SCORES), LABELS, "infinity"),
    ],
)
def test_bad_input_is_named(options: Any, scores: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConformalThresholdClassifier(**{"alpha": 0.1, **options}).fit(scores, labels)


@pytest.mark.parametrize("nothing", [None, float("nan"), np.float64("nan")])
def test_an_answer_without_a_group_stands_alone(nothing: Any) -> None:
    scores, labels = np.arange(30.0), np.repeat([1, 0], [20, 10])
    groups: list[Any] = ["a", "a", "b", "b", *[nothing] * 26]
    made = ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=groups)
    alone = ["a", "a", "b", "b", *range(26)]
    same = ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=alone)
    assert made.calibration_.n_clusters == 18
    assert made.threshold_ == same.threshold_
    numbers = np.array([0.0, 0.0, 1.0, 1.0, *[np.nan] * 26])
    again = ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=numbers)
    assert again.calibration_.n_clusters == 18
    # numpy writes a text where names stand beside it, and one group may be spelt in several ways.
    texts, mixed = np.array(groups, str), ["7", 7, 7.0, " 7", *[nothing] * 26]
    for names, n in ((texts, 18), (mixed, 17)):
        made = ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=names)
        assert made.calibration_.n_clusters == n


def test_groups_that_are_no_names_are_refused() -> None:
    scores, labels = np.arange(30.0), np.repeat([1, 0], [20, 10])
    for groups in (np.zeros((30, 1)), [["a"]] * 30):
        with pytest.raises(InputError, match="groups must hold one name or number"):
            ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=groups)


def _oversampled(n: int) -> Any:
    """Return the rows of both classes, those of hallucinated answers drawn again, in any order."""
    rng = np.random.default_rng(11)
    bad = np.flatnonzero(LABELS == 1)
    rows = np.concatenate([np.arange(len(LABELS)), rng.choice(bad, n)])
    return rng.permutation(rows)


def _n_groups(calibration: Any) -> Any:
    return calibration.n_clusters


def test_rows_that_were_drawn_again_count_once() -> None:
    rows = _oversampled(900)
    bad = np.bincount(rows[LABELS[rows] == 1])
    told = f"{bad[bad > 1].sum()} of {bad.sum()} hallucinated answers repeat"
    for guarantee in ("marginal", "pac"):
        detector = ConformalThresholdClassifier(0.2, guarantee)
        with pytest.warns(UserWarning, match=told):
            counted = clone(detector).fit(SCORES[rows], LABELS[rows]).calibration_
        known = clone(detector).fit(SCORES[rows], LABELS[rows], groups=rows).calibration_
        assert counted.to_dict() == known.to_dict()
        assert _n_groups(counted) == clone(detector).fit(SCORES, LABELS).calibration_.n
        # Who says that the rows are different answers is believed.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            alone = clone(detector).fit(SCORES[rows], LABELS[rows], np.arange(len(rows)))
        assert _n_groups(alone.calibration_) == bad.sum()


@pytest.mark.parametrize("kind", ["array", "table", "texts", "short texts"])
def test_no_fold_learns_from_a_row_that_it_holds_out(kind: str) -> None:
    rows = _oversampled(900) if kind != "array" else np.tile(np.arange(len(LABELS)), 3)
    n_words = 3 if kind == "short texts" else 30
    words = [[f"w{i}{value:.1f}" for i, value in enumerate(row[:n_words])] for row in FEATURES]
    X: Any = FEATURES[rows] if kind == "array" else pd.DataFrame(FEATURES[rows])  # noqa: N806
    X = X if "texts" not in kind else [" ".join(words[row]) for row in rows]  # noqa: N806
    steps = (CountVectorizer(),) if "texts" in kind else ()
    model = make_pipeline(*steps, LogisticRegression())
    detector = ConformalThresholdClassifier(0.2, estimator=model, cv=3)
    if kind == "short texts":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not hasattr(detector.fit(X, MIXED[rows]).calibration_, "n_clusters")
        return
    with pytest.warns(UserWarning, match="hallucinated answers repeat the numbers or the text"):
        counted = clone(detector).fit(X, MIXED[rows]).calibration_
    known = clone(detector).fit(X, MIXED[rows], groups=rows).calibration_
    assert _n_groups(counted) == _n_groups(known) == len(set(rows[MIXED[rows] == 1]))


@pytest.mark.parametrize("scores", [SCORES.round(1), SCORES > 1.0, np.round(SCORES) / 7.0])
def test_scores_of_few_values_are_no_repeated_rows(scores: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = ConformalThresholdClassifier(0.2).fit(scores, LABELS)
    assert not hasattr(fitted.calibration_, "n_clusters")
