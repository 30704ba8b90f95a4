"""What does a fitted estimator get of an answer, and which of its numbers is the score?"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.label_words import parse_label
from calibrail.errors import InputError

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
