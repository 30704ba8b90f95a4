"""How likely is an answer hallucinated, by what was labelled so far?

A guess decides how often an answer is labelled, and takes variance out of the verdict; it is never
counted as a label. It is made before the label is seen, so that the verdict is valid however bad it
is.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from calibrail.conformal.learnt_guess import LearntGuess
from calibrail.conformal.validation import Floats
from calibrail.data.example import Example
from calibrail.data.labels import LabelReader
from calibrail.errors import DataError
from calibrail.labelling.folder import LabelFolder
from calibrail.settings.reading import ReadOptions

#: What is known of an answer before it is labelled: the guardrail's score, and what a column says;
#: None where there is nothing.
Clues: TypeAlias = tuple[float | None, float | None]


class GuessColumn:
    """Reads a column that tells hallucinated answers: any number, or a judge's label.

    Parameters
    ----------
    name : str
        Of the column; it may say what a judge's yes means, as it may for labels.

    Examples
    --------
    >>> column = GuessColumn("judge")
    >>> column(0.25, "t1"), column("faithful", "t2"), column(None, "t3")
    (0.25, 0.0, None)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._labels = LabelReader(ReadOptions(), name)

    def of(self, example: Example) -> float | None:
        """Return what the column says of an example; errors as of a call."""
        return self(example.columns.get(self.name), example.id)

    def __call__(self, value: float | str | None, id: str) -> float | None:
        """Return what the column says of an answer; None where its cell is empty.

        Raises
        ------
        DataError
            The value is neither; the answer is named.
        """
        if value is None or isinstance(value, float):
            return value
        label = self._labels(value)
        if label not in (0, 1):
            raise DataError(
                f"the trace {id!r} has {value!r:.60} in the column {self.name!r}; a guess is a "
                "number, or a word that says hallucinated or faithful: mend the column, or leave "
                "guess out"
            )
        return float(label)


class Guesser:
    """Learns from labels how likely an answer is hallucinated, by its clues.

    Parameters
    ----------
    folder : LabelFolder
        What is drawn and labelled.
    """

    def __init__(self, folder: LabelFolder) -> None:
        self._folder = folder
        self._learnt: tuple[int, LearntGuess] | None = None

    def __call__(self, clues: Sequence[Clues]) -> Floats:
        """Return P(hallucinated) as guessed for answers, shape (n,)."""
        ledger = self._folder.ledger
        if self._learnt is None or self._learnt[0] != ledger.version:
            self._learnt = ledger.version, LearntGuess.of(*ledger.lessons())
        return np.asarray(np.round(self._learnt[1](_numbers(clues)), 6))


def _numbers(clues: Sequence[Clues]) -> Floats:
    """Return clues as numbers, shape (n, 2), NaN where there are none."""
    rows = [[np.nan if clue is None else clue for clue in both] for both in clues]
    return np.array(rows, np.float64).reshape(-1, 2)
