"""Rows of a watch, features and their bins.

Bins are fixed by the first quarter of a reference, before anything is counted in them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.validation import Bools, Floats, Ints
from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.serialization import Record
from calibrail.text.words import language_of

#: Where an answer stands in its log: chain, number in it, and the answer's own id.
Ref = tuple[str, int, str]

#: Characters of a language's code (RFC 5646, section 4.4.1).
_LONGEST_CODE: Final = 35
#: Columns of numbers that are NaN where they are not known.
_NUMBERS: Final = ("time", "question_length", "response_length", "chunks")


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
    def of(cls, score: ArrayLike, flagged: ArrayLike, **columns: Any) -> Self:
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
        columns: dict[str, Any] = {"failed": [item.failed for item in decisions]}
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
        columns: Any = (getattr(self, item.name) for item in fields(self))
        cut: Any = (None if values is None else values[start:stop] for values in columns)
        return type(self)(*cut)


def _flags(given: Any, name: str, n: int, default: Any = False) -> Bools:
    values = np.asarray(np.broadcast_to(default, n) if given is None else given)
    if values.shape != (n,) or not np.isin(values, (False, True)).all():
        raise InputError(f"{name} must hold true or false, one for each of {n} rows")
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
        values[:] = list(given)
    for code in set(values):
        if code is not None and (not isinstance(code, str) or len(code) > _LONGEST_CODE):
            raise InputError(
                f"language must be a code of at most {_LONGEST_CODE} characters, or None; got "
                f"{code!r:.40}"
            )
    return values


def moment(seconds: float | None) -> str | None:
    """Return seconds since 1970 as RFC 3339 in UTC; None where the time is not known.

    >>> moment(86_400.5), moment(None)
    ('1970-01-02T00:00:00Z', None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(math.floor(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


#: In the order of the rows of every table of features.
FEATURES: Final = (
    "score",
    "undefined",
    "question_length",
    "response_length",
    "chunks",
    "language",
)
#: Features whose values are numbers, of which a mean is shown.
NUMBERS: Final = ("score", "question_length", "response_length", "chunks")
UNDEFINED: Final = FEATURES.index("undefined")
LANGUAGE: Final = FEATURES.index("language")

#: Bins of a feature at most.
MOST_BINS: Final = 32
#: Up to so many distinct values each has a bin of its own, and so has every gap between two.
_FEW: Final = 15
#: Shares of a sample between the bins of other numbers: finer at the ends, where new values are.
_LEVELS: Final = np.concatenate(
    [[0.01, 0.02, 0.04], np.linspace(0.04, 0.96, 25)[1:-1], [0.96, 0.98, 0.99]]
)
#: Languages with a bin of their own; the rarer ones of the reference share one, and those that it
#: does not hold another.
_OWN_BINS: Final = MOST_BINS - 2
#: Languages that are told apart at all: more than there are codes, so that only nonsense is not.
MOST_LANGUAGES: Final = 250
#: Larger numbers are taken as this one.
_HUGE: Final = 1e290
#: What further ones are called.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Bins(Record):
    """The bins of one feature.

    Attributes
    ----------
    feature : str
        One of `FEATURES`.
    edges : tuple of float
        Of numbers, rising: bin i holds what is above edge i - 1 and at most edge i.
    languages : tuple of str
        Those with a bin of their own, the most frequent one first.
    rare : tuple of str
        Those of the reference that share the next bin; the last bin is for all others.
    """

    feature: str
    edges: tuple[float, ...] = ()
    languages: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The number of bins."""
        if self.feature == "language":
            return len(self.languages) + 2
        return len(self.edges) + 1

    def assign(self, values: Floats, languages: Sequence[str]) -> Ints:
        """Return the bin of each value, -1 for NaN; ``languages`` names the codes."""
        known = ~np.isnan(values)
        if self.feature == "language":
            own = {name: at for at, name in enumerate(self.languages)}
            own |= dict.fromkeys(self.rare, len(own))
            table = np.full(MOST_LANGUAGES + 1, self.n - 1)
            table[: len(languages)] = [own.get(name, self.n - 1) for name in languages]
            return np.where(known, table[np.where(known, values, 0.0).astype(np.int64)], -1)
        return np.where(known, np.searchsorted(np.array(self.edges), values), -1)

    def summary(self, counts: Ints, total: float) -> dict[str, Any]:
        """Return what values look like that fell into the bins, ``total`` being their sum."""
        n = int(counts.sum())
        if self.feature == "language":
            names = [*self.languages, *(["rarer"] if self.rare else []), OTHER]
            held = counts if self.rare else np.delete(counts, -2)
            shares = {name: int(k) / n for name, k in zip(names, held, strict=True) if k}
            return {"n": n, "shares": shares}
        if self.feature == "undefined":
            return {"n": n, "share": int(counts[-1]) / n if n else None}
        return {
            "n": n,
            "mean": total / n if n else None,
            "median": self._median(counts) if n else None,
        }

    def _median(self, counts: Ints) -> float:
        """Return the median, between the edges of its bin as if values were even there."""
        below = np.cumsum(counts)
        half = below[-1] / 2.0
        at = int(np.searchsorted(below, half))
        low, high = self.edges[max(0, at - 1)], self.edges[min(at, len(self.edges) - 1)]
        share = (half - (below[at] - counts[at])) / counts[at]
        return float(f"{low + (high - low) * share:.6g}")


def rows_for_bins(size: int) -> int:
    """Return how many rows of a reference fix the bins: a quarter, at least one.

    The others are counted, and each of them is evidence: simulated with 1,000 rows, an alarm soon
    after the reference is raised more often than with half of them for the bins (a shift of 0.25
    standard deviations right after it is found in 86 % in place of 59 %), and 4,000 rows later as
    soon.

    >>> rows_for_bins(1_000), rows_for_bins(2)
    (250, 1)
    """
    return max(1, size // 4)


def learn_bins(sample: Floats, languages: Sequence[str]) -> list[Bins]:
    """Return bins for each feature of which a sample holds a value.

    Parameters
    ----------
    sample : ndarray of float64, shape (features, rows)
        In the order of `FEATURES`; NaN where a row has no value.
    languages : sequence of str
        Names of the codes of languages.
    """
    learnt = []
    for feature, row in zip(FEATURES, sample, strict=True):
        values = np.sort(row[~np.isnan(row)])
        if not len(values):
            continue
        if feature == "language":
            # What has no code of its own is new whenever it comes.
            codes = values[values < len(languages)].astype(np.int64)
            counts = np.bincount(codes, minlength=len(languages))
            order = [languages[at] for at in np.argsort(-counts, kind="stable") if counts[at]]
            own, rare = tuple(order[:_OWN_BINS]), tuple(order[_OWN_BINS:])
            learnt.append(Bins(feature, languages=own, rare=rare))
        else:
            edges = (0.5,) if feature == "undefined" else _edges(values)
            learnt.append(Bins(feature, edges))
    return learnt


def _edges(values: Floats) -> tuple[float, ...]:
    """Return the edges between bins of sorted numbers: none has a mass that is not its values'."""
    distinct = np.unique(values)
    if len(distinct) > _FEW:
        levels = np.ceil(_LEVELS * len(values)).astype(np.int64) - 1
        inner = values[np.clip(levels, 0, len(values) - 1)]
        distinct = np.array([math.nextafter(values[0], -math.inf), *inner, values[-1]])
        return tuple(np.unique(distinct).tolist())
    return tuple(edge for v in distinct.tolist() for edge in (math.nextafter(v, -math.inf), v))


def table(rows: Rows, codes: dict[str, int]) -> Floats:
    """Return the features of rows as numbers, shape (features, n); NaN where there is none.

    ``codes`` numbers the languages seen so far, and is added to.
    """
    numbers = np.empty((len(FEATURES), len(rows)))
    for at, feature in enumerate(FEATURES):
        if feature not in ("undefined", "language"):
            # Sums, and the edges beside a number, are to be finite, too.
            numbers[at] = np.clip(getattr(rows, feature), -_HUGE, _HUGE)
    numbers[UNDEFINED] = np.where(rows.failed, np.nan, rows.undefined)
    for name in dict.fromkeys(rows.language.tolist()):
        if name is not None and name not in codes and len(codes) < MOST_LANGUAGES:
            codes[name] = len(codes)
    missing: dict[str | None, float] = {None: math.nan}
    known = codes | missing
    last = float(MOST_LANGUAGES)
    numbers[LANGUAGE] = [known.get(name, last) for name in rows.language.tolist()]
    return numbers
