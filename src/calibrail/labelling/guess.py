"""How likely is an answer hallucinated, as far as the labels so far can tell?

A guess decides how often an answer is labelled, and takes variance out of the verdict; it is never
counted as a label. It is made before the label is seen, so that the verdict is valid however bad it
is.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit

from calibrail.conformal.validation import Floats
from calibrail.data.labels import LabelReader
from calibrail.errors import DataError
from calibrail.settings.reading import ReadOptions

#: Guesses stay this far from certainty.
_CERTAIN: Final = 0.005
#: What a judge's bare yes or no is taken for before labels tell how good the judge is.
_JUDGED: Final = 0.85
#: Weights of constant, score, flag and column before the first label, and how far labels are
#: expected to move each. Without a column a flag speaks for a hallucinated answer; with one it says
#: nothing more.
_WITHOUT: Final = ((-1.0, 0.7, 1.0, 0.0), (1.5, 0.7, 1.0, 0.01))
_WITH: Final = ((0.0, 0.0, 0.0, 1.0), (0.7, 0.5, 0.5, 0.7))
_STEPS: Final = 25


class Clues(NamedTuple):
    """What is known of an answer before it is labelled.

    Attributes
    ----------
    score : float or None
        Of the frozen guardrail; None where it is undefined.
    flagged : bool
        What the guardrail decided.
    column : float or None
        P(hallucinated) as the column says it; None where there is none.
    """

    score: float | None
    flagged: bool
    column: float | None = None


class GuessColumn:
    """Reads a column that guesses P(hallucinated): a number in [0, 1], or a judge's label.

    Parameters
    ----------
    name : str
        Of the column; it may say what a judge's 1 means, as it may for labels.

    Examples
    --------
    >>> column = GuessColumn("judge")
    >>> column(0.25, "t1"), column("faithful", "t2"), column(None, "t3")
    (0.25, 0.15, None)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._labels = LabelReader(ReadOptions(), name)

    def __call__(self, value: float | str | None, id: str) -> float | None:
        """Return the guess for an answer; None where its cell is empty.

        Raises
        ------
        DataError
            The value is neither; the answer is named.
        """
        if value is None:
            return None
        if isinstance(value, float) and 0.0 < value < 1.0:
            return value
        label = self._labels(value)
        if label not in (0, 1):
            raise DataError(
                f"the trace {id!r} has {value!r:.60} in the column {self.name!r}; a guess is a "
                "number in [0, 1], 1 = hallucinated, or a word that says which, as hallucinated "
                "and faithful: mend the column, or leave guess out"
            )
        return _JUDGED if label == 1 else round(1.0 - _JUDGED, 9)


class Guesser:
    """Learns from labels, and from what a column says, how likely an answer is hallucinated.

    A logistic regression on the guardrail's score, its flag and the column; weights are drawn to
    what they are before the first label (normal priors), so that a few labels do not mislead it.

    Parameters
    ----------
    with_column : bool
        Whether a column guesses, too.

    Examples
    --------
    >>> guesser = Guesser()
    >>> before = guesser([Clues(0.2, False), Clues(0.9, True)])
    >>> guesser.learn([Clues(0.2, False)] * 30 + [Clues(0.9, True)] * 30, [0] * 30 + [1] * 30)
    >>> after = guesser([Clues(0.2, False), Clues(0.9, True)])
    >>> bool(after[0] < before[0] < before[1] < after[1])
    True
    """

    def __init__(self, *, with_column: bool = False) -> None:
        mean, spread = _WITH if with_column else _WITHOUT
        self._mean, self._precision = np.array(mean), 1.0 / np.square(np.array(spread))
        self._weights = self._mean
        self._middle, self._scale = 0.0, np.inf

    def learn(self, clues: Sequence[Clues], labels: Sequence[int]) -> None:
        """Learn from all labels so far, those of earlier calls included.

        The mode of the posterior is found by Newton's method; it is unique.
        """
        scores = np.array([c.score for c in clues if c.score is not None], np.float64)
        if len(scores) >= 2:
            low, self._middle, high = np.quantile(scores, (0.25, 0.5, 0.75)).tolist()
            self._scale = max((high - low) / 1.35, 1e-12)
        features, truth = self._features(clues), np.array(labels, np.float64)
        weights = self._mean.copy()
        for _ in range(_STEPS):
            chance = expit(features @ weights)
            slope = features.T @ (truth - chance) - self._precision * (weights - self._mean)
            bend = (features * (chance * (1.0 - chance))[:, None]).T @ features
            step = np.linalg.solve(bend + np.diag(self._precision), slope)
            # A step this long leaves the region in which the next one can be trusted.
            weights = weights + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            if float(np.abs(step).max()) < 1e-9:
                break
        self._weights = weights

    def __call__(self, clues: Sequence[Clues]) -> Floats:
        """Return P(hallucinated) as guessed for answers, shape (n,)."""
        chance = expit(self._features(clues) @ self._weights)
        return np.asarray(np.clip(np.round(chance, 6), _CERTAIN, 1.0 - _CERTAIN))

    def _features(self, clues: Sequence[Clues]) -> Floats:
        rows = np.empty((len(clues), 4))
        rows[:, 0] = 1.0
        scores = np.array([np.nan if c.score is None else c.score for c in clues], np.float64)
        rows[:, 1] = np.nan_to_num(np.clip((scores - self._middle) / self._scale, -3.0, 3.0))
        rows[:, 2] = [1.0 if c.flagged else -1.0 for c in clues]
        column = [0.5 if c.column is None else c.column for c in clues]
        sure = np.clip(np.array(column), _CERTAIN, 1.0 - _CERTAIN)
        rows[:, 3] = np.log(sure / (1.0 - sure))
        return rows
