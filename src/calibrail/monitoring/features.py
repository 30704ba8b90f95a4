"""What of an answer does a watch look at, and in which bins is it counted?

Bins are fixed by the first quarter of a reference, before anything is counted in them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calibrail.conformal.validation import Floats, Ints
from calibrail.monitoring.rows import Rows
from calibrail.record import Record

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

    def of(self, values: Floats, languages: Sequence[str]) -> Ints:
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
    found = []
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
            found.append(Bins(feature, languages=own, rare=rare))
        else:
            edges = (0.5,) if feature == "undefined" else _edges(values)
            found.append(Bins(feature, edges))
    return found


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
