"""Does a detector work equally well on all kinds of answers?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from scipy.stats import chi2, rankdata

from calibrail.conformal import holm
from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.stats.arrays import Floats, Ints
from calibrail.evaluation.stats.influence import cluster_sums
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.ranking import ranked
from calibrail.evaluation.stats.separation import Moments
from calibrail.record import Record

#: Most values of a column that are strata of their own; the rarer ones are one stratum together.
MOST: Final = 20
#: A column of numbers with more distinct values is cut into thirds.
FEW_NUMBERS: Final = 12
#: Fewest answers of each class with which a stratum takes part in the test.
TESTED: Final = 10

THIRDS: Final = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How answers are divided into strata, before any score is looked at.

    Parameters
    ----------
    name : str
        The feature, or the column.
    kind : {"thirds", "column"}
        Thirds of a number, or the values of a column.
    members : ndarray of int64, shape (n,)
        Stratum of each answer; -1 for one without a value.
    names : tuple of str
        Names of the strata.
    ranges : tuple of (float, float) or None
        Smallest and largest value in each third.
    """

    name: str
    kind: Literal["thirds", "column"]
    members: Ints
    names: tuple[str, ...]
    ranges: tuple[tuple[float, float] | None, ...]


@dataclass(frozen=True, slots=True)
class Stratum(Record):
    """A detector on the answers of one stratum.

    Parameters
    ----------
    name : str
        ``low``, ``medium`` or ``high``, or the column's value.
    range : tuple of (float, float) or None
        Smallest and largest value of the feature.
    n_hallucinated, n_faithful, n_undefined : int
        Answers of each class; those of them whose score is undefined.
    means : mapping of str to Moments
        Of the defined scores, per class.
    cohens_d, auroc : Measure
        How far apart the classes are; positive and above 0.5 where hallucinated answers score
        higher.
    reversed : bool
        The AUROC's interval lies below 0.5.
    """

    name: str
    range: tuple[float, float] | None
    n_hallucinated: int
    n_faithful: int
    n_undefined: int
    means: Mapping[str, Moments]
    cohens_d: Measure
    auroc: Measure
    reversed: bool


@dataclass(frozen=True, slots=True)
class Heterogeneity(Record):
    """Test of "the AUROC is the same in all strata".

    Parameters
    ----------
    statistic, df, p_value : float, int and float, or None
        Cochran's Q on the logit scale; where groups span strata, with their covariances.
    p_holm : float or None
        Corrected for all divisions of one detector (Holm).
    left_out : tuple of str
        Strata that take no part, for want of answers or because nothing varies there.
    reason : str or None
        Why there is no test.
    """

    statistic: float | None
    df: int | None
    p_value: float | None
    p_holm: float | None
    left_out: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Stratification(Record):
    """A detector on every stratum of one division.

    Parameters
    ----------
    name, kind
        As in ``Division``.
    n_missing : int
        Answers without a value, which are in no stratum.
    strata : tuple of Stratum
        From low to high, or from the most frequent value to the rarest.
    test : Heterogeneity
        Whether they differ.
    """

    name: str
    kind: str
    n_missing: int
    strata: tuple[Stratum, ...]
    test: Heterogeneity


def thirds(name: str, values: Floats) -> Division | None:
    """Divide answers into thirds of a feature, equal values together; None if it does not vary.

    Examples
    --------
    >>> thirds("length", np.array([3.0, 1.0, 2.0, np.nan])).members.tolist()
    [2, 0, 1, -1]
    """
    there = ~np.isnan(values)
    members = np.full(len(values), -1, dtype=np.int64)
    places = (rankdata(values[there]) - 0.5) / max(1, int(there.sum()))
    # Many equal values may leave a third empty; the names then say which there are.
    present, members[there] = np.unique((3.0 * places).astype(np.int64), return_inverse=True)
    if len(present) < 2:
        return None
    parts = [values[members == k] for k in range(len(present))]
    ranges = tuple((float(part.min()), float(part.max())) for part in parts)
    return Division(name, "thirds", members, tuple(THIRDS[k] for k in present), ranges)


