"""ConformalThresholdClassifier for arrays."""

from collections.abc import Sequence
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from calibrail.conformal import fit_rule
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.labels import LabelReader, is_turned
from calibrail.data.splits import group_numbers
from calibrail.data.values import native
from calibrail.errors import InputError
from calibrail.options import ReadOptions
from calibrail.options.fields import doubles, one_of, small_float
from calibrail.options.guarantee import Guarantee, Promise, Undefined

Polarity = Literal["hallucinated", "faithful"]

#: How scikit-learn reads the scores: NaN where undefined, but no infinity.
_CHECKS: Final = {"ensure_all_finite": "allow-nan", "dtype": np.float64}


class ConformalThresholdClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Flag the answers whose score reaches a conformal threshold, as a scikit-learn classifier.

    The threshold is found by the same functions as that of ``calibrail.calibrate``, from the
    hallucinated answers given to ``fit`` alone. Give it answers that had no part in the detector:
    a score that was fitted on the same answers makes its threshold promise too much.

    Parameters
    ----------
    alpha : float
        Tolerated miss rate; 1 - alpha of hallucinations are caught.
    guarantee : {"marginal", "pac", "anytime", "paper"}
        ``marginal``: on average over calibration draws. ``pac``: for this very threshold, with
        probability 1 - delta. ``anytime``: for all thresholds made as answers come in.
    delta : float
        Error probability of ``pac`` and ``anytime``.
    undefined : {"flag", "review", "pass"}
        What happens to answers whose score is NaN. There is no third class: reviewed answers are
        flagged.
    allow_flag_all : bool
        With too few hallucinated answers, flag everything instead of failing.
    higher : {"hallucinated", "faithful"}
        What a high score speaks for.

    Attributes
    ----------
    threshold_ : float
        On the scale of the scores: flagged at or above it, or at or below it where a high score
        speaks for ``faithful``.
    calibration_ : Calibration
        The threshold with its promise and its scores; higher = more likely hallucinated.
    classes_ : ndarray, shape (2,)
        The two labels, that of hallucinated answers last.
    n_features_in_ : int
        Always 1: the score.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([1, 0], 200)
    >>> scores = rng.normal(labels * 2.0)
    >>> detector = ConformalThresholdClassifier(alpha=0.1).fit(scores, labels)
    >>> round(detector.threshold_, 2), detector.predict([-1.0, 1.0, np.nan]).tolist()
    (0.72, [0, 1, 1])
    """

    def __init__(
        self,
        alpha: float = 0.05,
        guarantee: Guarantee = "marginal",
        delta: float = 0.1,
        undefined: Undefined = "flag",
        allow_flag_all: bool = False,
        higher: Polarity = "hallucinated",
    ) -> None:
        self.alpha = alpha
        self.guarantee = guarantee
        self.delta = delta
        self.undefined = undefined
        self.allow_flag_all = allow_flag_all
        self.higher = higher

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:  # noqa: N803
        """Find the threshold.

        Parameters
        ----------
        X : array-like of float, shape (n,) or (n, 1)
            Scores; NaN where undefined.
        y : array-like, shape (n,)
            1 = hallucinated, 0 = faithful (of two other numbers the larger is hallucinated); or
            words of which one says each, such as ``FAIL`` and ``PASS``. A series whose name says
            what 1 means, such as ``is_faithful``, is read by it.
        groups : array-like, shape (n,), optional
            What answers share (a question, a source). Each counts once, since answers are alike
            within one; ``paper`` takes none. Answers with None or NaN stand alone.

        Raises
        ------
        TooFewExamplesError
            If no threshold short of flagging everything keeps the promise.
        InputError
            If a parameter is outside its domain, or the labels are not of two kinds.
        """
        promise = Promise(
            self.alpha,
            self.guarantee,
            self.delta,
            self.undefined,
            self.allow_flag_all,
            clustered=groups is not None,
        )
        name = str(getattr(y, "name", None) or "y")
        name = name if is_turned(name) else "y"
        checked, y = validate_data(self, _as_column(X), y, **_CHECKS)
        scores = self._one_column(checked)
        self.classes_, labels = _encoded(y, name)
        clusters = None
        if groups is not None:
            check_consistent_length(scores, groups)
            clusters = _numbered(groups)
        everyone = np.ones(len(scores), dtype=bool)
        rule = fit_rule(scores, labels, everyone, promise, clusters=clusters)
        self.calibration_ = rule.calibration
        self.threshold_ = self._sign() * rule.calibration.threshold
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the label of each answer: that of ``classes_[1]`` where it is flagged."""
        scores = self._scores(X)
        result: NDArray[Any] = self.classes_[self.calibration_.flags(scores).astype(np.intp)]
        return result

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return how far each score lies above the highest one that passes.

        Above 0 exactly where an answer is flagged. An undefined score is infinitely far, on the
        side that the policy puts it.
        """
        scores = self._scores(X)
        passes = np.nextafter(self.calibration_.threshold, -np.inf)
        undefined = -np.inf if self.calibration_.undefined == "pass" else np.inf
        return np.where(np.isnan(scores), undefined, scores - passes)

    def p_values(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return conformal p-values of "this answer is hallucinated"; NaN where undefined.

        Under ``marginal`` an answer is flagged exactly where its p-value exceeds ``alpha``.
        """
        scores = self._scores(X)
        defined = ~np.isnan(scores)
        result = np.full(len(scores), np.nan)
        result[defined] = self.calibration_.p_value(scores[defined])
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # One score per answer, as for scikit-learn's isotonic regression.
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        # A threshold that catches 1 - alpha of one class does not aim at accuracy.
        tags.classifier_tags.poor_score = True
        return tags

    def _sign(self) -> int:
        one_of(self.higher, Polarity, "higher")
        return 1 if self.higher == "hallucinated" else -1

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self)
        return self._one_column(validate_data(self, _as_column(X), reset=False, **_CHECKS))

    def _one_column(self, checked: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores, shape (n,), higher = more likely hallucinated."""
        if checked.shape[1] != 1:
            raise InputError(
                f"X must hold one score per answer, shape (n,) or (n, 1); got {checked.shape}"
            )
        return self._sign() * checked[:, 0]


def _as_column(X: Any) -> Any:  # noqa: N803
    """Return one-dimensional scores as a column, and all else as it is but for the precision."""
    given: Any = X if hasattr(X, "ndim") else np.asarray(X)
    if hasattr(given, "columns"):
        for name in given.columns if given.ndim == 2 else ():
            if small_float(given[name]):
                given = given.assign(**{name: doubles(given[name])})
        return given
    if small_float(given):
        X = given = doubles(given)  # noqa: N806
    return np.asarray(X).reshape(-1, 1) if given.ndim == 1 else X


def _numbered(groups: Any) -> NDArray[np.int64]:
    """Return the number of each answer's group; one without a group has a number of its own."""
    values = [native(value) for value in groups]
    try:
        return group_numbers(values, len(values))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"groups must hold one name or number an answer, or None where it stands alone; {error}"
        ) from error


