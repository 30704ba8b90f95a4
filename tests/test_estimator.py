"""Is the estimator the core with scikit-learn's manners, and nothing else?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
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


@parametrize_with_checks(
    [ConformalThresholdClassifier(alpha=0.3), OnFirstColumn(alpha=0.3)],
    expected_failed_checks=lambda estimator: NOT_FOR_IT,
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


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32", "frame"])
def test_the_precision_of_scores_makes_no_difference(kind: str) -> None:
    digits = np.round(SCORES, 1)
    single = pd.Series(digits).astype("float32" if kind == "frame" else kind)
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
    """The tested detector is fitted on other answers: a threshold needs scores it never shaped."""
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


def test_groups_that_are_no_names_are_refused() -> None:
    scores, labels = np.arange(30.0), np.repeat([1, 0], [20, 10])
    for groups in (np.zeros((30, 1)), [["a"]] * 30):
        with pytest.raises(InputError, match="groups must hold one name or number"):
            ConformalThresholdClassifier(alpha=0.2).fit(scores, labels, groups=groups)
