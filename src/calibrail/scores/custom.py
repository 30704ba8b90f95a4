"""Functions and estimators of the user."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.labels import parse_label
from calibrail.errors import CalibrailError, InputError
from calibrail.models.batching import report_progress
from calibrail.scores.base import JSON, Score, Scores, missing
from calibrail.scores.detector import one_of
from calibrail.scores.registry import Higher
from calibrail.scores.source_digest import import_named, leads_back, name_of, origin

#: How an estimator is asked, the first that it has.
METHODS: Final = ("predict_proba", "decision_function")


class ProbabilityEstimator(Protocol):
    """What tells the probability of each class."""

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return one row an answer, one column a class."""


class DecisionEstimator(Protocol):
    """What tells how far an answer lies on one side."""

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return one number an answer, or one a class."""


class Estimator:
    """A fitted estimator, asked about examples.

    Parameters
    ----------
    estimator : object
        With ``predict_proba`` or ``decision_function``.
    name : str
        How errors call it.
    features : tuple of str
        The fields and columns that it gets; empty for those that it was fitted on.
    positive
        Which of its ``classes_`` means hallucinated; None guesses.

    Attributes
    ----------
    method : callable
        From what ``matrix`` returns to its numbers.
    fields, columns : tuple of str
        The text fields and the further columns that it reads.

    Raises
    ------
    InputError
        If it is not fitted, or it is unclear what it gets or which class is meant.
    """

    def __init__(
        self, estimator: Any, name: str, features: tuple[str, ...] = (), positive: Any = None
    ) -> None:
        self._object, self._name = estimator, name
        self._refuse_unfitted()
        self._inputs = features or self._fitted_on()
        self._place = self._class_place(positive)
        found = next(item for item in METHODS if hasattr(estimator, item))
        self.method: Callable[[Any], Any] = getattr(estimator, found)
        self.fields = tuple(item for item in self._inputs if item in TEXT_FIELDS)
        self.columns = tuple(item for item in self._inputs if item not in TEXT_FIELDS)

    @property
    def takes_nan(self) -> bool:
        """Whether it has a value for an answer that lacks some of its columns."""
        try:
            from sklearn.utils import get_tags

            return bool(get_tags(self._object).input_tags.allow_nan)
        except (ImportError, AttributeError, TypeError):
            # Not scikit-learn's kind: nothing says that it does.
            return False

    def _fitted_on(self) -> tuple[str, ...]:
        """Return the fields and columns that it gets where none are named."""
        seen = getattr(self._object, "feature_names_in_", None)
        if seen is not None:
            return tuple(map(str, seen))
        if (n := getattr(self._object, "n_features_in_", None)) is not None:
            raise InputError(
                f"the estimator {self._name} was fitted on {n} columns without names; name "
                "the fields or columns that it gets: CustomScore(estimator, features=[...])"
            )
        return ("response",)

    def matrix(self, examples: Sequence[Example]) -> Any:
        """Return what the estimator gets: texts, a frame or a matrix of numbers."""
        cells = {name: [_cell(example, name) for example in examples] for name in self._inputs}
        if getattr(self._object, "feature_names_in_", None) is not None:
            import pandas as pd

            return pd.DataFrame(cells)
        if len(cells) == 1 and self._inputs[0] in TEXT_FIELDS:
            return next(iter(cells.values()))
        try:
            return np.array(list(cells.values()), dtype=np.float64).T
        except ValueError as error:
            raise InputError(
                f"several features must be numbers; {', '.join(cells)} are not ({error})"
            ) from error

    def _class_place(self, positive: Any) -> int | None:
        """Return which of the estimator's classes means hallucinated; None where it has none."""
        classes = getattr(self._object, "classes_", None)
        if classes is None:
            if positive is not None:
                raise InputError(
                    f"positive={positive!r} is one of the classes_ of an estimator, and "
                    f"{self._name} has none; give it classes_"
                )
            return None
        listed = np.asarray(classes).tolist()
        if positive is not None:
            places = [i for i, item in enumerate(listed) if item == positive]
        else:
            places = [i for i, item in enumerate(listed) if parse_label(item) == 1]
        if len(places) != 1:
            raise InputError(
                f"which class of {self._name} means hallucinated? It has {listed}; name it: "
                f"CustomScore(..., positive={listed[-1]!r})"
            )
        return places[0]

    def _refuse_unfitted(self) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        try:
            check_is_fitted(self._object)
        except NotFittedError as error:
            raise InputError(
                f"the estimator {self._name} is not fitted; fit it on answers that neither "
                "calibrate nor test, and pass it then"
            ) from error
        except TypeError:
            # No estimator of scikit-learn: it alone knows whether it is ready.
            return

    def of_class(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return the column of the class that means hallucinated.

        Without ``classes_`` that is the second of two.

        Raises
        ------
        InputError
            If there is another number of columns, and so none that means hallucinated.
        """
        if raw.ndim < 2:
            return -raw if self._place == 0 else raw
        n, listed = raw.shape[1], getattr(self._object, "classes_", None)
        if n != (2 if listed is None else len(listed)):
            known = "no classes_ say"
            if listed is not None:
                known = f"its {len(listed)} classes_ do not say"
            raise InputError(
                f"{self._name}.{self.method.__name__} returned {n} column{'s' * (n != 1)}, and "
                f"{known} which one means hallucinated. Return two, the second for hallucinated; "
                "or give the object classes_, one per column, and name one: "
                "CustomScore(..., positive=...)"
            )
        return raw[:, 1 if self._place is None else self._place]


def is_estimator(value: object) -> bool:
    """Return whether an object has one of ``METHODS``."""
    return any(hasattr(value, name) for name in METHODS)


def kind_of(value: Any) -> str:
    """Return what was given, for an error."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself; make one: {value.__name__}(...)"
    shape = getattr(value, "shape", None)
    size = f" of shape {tuple(shape)}" if shape is not None else ""
    shown = f" {value!r:.60}" if isinstance(value, str | int | float) else ""
    return f"{type(value).__name__}{shown}{size}"


def _cell(example: Example, name: str) -> Any:
    if name not in TEXT_FIELDS:
        cell = example.columns.get(name)
        return np.nan if cell is None else cell
    value = getattr(example, name)
    return value if isinstance(value, str) else "\n".join(value)


#: What stands for a detector: a name, a `Score`, a function of an example, a fitted estimator.
ScoreLike: TypeAlias = (
    str | Score | Callable[[Example], Any] | ProbabilityEstimator | DecisionEstimator
)

_BATCH: Final = (
    ". A function gets one Example at a time; one that takes a list of them is given as "
    "CustomScore(function, batch=True)"
)

#: How an object gets a name that imports it.
_NAMED: Final = "put it into a module, and pass it, or 'module:attribute', from there"

#: How far an estimator's value for one answer may differ from that in a batch.
_ROUNDING: Final = 1e-9


class CustomScore:
    """A function or a fitted estimator as a detector.

    A function gets one `Example`, without its label, and returns its score: a number, or None where
    it has none. With ``batch`` it gets a list of them and returns one number each. All columns of
    the data but the label stand in ``Example.columns``.

    An object with ``predict_proba`` or ``decision_function`` gets the answers' texts, as a list;
    with ``features`` one of them the values of that field or column, as a list, and several a
    matrix of numbers, in their order. One that was fitted on a DataFrame gets a DataFrame of the
    columns that it was fitted on.

    Parameters
    ----------
    detector : callable, estimator or str
        The object, or the name that imports it, ``"module:attribute"``. What has such a name can
        be frozen in a guardrail, and is refused there once its source or its fitted parameters
        have changed.
    batch : bool
        Whether the function gets a list of examples.
    features : str or sequence of str, optional
        What an estimator gets. One text with commas between the names does, too.
    higher : {"hallucinated", "faithful"}
        What a higher value means; ``faithful`` negates it.
    positive : optional
        Which of the estimator's ``classes_`` means hallucinated, where that is not plain.
    tolerance : float, optional
        How far two computations of one value may differ: 0 for a function, 1e-9 for estimators
        and batches, unless given.

    Examples
    --------
    >>> score = CustomScore("calibrail.scores.custom:n_characters")
    >>> score.score([Example(response="four")]).values
    array([4.])
    """

    name = "custom"

    def __init__(
        self,
        detector: Any,
        *,
        batch: bool = False,
        features: str | Sequence[str] | None = None,
        higher: Higher = "hallucinated",
        positive: Any = None,
        tolerance: float | None = None,
    ) -> None:
        given = detector
        detector = import_named(given) if isinstance(given, str) else given
        self.detector = given if isinstance(given, str) else name_of(detector)
        estimates = is_estimator(detector)
        if isinstance(detector, type) or not (callable(detector) or estimates):
            raise InputError(
                "a detector must be a function of an Example, or a fitted object with "
                f"{' or '.join(METHODS)}; got {kind_of(detector)}"
            )
        one_of(higher, "higher", get_args(Higher))
        self._object, self._batch, self._higher = detector, bool(batch), higher
        self._features, self._positive = _names(features), positive
        self._estimator: Estimator | None = None
        self.importable = isinstance(given, str) or leads_back(self.detector, detector)
        if estimates:
            if batch:
                raise InputError("batch is for functions; an estimator always gets all at once")
            self._estimator = Estimator(detector, self.detector, self._features, positive)
        elif features is not None or positive is not None:
            raise InputError("features and positive are for estimators; a function gets all")
        exact = 0.0 if not estimates and not batch else _ROUNDING
        self._tolerance = exact if tolerance is None else _distance(tolerance)
        if not self.importable:
            warnings.warn(self.lessons[0], UserWarning, stacklevel=3)

    @property
    def key(self) -> str:
        """A short name that tells scores of one run apart."""
        return self.detector if self.importable else self.detector.rpartition(":")[2]

    @property
    def lessons(self) -> list[str]:
        """What a reader should know: whether this can be frozen."""
        if self.importable:
            return []
        return [
            f"The detector {self.detector} has no name that imports it, so that its guardrail "
            f"cannot be exported: {_NAMED}."
        ]

    @property
    def stays_here(self) -> str | None:
        """Why no other process can compute it; None where a name imports it."""
        return None if self.importable else f"no name imports it: {_NAMED}"

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        return {
            "detector": self.detector,
            "batch": self._batch,
            "features": list(self._features) if self._features else None,
            "higher": self._higher,
            "positive": self._positive,
            "tolerance": self._tolerance,
        }

    @property
    def requires(self) -> tuple[str, ...]:
        """The fields that an estimator reads; a function takes what is there."""
        return () if self._estimator is None else self._estimator.fields

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an estimator reads; a function may read all."""
        return (ALL_COLUMNS,) if self._estimator is None else self._estimator.columns

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ."""
        return self._tolerance

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the digest of the source, and of what an estimator has learnt."""
        return origin(self.detector, self._object) if self.importable else {}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where there is none, or no finite one."""
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        for row, example in enumerate(examples):
            if (why := self._lacking(example)) is not None:
                reasons[row] = why
        usable = [row for row in range(len(examples)) if row not in reasons]
        for row, value in zip(usable, self._values([examples[row] for row in usable]), strict=True):
            if value is None or math.isnan(value):
                reasons[row] = f"{self.key} gave no value"
            elif math.isinf(value):
                reasons[row] = f"{self.key} gave {value}, which is not finite"
            else:
                values[row] = value if self._higher == "hallucinated" else -value
        return Scores(values, reasons)

    def _lacking(self, example: Example) -> str | None:
        """Return why an estimator has no value for an example, None where nothing is missing."""
        why = missing(example, self.requires)
        if why is not None or self._estimator is None or self._estimator.takes_nan:
            return why
        empty = (name for name in self.columns if example.columns.get(name) is None)
        return next((f"column {name} is empty" for name in empty), None)

    def _values(self, examples: Sequence[Example]) -> Sequence[float | None]:
        if not examples:
            return []
        if self._estimator is not None:
            raw = self._called(self._estimator.method, self._estimator.matrix(examples), examples)
            return self._numbers(self._estimator.of_class(np.asarray(raw)), len(examples))
        # Where answers are decided about there is no label, and an engine may leave it behind.
        examples = [item if item.label is None else replace(item, label=None) for item in examples]
        if self._batch:
            return self._numbers(self._called(self._object, examples, examples), len(examples))
        values = []
        for example in examples:
            values.append(self._number(self._called(self._object, example, [example]), example))
            report_progress(len(values) / len(examples))
        return values

    def _called(
        self, function: Callable[[Any], Any], given: Any, examples: Sequence[Example]
    ) -> Any:
        try:
            return function(given)
        except CalibrailError:
            raise
        except Exception as error:
            where = (
                f"answer {examples[0].id!r}" if len(examples) == 1 else f"{len(examples)} answers"
            )
            # What takes a list fails on its first answer with a type error.
            alone = self._estimator is None and not self._batch
            hint = _BATCH if alone and isinstance(error, TypeError) else ""
            raise InputError(
                f"the detector {self.key} failed on {where}: {type(error).__name__}: {error}{hint}"
            ) from error

    def _number(self, value: Any, example: Example) -> float | None:
        if value is None:
            return None
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if isinstance(value, str | bytes) or array.size != 1:
            raise InputError(
                f"the detector {self.key} must return one number per answer, or None; for "
                f"{example.id!r} it returned {kind_of(value)}"
                + (
                    "; does it take a list? Wrap it: CustomScore(..., batch=True)"
                    if array.size
                    else ""
                )
            )
        return float(array.reshape(()))

    def _numbers(self, raw: Any, n: int) -> list[float | None]:
        try:
            values = np.asarray([np.nan if item is None else item for item in raw], np.float64)
        except (TypeError, ValueError):
            values = np.zeros((0, 0))
        if values.size != n or values.shape[:1] != (n,):
            raise InputError(
                f"the detector {self.key} must return one number for each of {n} answers; it "
                f"returned {kind_of(raw)}"
            )
        return [float(item) for item in values.reshape(n)]


def as_score(value: object) -> Score:
    """Return a score as it is, and a function or an estimator as one.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(value, Score) and not isinstance(value, type):
        return value
    if isinstance(value, type) or not (callable(value) or is_estimator(value)):
        raise InputError(
            "a score must be a name such as 'novelty', 'module:attribute', a Score, a function of "
            "an Example, or a fitted object with predict_proba or decision_function; got "
            f"{kind_of(value)}"
        )
    return CustomScore(value)


def n_characters(example: Example) -> float:
    """Return the length of an answer: the least that a detector can be."""
    return float(len(example.response))


def _distance(tolerance: Any) -> float:
    known = isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool)
    if not known or not 0.0 <= tolerance < math.inf:
        raise InputError(
            f"tolerance must be a finite number, 0 or more; got {tolerance!r}; it says how far two "
            "computations of one value may differ"
        )
    return float(tolerance)


def _names(features: str | Sequence[str] | None) -> tuple[str, ...]:
    if features is None:
        return ()
    names = features.split(",") if isinstance(features, str) else features
    if not isinstance(names, Sequence) or not all(isinstance(n, str) and n.strip() for n in names):
        raise InputError(f"features must name fields or columns; got {features!r}")
    return tuple(name.strip() for name in names)
