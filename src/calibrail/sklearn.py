"""ConformalThresholdClassifier for arrays."""

import copy
import inspect
import math
import numbers
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import FrameType
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import fit_rule
from calibrail.data.duplicates import TELLING, score_copies
from calibrail.data.example import FAITHFUL, HALLUCINATED, hash64
from calibrail.data.labels import LabelReader, is_turned
from calibrail.data.splits import group_numbers
from calibrail.data.values import name_of
from calibrail.errors import InputError, error_text, errors_as, extra
from calibrail.options import ReadOptions
from calibrail.options.fields import doubles, one_of, small_float
from calibrail.options.guarantee import Guarantee, Promise, Undefined

with extra("learning", "calibrail.sklearn"):
    import joblib
    import sklearn
    from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import StratifiedGroupKFold, check_cv
    from sklearn.pipeline import Pipeline
    from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

Polarity = Literal["hallucinated", "faithful"]

#: Most rows on which the steps of a pipeline are asked whether labels change what they return.
_ASKED: Final = 300
#: Share of the hallucinated answers that repeat another one from which groups are missed.
_ALIKE: Final = 0.01
#: By this share of their range scores of one model that differ count as equal.
_NEAR: Final = 1e-9
#: What an undefined score counts as, by its policy.
_END: Final = {"flag": np.inf, "review": np.inf, "pass": -np.inf}
#: How scikit-learn reads the scores: NaN where undefined, but no infinity.
_CHECKS: Final = {"ensure_all_finite": "allow-nan", "dtype": np.float64}


class ConformalThresholdClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Flag the answers whose score reaches a conformal threshold, as a scikit-learn classifier.

    The threshold is found by the same functions as that of ``calibrail.calibrate``, from the
    hallucinated answers given to ``fit`` alone. The promise holds for scores and an ``alpha`` that
    these answers had no part in, if they are independent or have ``groups`` (of 20 values that a
    search tried, the chosen one broke the promise of ``pac`` in 13 % of runs, 10 % stated). An
    ``estimator`` that learns from them is cross-fitted: each fold's answers are scored by a clone
    that learnt from the others, and a new answer is flagged by how many of them score no higher
    than it does under their own clone (Vovk, "Cross-conformal predictors", 2015). Its miss rate is
    about alpha, in theory at most about twice that; with one split, and with a fitted estimator, it
    is at most alpha. A search that chooses scores, features (``RFECV``) or a threshold belongs
    into ``estimator``: around this classifier it would choose by the rows that set the threshold,
    and is refused; so is an ensemble, which resamples these rows or decides otherwise.

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
        What a high score speaks for. An estimator with classes says it itself.
    estimator : estimator, optional
        What scores the answers, by ``decision_function`` or ``predict_proba``; X are then its
        features. Without one X are the scores.
    cv : int, splitter, iterable of splits or "prefit", optional
        Folds of the cross-fit, 5 by default; the groups given to ``fit`` stay whole. ``"prefit"``
        takes the estimator as it is, as a ``FrozenEstimator`` always is. Guarantees other than
        ``marginal`` need that, or a single split.

    Attributes
    ----------
    threshold_ : float
        On the scale of the scores: flagged at or above it, or at or below it where a high score
        speaks for ``faithful``. After a cross-fit with several folds, how many calibration answers
        (or groups) must score no higher.
    estimators_ : list
        The fitted clones of ``estimator``, one a fold.
    calibration_ : Calibration
        The threshold with its promise and its scores; higher = more likely hallucinated.
    classes_ : ndarray, shape (2,)
        The two labels, that of hallucinated answers last.
    n_features_in_ : int
        1, the score; or as many as ``estimator`` takes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([1, 0], 200)
    >>> scores = rng.normal(labels * 2.0)
    >>> detector = ConformalThresholdClassifier(alpha=0.1).fit(scores, labels)
    >>> round(detector.threshold_, 2), detector.predict([-1.0, 1.0, np.nan]).tolist()
    (0.72, [0, 1, 1])
    """

    #: Searches and pipelines hand the groups on wherever scikit-learn's metadata routing is on.
    __metadata_request__fit: Final = {"groups": True}

    def __init__(
        self,
        alpha: float = 0.05,
        guarantee: Guarantee = "marginal",
        delta: float = 0.1,
        undefined: Undefined = "flag",
        allow_flag_all: bool = False,
        higher: Polarity = "hallucinated",
        estimator: Any = None,
        cv: Any = None,
    ) -> None:
        self.alpha = alpha
        self.guarantee = guarantee
        self.delta = delta
        self.undefined = undefined
        self.allow_flag_all = allow_flag_all
        self.higher = higher
        self.estimator = estimator
        self.cv = cv

    def fit(
        self,
        X: Any,  # noqa: N803
        y: ArrayLike,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Find the threshold.

        Parameters
        ----------
        X : array-like of float, shape (n,) or (n, 1)
            Scores; NaN where undefined. With an ``estimator``, what it learns from.
        y : array-like, shape (n,)
            1 = hallucinated, 0 = faithful (of two other numbers the larger is hallucinated); or
            words of which one says each, such as ``FAIL`` and ``PASS``. A series whose name says
            what 1 means, such as ``is_faithful``, is read by it.
        groups : array-like, shape (n,), optional
            What answers share (a question, a source). Each counts once, since answers are alike
            within one; ``paper`` takes none. Answers with None or NaN stand alone. Left out, rows
            that repeat others (to the last digit, beyond chance) count once, with a warning.
        **fit_params
            What the ``fit`` of the estimator takes beside X and y.

        Raises
        ------
        TooFewExamplesError
            If no threshold short of flagging everything keeps the promise.
        InputError
            If a parameter is outside its domain, or the labels are not of two kinds; or if the
            promise would not hold: a search or cross-validation was given groups that do not reach
            this method, an earlier step of a ``Pipeline`` learnt from the labels of these rows, or
            a search is to choose between scores by them.
        """
        if groups is None:
            self._refuse_lost_groups()
        for frame in _frames():
            _refuse_ensembles(frame)
            _refuse_steps_that_learnt(frame)
        about = self.alpha, self.guarantee, self.delta, self.undefined, self.allow_flag_all
        promise = Promise(*about, clustered=groups is not None)
        name = str(getattr(y, "name", None) or "y")
        name = name if is_turned(name) else "y"
        scores = None
        if self.estimator is None:
            if odd := [*fit_params, *(["cv"] if self.cv is not None else [])]:
                raise InputError(f"{', '.join(odd)} are for an estimator; name one")
            checked, y = validate_data(self, _as_column(X), y, **_CHECKS)
            scores = self._one_column(checked)
        else:
            X, y = indexable(X, column_or_1d(y, warn=True))  # noqa: N806
        self.classes_, labels = _encoded(y, name)
        check_consistent_length(y, groups)
        clusters = _repeated(X, labels) if groups is None else _numbered(groups)
        promise = replace(promise, clustered=clusters is not None)
        if scores is None:
            params = fit_params
            if sklearn.get_config()["enable_metadata_routing"]:
                given = {"groups": groups} if groups is not None else {}
                params = process_routing(self, "fit", **given, **fit_params).estimator.fit
            scores, labels, clusters = self._cross_fit(X, y, labels, clusters, params)
        rule = fit_rule(scores, labels, labels >= 0, promise, clusters=clusters)
        self.calibration_ = rule.calibration
        self.threshold_ = self._sign() * rule.calibration.threshold
        return self

    def _cross_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        labels: NDArray[np.int8],
        clusters: NDArray[np.int64] | None,
        params: dict[str, Any],
    ) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int64] | None]:
        """Fit the clones; return what the threshold comes from: scores, labels and clusters.

        With several folds scores are of several scales. A new answer's score is then the number of
        calibration answers that score no higher under their own clone, and their scores are 1 to n.
        """
        whole = self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator)
        self.estimators_, rows, values = [], [], []
        for train, test in [(None, np.arange(len(y)))] if whole else self._folds(labels, clusters):
            model = self.estimator
            if train is not None:
                taken = {
                    name: value if np.shape(value)[:1] != y.shape else _safe_indexing(value, train)
                    for name, value in params.items()
                }
                model = clone(self.estimator)
                model.fit(_safe_indexing(X, train), _safe_indexing(y, train), **taken)
            rows.append(test[labels[test] == 1])
            self.estimators_.append(model)
            some = len(rows[-1]) > 0
            values.append(self._values(model, _safe_indexing(X, rows[-1])) if some else np.zeros(0))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))
        used, self._ladders = np.concatenate(rows), []
        ones = np.ones(len(used), dtype=np.int8)
        if len(rows) == 1:
            return values[0], ones, clusters[used] if clusters is not None else None
        if self.guarantee != "marginal":
            raise InputError.on("sklearn_guarantee_of_folds", guarantee=self.guarantee, n=len(rows))
        if len(np.unique(used)) < len(used):
            raise InputError("cv holds an answer out twice; give folds that are disjoint")
        # Each group counts once, whatever its number of answers.
        numbers = np.arange(len(used)) if clusters is None else clusters[used]
        _, place, size = np.unique(numbers, return_inverse=True, return_counts=True)
        for held, weights in zip(
            values, np.split(1.0 / size[place], np.cumsum([*map(len, rows)])[:-1]), strict=True
        ):
            order = np.argsort(scores := np.where(np.isnan(held), _END[self.undefined], held))
            # A score differs by rounding with the batch that it is computed in.
            finite = scores[np.isfinite(scores)]
            near = _NEAR * np.ptp(finite) if len(finite) else 0.0
            self._ladders.append((scores[order], np.append(0.0, np.cumsum(weights[order])), near))
        numbers = np.arange(len(size), dtype=np.int64)
        counts = np.asarray(numbers + 1.0, np.float64)
        # What passes for want of a score counts first: more than alpha of that is refused.
        passed = (np.isnan(np.concatenate(values)) & (self.undefined == "pass")) / size[place]
        counts[: math.ceil(passed.sum() - 1e-9)] = np.nan
        return counts, ones[: len(size)], None if clusters is None else numbers

    def _folds(
        self, labels: NDArray[np.int8], clusters: NDArray[np.int64] | None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield rows to learn from and rows to calibrate on, no group among both."""
        cv = check_cv(self.cv, labels, classifier=True)
        if clusters is not None and (self.cv is None or isinstance(self.cv, numbers.Integral)):
            cv = StratifiedGroupKFold(cv.n_splits)
        alone = np.arange(len(labels)) if clusters is None else clusters
        for train, test in cv.split(np.zeros((len(labels), 1)), labels, clusters):
            if np.isin(alone[test], alone[train]).any():
                raise InputError.on("sklearn_not_held_out")
            yield train, test

    def _values(self, model: Any, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return a fitted estimator's scores, higher = more likely hallucinated."""
        known = [*np.asarray(getattr(model, "classes_", ()))]
        if known and (set(known) != {*self.classes_.tolist()} or self.higher != "hallucinated"):
            raise InputError.on("sklearn_classes", known=known, own=self.classes_.tolist())
        place = known.index(self.classes_[1]) if known else 1
        if hasattr(model, "decision_function"):
            values = np.asarray(model.decision_function(X), dtype=np.float64)
            return values.reshape(len(values)) * (1 if place else -1) * self._sign()
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, place]

    def get_metadata_routing(self) -> Any:
        """Return what ``fit`` requests: ``groups``, and what the estimator's ``fit`` requests."""
        if self.estimator is None:
            return super().get_metadata_routing()
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_clone__(self) -> Any:
        # A search clones before it parts the rows, and reports what fit refuses as a failed score.
        if not sklearn.get_config()["enable_metadata_routing"]:
            self._refuse_lost_groups()
        # What a search is to choose the scores by are the rows that then set the threshold.
        for frame in _frames():
            _refuse_ensembles(frame)
            search = frame.f_locals.get("self")
            searches = isinstance(search, BaseEstimator) and hasattr(search, "estimator")
            if searches and (names := _chosen(search)):
                kind = type(search).__name__
                raise InputError.on("sklearn_chosen_scores", names=", ".join(names), kind=kind)
        return super().__sklearn_clone__()

    def _refuse_lost_groups(self) -> None:
        """Refuse where a search or cross-validation has groups and hands none on."""
        if self._get_metadata_request().fit.requests.get("groups") is False:
            return
        for frame in _frames():
            module, local = str(frame.f_globals.get("__name__")), frame.f_locals
            params = local["params"] if isinstance(local.get("params"), dict) else {}
            lost = any(given.get("groups") is not None for given in (local, params))
            if module.startswith("sklearn.") and lost:
                raise InputError.on("sklearn_groups_not_routed")

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the label of each answer: that of ``classes_[1]`` where it is flagged."""
        scores = self._scores(X)
        return np.asarray(self.classes_[self.calibration_.flags(scores).astype(np.intp)])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return how far each score lies above the highest one that passes.

        Above 0 exactly where an answer is flagged. An undefined score is infinitely far, on the
        side that the policy puts it.
        """
        scores = self._scores(X)
        passes = np.nextafter(self.calibration_.threshold, -np.inf)
        return np.where(np.isnan(scores), _END[self.calibration_.undefined], scores - passes)

    def p_values(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return conformal p-values of "this answer is hallucinated"; NaN where undefined.

        Under ``marginal`` an answer is flagged exactly where its p-value exceeds ``alpha``.
        """
        scores = self._scores(X)
        defined, result = ~np.isnan(scores), np.full(len(scores), np.nan)
        result[defined] = self.calibration_.p_value(scores[defined])
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        else:
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
        if self.estimator is None:
            return self._one_column(validate_data(self, _as_column(X), reset=False, **_CHECKS))
        values = [self._values(model, X) for model in self.estimators_]
        if not self._ladders:
            return values[0]
        lost, end = np.isnan(values), _END[self.calibration_.undefined]
        ranked = np.where(lost, end, values)
        counts = sum(
            ladder[np.searchsorted(scores, value + near, side="right")]
            for value, (scores, ladder, near) in zip(ranked, self._ladders, strict=True)
        )
        # A score that one fold lacks passes for that fold alone, and is flagged for all.
        gone = lost.any(axis=0) if end > 0.0 else lost.all(axis=0)
        # Part of a group counts as a whole one: so more is flagged.
        return np.where(gone, np.nan, np.ceil(counts - 1e-9))

    def _one_column(self, checked: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores, shape (n,), higher = more likely hallucinated."""
        if checked.shape[1] != 1:
            raise InputError.on("sklearn_one_score", checked=checked)
        return self._sign() * checked[:, 0]


def _frames() -> Iterator[FrameType]:
    """Yield who called: scikit-learn's searches and pipelines say nothing of themselves."""
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        yield frame


def _chosen(search: Any) -> list[str]:
    """Return of which parameters a search tries several values, but for those of the promise."""
    if any(kind.__name__ == "RFECV" for kind in type(search).__mro__):
        return ["features"]
    if not getattr(search, "refit", False):
        return []
    parts = {"": search.estimator, **search.estimator.get_params()}
    own = [name for name, part in parts.items() if isinstance(part, ConformalThresholdClassifier)]
    # No score depends on what is promised.
    free = {f"{name}__{item}".strip("_") for name in own for item in Promise.__dataclass_fields__}
    # Searches call their grids by many names, and some pair each with a number of trials.
    told = [v for name, v in search.get_params(deep=False).items() if name != "scoring"]
    given = chain.from_iterable(item if isinstance(item, list | tuple) else [item] for item in told)
    pairs = [item[0] if isinstance(item, tuple) and item else item for item in given]
    grids = [item for item in pairs if isinstance(item, dict) and (parts.keys() & item or not item)]

    def several(name: str) -> bool:
        # A distribution has no length, and what a grid leaves out stays as it is: two or more.
        values = [v if isinstance(v := grid.get(name), Collection) else (0, 1) for grid in grids]
        every = [*chain.from_iterable(values)]
        return any(value is not every[0] for value in every) and len({*map(_told, every)}) != 1

    tried = dict.fromkeys(chain.from_iterable(grids))
    return [name for name in tried if name not in free and several(name)]


def _told(value: Any) -> Any:
    """Return what tells a value from others: of a classifier all but what it promises."""
    if isinstance(value, ConformalThresholdClassifier):
        value = {k: v for k, v in vars(value).items() if k not in Promise.__dataclass_fields__}
    try:
        return joblib.hash(value)
    except Exception:  # What cannot be pickled, such as a function without a name, is itself.
        return id(value)


def _refuse_ensembles(frame: FrameType) -> None:
    """Refuse where another classifier of scikit-learn resamples, or combines what this one says."""
    local, module = frame.f_locals, str(frame.f_globals.get("__name__"))
    if "X" in local and module.startswith("sklearn."):
        for owner in (local.get("self"), local.get("ensemble")):
            own = isinstance(owner, ConformalThresholdClassifier)
            if isinstance(owner, ClassifierMixin) and not own:
                raise InputError.on("sklearn_ensemble", kind=type(owner).__name__)


def _refuse_steps_that_learnt(frame: FrameType) -> None:
    """Refuse a pipeline's last step where an earlier one learnt from the labels of its rows."""
    local = frame.f_locals
    pipeline = local.get("self")
    if not isinstance(pipeline, Pipeline) or "Xt" not in local:
        return
    steps = [(name, list(_parts(step))) for name, step in pipeline.steps[:-1]]
    learnt = [name for name, parts in steps if parts and _says_labels(parts[0])]
    asked = [name for name, parts in steps if any(map(_may_take_labels, parts))]
    if asked and not learnt:
        # What the others do with labels is seen where other labels are given.
        rows = np.linspace(0, len(local["y"]) - 1, min(_ASKED, len(local["y"]))).astype(int)
        X, y = _safe_indexing(local["X"], rows), _safe_indexing(local["y"], rows)  # noqa: N806
        lots = [np.random.default_rng(lot).permutation(len(rows)) for lot in range(3)]
        state = np.random.get_state()
        try:
            # Fitted parts are copied with what they know: what fit leaves alone is no learning.
            seen, first = set(), copy.deepcopy(pipeline[:-1])
            for labels in (y, *(_safe_indexing(y, lot) for lot in lots)):
                np.random.set_state(state)
                seen.add(joblib.hash(first.fit(X, labels).transform(X)))
            learnt = asked if len(seen) > 1 else []
        except Exception:  # A step that cannot be asked is believed.
            learnt = []
        finally:
            np.random.set_state(state)
    if learnt:
        raise InputError.on("sklearn_learnt_pipeline", names=" or ".join(learnt))


def _parts(step: Any) -> Iterator[Any]:
    """Yield an estimator and those that it is made of, without frozen ones."""
    if isinstance(step, FrozenEstimator) or not hasattr(step, "fit"):
        return
    yield step
    values = step.get_params(deep=False).values() if hasattr(step, "get_params") else ()
    listed = chain.from_iterable(value for value in values if isinstance(value, list))
    inner = chain.from_iterable(item for item in listed if isinstance(item, tuple))
    for part in (*values, *inner):
        if not isinstance(part, type):
            yield from _parts(part)


def _says_labels(part: Any) -> bool:
    """Return whether one of scikit-learn's own estimators says that it learns from labels."""
    if not type(part).__module__.startswith("sklearn."):
        return False
    required: bool = get_tags(part).target_tags.required
    return required or is_classifier(part) or is_regressor(part)


def _may_take_labels(part: Any) -> bool:
    home = type(part).__module__
    selects = home.startswith("sklearn.feature_selection")
    return selects or not home.startswith("sklearn.") or _says_labels(part)


def _as_column(X: Any) -> Any:  # noqa: N803
    """Return one-dimensional scores as a column, and all else as it is but for the precision."""
    given: Any = X if hasattr(X, "ndim") else np.asarray(X)
    if hasattr(given, "columns"):
        for name in given.columns if given.ndim == 2 else ():
            if (wide := _precise(given[name])) is not None:
                given = given.assign(**{name: wide})
        return given
    if (wide := _precise(given)) is not None:
        X = given = wide  # noqa: N806
    return np.asarray(X).reshape(-1, 1) if given.ndim == 1 else X


def _precise(values: Any) -> Any:
    """Return numbers of a smaller type, or objects of which some are, as doubles; else None."""
    if small_float(values):
        return doubles(values)
    if str(getattr(values, "dtype", "")) != "object" or not any(map(small_float, np.ravel(values))):
        return None
    made = np.array([doubles(item) if small_float(item) else item for item in np.ravel(values)])
    return made.reshape(values.shape)


def _repeated(X: Any, labels: NDArray[np.int8]) -> NDArray[np.int64] | None:  # noqa: N803
    """Return the groups of rows that others repeat, as where rows were drawn again; None for few.

    Rows repeat one another where chance does not explain that all their numbers, or their text of
    eight words or more, are the same.
    """
    rows = np.asarray(X, dtype=None if hasattr(X, "ndim") else object)
    if rows.ndim == 1 and all(isinstance(item, str) for item in rows):
        # A number that hangs on all of a text stands for it; a short one has a number of its own.
        told = [text if text.count(" ") >= TELLING - 1 else str(i) for i, text in enumerate(rows)]
        rows = np.array([hash64(text.encode("utf-8", "surrogatepass")) / 2.0**64 for text in told])
    try:
        columns = rows.astype(np.float64).reshape(len(labels), -1).T
    except (TypeError, ValueError):  # No table of numbers.
        return None
    found = score_copies([np.where(np.isinf(it), np.nan, it) for it in columns], labels)
    n, of = (int(np.count_nonzero(labels[found >= least] == 1)) for least in (0, -1))
    if n <= _ALIKE * of:
        return None
    warnings.warn(error_text("sklearn_repeated", n=n, of=of), stacklevel=3)
    return group_numbers([None if it < 0 else str(it) for it in found], len(labels))


def _numbered(groups: Any) -> NDArray[np.int64]:
    """Return the number of each answer's group; one without a group has a number of its own."""
    with errors_as(InputError, (TypeError, ValueError), "sklearn_groups"):
        names = [*map(name_of, groups)]
        return group_numbers(names, len(names))


def _encoded(y: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Return both labels, faithful first, and 1 = hallucinated, 0 = faithful for each answer."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise InputError.on("sklearn_not_binary", kind=kind)
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    reader = LabelReader(ReadOptions(), name)
    means: Sequence[int | None] = [reader.of_one(value) for value in classes.tolist()]
    if classes.dtype.kind in "iuf" and reader.named is None and not {0, 1} >= {*classes.tolist()}:
        # As scikit-learn has it, of two other numbers the larger one is the positive class.
        means = (FAITHFUL, HALLUCINATED)[-len(classes) :]
    if len(classes) == 1 and means[0] == HALLUCINATED and classes[0] == 1:
        return np.array([0, 1]), np.ones(len(labels), dtype=np.int8)
    if len(classes) == 1:
        raise InputError.on("sklearn_one_class", value=classes[0])
    if set(means) != {FAITHFUL, HALLUCINATED}:
        one, other = classes.tolist()
        raise InputError.on("sklearn_which_hallucinated", name=name, one=one, other=other)
    classes = classes if means[0] == FAITHFUL else classes[::-1]
    return classes, np.asarray(means, dtype=np.int8)[labels]