def by_column(name: str, cells: Sequence[Any]) -> Division | None:
    """Divide answers by the values of a column; None unless there are at least two strata.

    Numbers with more than twelve distinct values are cut into thirds. Of other values the twenty
    most frequent are strata, the rest is one more. An empty cell is in none.
    """
    filled = [cell for cell in cells if not _empty(cell)]
    if filled and all(isinstance(cell, int | float) for cell in filled):
        numbers = np.array([np.nan if _empty(cell) else float(cell) for cell in cells])
        if np.isfinite(numbers[~np.isnan(numbers)]).all() and len(set(filled)) > FEW_NUMBERS:
            return thirds(name, numbers)
    texts = [None if _empty(cell) else _text(cell) for cell in cells]
    counts = Counter(text for text in texts if text is not None)
    order = sorted(counts, key=lambda text: (-counts[text], text))
    kept = order if len(order) <= MOST + 1 else order[:MOST]
    place = {text: min(index, len(kept)) for index, text in enumerate(order)}
    rarer = [] if len(kept) == len(order) else [f"{len(order) - MOST:,} rarer values"]
    names = (*kept, *rarer)
    if len(names) < 2:
        return None
    members = np.array([-1 if text is None else place[text] for text in texts], dtype=np.int64)
    return Division(name, "column", members, names, (None,) * len(names))


def stratify(division: Division, values: Floats, ranks: Floats, answers: Answers) -> Stratification:
    """Measure a detector in every stratum, and test whether they differ.

    Parameters
    ----------
    division : Division
        Which answer is in which stratum.
    values, ranks : ndarray of float64, shape (n,)
        Scores, NaN where undefined; the same with undefined ones where the policy puts them.
    answers : Answers
        Labels and groups.
    """
    strata = []
    for index, name in enumerate(division.names):
        rows = division.members == index
        here = answers.where(rows)
        strata.append(
            Stratum(
                name=name,
                range=division.ranges[index],
                n_hallucinated=int(np.sum(here.labels == 1)),
                n_faithful=int(np.sum(here.labels == 0)),
                n_undefined=int(np.isnan(values[rows]).sum()),
                **here.separation(values[rows], ranks[rows]),
            )
        )
    n_missing = int(np.sum(division.members < 0))
    test = heterogeneity(division, ranks, answers)
    return Stratification(division.name, division.kind, n_missing, tuple(strata), test)


def heterogeneity(division: Division, ranks: Floats, answers: Answers) -> Heterogeneity:
    """Test whether the AUROC is the same in all strata.

    Wald's test of equal logits. Where no group spans strata it is Cochran's (1954) Q, the sum of
    (logit A_k - their weighted mean)^2 / var; else their covariances enter.
    """
    logits, influences = [], []
    left_out: list[str] = []

    def without_test(reason: str) -> Heterogeneity:
        return Heterogeneity(None, None, None, None, tuple(left_out), reason)

    for index, name in enumerate(division.names):
        rows = np.flatnonzero(division.members == index)
        here = answers.where(rows)
        area = ranked(ranks[rows], here.labels)
        few = min(int(np.sum(here.labels == k)) for k in (0, 1)) < TESTED
        slope = 0.0 if area is None else area.value * (1.0 - area.value)
        if area is None or few or slope == 0.0 or area.variance(here.clusters)[0] <= 0.0:
            left_out.append(name)
            continue
        column = np.zeros(len(ranks))
        column[rows] = area.influence / slope
        influences.append(column)
        logits.append(np.log(area.value / (1.0 - area.value)))
    if len(logits) < 2:
        return without_test(f"few_strata:{TESTED}")
    totals = cluster_sums(np.stack(influences, axis=1), answers.clusters)
    covariance = totals.T @ totals * len(totals) / (len(totals) - 1)
    k = len(logits)
    contrasts = np.eye(k)[1:] - np.eye(k)[0]
    apart = contrasts @ np.array(logits)
    spread = contrasts @ covariance @ contrasts.T
    if np.linalg.matrix_rank(spread) < k - 1:
        return without_test("few_groups_for_strata")
    statistic = float(apart @ np.linalg.solve(spread, apart))
    p_value = float(chi2.sf(statistic, k - 1))
    return Heterogeneity(statistic, k - 1, p_value, None, tuple(left_out))


def corrected(divided: Sequence[Stratification]) -> tuple[Stratification, ...]:
    """Return one detector's stratifications with p-values corrected for their number (Holm)."""
    adjusted = iter(holm([p for item in divided if (p := item.test.p_value) is not None]).tolist())

    def tested(test: Heterogeneity) -> Heterogeneity:
        return test if test.p_value is None else replace(test, p_holm=next(adjusted))

    return tuple(replace(item, test=tested(item.test)) for item in divided)


def _empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell))


def _text(cell: Any) -> str:
    return f"{cell:g}" if isinstance(cell, float) else str(cell)
