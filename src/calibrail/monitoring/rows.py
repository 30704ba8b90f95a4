"""What does a watch take in of each answer that a guardrail decided about?"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.validation import Bools, Floats
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.text.language import language_of

#: Where an answer stands in its log: chain, number in it, and the answer's own id.
Ref = tuple[str, int, str]

#: Characters of a language's code (RFC 5646, section 4.4.1).
_LONGEST_CODE: Final = 35
#: Columns of numbers that are NaN where they are not known.
_NUMBERS: Final = ("time", "question_length", "response_length", "chunks")


class Columns(TypedDict, total=False):
    """What may be known of each answer beside its score and its outcome; see `Rows`."""

    undefined: ArrayLike
    failed: ArrayLike
    time: ArrayLike
    question_length: ArrayLike
    response_length: ArrayLike
    chunks: ArrayLike
    language: Sequence[str | None]
    ref: Sequence[Ref] | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Decided answers in the order in which they came; `Rows.of` makes and checks them.

    Attributes
    ----------
    score : ndarray of float64, shape (n,)
        Higher = more likely hallucinated; NaN where it is undefined or the detector failed.
    undefined, failed, flagged : ndarray of bool, shape (n,)
        Whether there is no score; whether the detector failed; whether the outcome was not a pass.
    time : ndarray of float64, shape (n,)
        Seconds since 1970 (UTC); NaN where it is not known.
    question_length, response_length, chunks : ndarray of float64, shape (n,)
        Characters, and retrieved chunks; NaN where they are not known.
    language : ndarray of object, shape (n,)
        Its code; None where it is not known.
    ref : tuple of (chain, seq, id), or None
        Where each answer stands in its log, to name those behind an alarm.
    """

    score: Floats
    undefined: Bools
    failed: Bools
    flagged: Bools
    time: Floats
    question_length: Floats
    response_length: Floats
    chunks: Floats
    language: NDArray[np.object_]
    ref: tuple[Ref, ...] | None = None

    @classmethod
    def of(cls, score: ArrayLike, flagged: ArrayLike, **columns: Unpack[Columns]) -> Self:
        """Return rows of what is known, the rest filled in as not known.

        Parameters
        ----------
        score : array-like of float, shape (n,)
            Finite; NaN or None where there is none.
        flagged : array-like of bool, shape (n,)
            Whether the outcome was anything but a pass.
        **columns
            Further attributes of `Rows`, each of n entries. A row without a score is undefined
            unless ``failed`` says that the detector failed.

        Raises
        ------
        InputError
            If a column is of another length or kind, or a row has a score and should have none.

        Examples
        --------
        >>> rows = Rows.of([0.2, None], [False, True], chunks=[3, 4])
        >>> len(rows), rows.undefined.tolist(), rows.language.tolist()
        (2, [False, True], [None, None])
        """
        if unknown := sorted(set(columns) - {item.name for item in fields(cls)}):
            known = ", ".join(item.name for item in fields(cls))
            raise InputError(f"unknown column {unknown[0]!r} of rows; known are {known}")
        values = validation.scores(score, "score")
        n = len(values)
        failed = _flags(columns.get("failed"), "failed", n)
        nothing = np.isnan(values)
        undefined = _flags(columns.get("undefined"), "undefined", n, nothing & ~failed)
        wrong = np.flatnonzero(nothing != (undefined | failed))
        if len(wrong) or (wrong := np.flatnonzero(undefined & failed)).size:
            row = int(wrong[0])
            raise InputError(
                f"row {row}: its score is {values[row]}, undefined is {bool(undefined[row])} and "
                f"failed is {bool(failed[row])}; a row has a score, or exactly one of both is true"
            )
        numbers = {name: _numbers(columns.get(name), name, n) for name in _NUMBERS}
        language = _languages(columns.get("language"), n)
        ref = columns.get("ref")
        if ref is not None:
            validation.paired(ref, n, "ref", "row")
            ref = tuple((str(chain), int(seq), str(name)) for chain, seq, name in ref)
        stopped = _flags(flagged, "flagged", n)
        return cls(values, undefined, failed, stopped, **numbers, language=language, ref=ref)

    @classmethod
    def decided(
        cls, decisions: Sequence[Decision], examples: Sequence[Example] | None = None
    ) -> Self:
        """Return the rows of decisions, with lengths and languages of what they are about.

        Raises
        ------
        InputError
            If there is not one example for each decision.
        """
        if wrong := [item for item in decisions if not isinstance(item, Decision)]:
            raise InputError(f"a watch takes in Rows or decisions; got {wrong[0]!r:.80}")
        columns: Columns = {"failed": [item.failed for item in decisions]}
        if examples is not None:
            validation.paired(examples, len(decisions), "examples", "decision")
            columns["question_length"] = [len(item.question) for item in examples]
            columns["response_length"] = [len(item.response) for item in examples]
            columns["chunks"] = [len(item.contexts) for item in examples]
            columns["language"] = [language_of(item.response, item.question) for item in examples]
        scores = np.array([item.score for item in decisions], np.float64)
        return cls.of(scores, [item.flagged for item in decisions], **columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.score)

    def part(self, start: int, stop: int) -> Self:
        """Return the rows from ``start`` to before ``stop``; arrays are views."""
        columns: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        cut: dict[str, Any] = {
            name: None if values is None else values[start:stop] for name, values in columns.items()
        }
        return type(self)(**cut)


def _flags(given: Any, name: str, n: int, default: Bools | None = None) -> Bools:
    if given is None:
        return np.zeros(n, bool) if default is None else default
    values = np.asarray(given)
    if values.ndim != 1 or not np.isin(values, (False, True)).all():
        raise InputError(f"{name} must hold true or false, one for each of {n} rows")
    validation.paired(values, n, name, "row")
    return values.astype(bool)


def _numbers(given: Any, name: str, n: int) -> Floats:
    if given is None:
        return np.full(n, np.nan)
    values = validation.vector(given, name)
    validation.paired(values, n, name, "row")
    if len(wrong := np.flatnonzero(np.isinf(values) | (values < 0.0))):
        row = int(wrong[0])
        raise InputError(
            f"{name} must be finite and at least 0, NaN where it is not known; row {row} has "
            f"{values[row]}"
        )
    return values


def _languages(given: Sequence[str | None] | None, n: int) -> NDArray[np.object_]:
    values = np.full(n, None, object)
    if given is not None:
        validation.paired(given, n, "language", "row")
        for row, code in enumerate(given):
            if code is not None and (not isinstance(code, str) or len(code) > _LONGEST_CODE):
                raise InputError(
                    f"language must be a code of at most {_LONGEST_CODE} characters, or None; row "
                    f"{row} has {code!r:.40}"
                )
            values[row] = code
    return values