def _encoded(y: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Return both labels, faithful first, and 1 = hallucinated, 0 = faithful for each answer."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise InputError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    reader = LabelReader(ReadOptions(), name)
    means: Sequence[int | None] = [reader.of_one(value) for value in classes.tolist()]
    if classes.dtype.kind in "iuf" and reader.named is None and not {0, 1} >= {*classes.tolist()}:
        # As scikit-learn has it, of two other numbers the larger one is the positive class.
        means = (FAITHFUL, HALLUCINATED)[-len(classes) :]
    if len(classes) == 1 and means[0] == HALLUCINATED and classes[0] == 1:
        return np.array([0, 1]), np.ones(len(labels), dtype=np.int8)
    if len(classes) == 1:
        raise InputError(
            f"y must hold hallucinated answers (1); got one class alone, {classes[0]!r}"
        )
    if set(means) != {FAITHFUL, HALLUCINATED}:
        one, other = classes.tolist()
        raise InputError(
            f"{name}: which of {one!r} and {other!r} means hallucinated? Their words do not say; "
            f"give 1 = hallucinated and 0 = faithful, e.g. np.asarray(y) == {other!r} if that is it"
        )
    classes = classes if means[0] == FAITHFUL else classes[::-1]
    return classes, np.asarray(means, dtype=np.int8)[labels]
