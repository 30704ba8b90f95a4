"""In which groups is the promise kept, broken, or open?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc

from calibrail.conformal import validation
from calibrail.conformal.certificate import Certificate, certify_counts
from calibrail.errors import InputError


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """What a threshold did on one group's test examples.

    Attributes
    ----------
    caught, n_hallucinated : int
        Flagged among hallucinated examples.
    false_alarms, n_faithful : int
        Flagged among faithful examples.
    """

    caught: int
    n_hallucinated: int
    false_alarms: int
    n_faithful: int


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One group's certificate, corrected for the number of groups.

    Attributes
    ----------
    certificate : Certificate
        With bounds at the corrected level: all groups' verdicts hold together.
    p_undercovered : float
        Holm-adjusted p-value of "coverage reaches the requirement": small = broken in this group.
    """

    certificate: Certificate
    p_undercovered: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {**self.certificate.to_dict(), "p_undercovered": self.p_undercovered}


def certify_groups(
    counts: Mapping[str, GroupCounts],
    min_coverage: float,
    max_fpr: float | None,
    confidence: float,
) -> dict[str, GroupVerdict]:
    """Decide about every group so that no verdict at all is wrong but for 1 - confidence.

    Each group is decided by ``certify_counts`` at the level 1 - (1 - confidence) / G (Bonferroni),
    so the bounds of all G groups hold together. The adjusted p-values use Holm's step-down
    procedure, which finds at least as much.

    Parameters
    ----------
    counts : mapping of str to GroupCounts
        At least one group; a group without examples of a class stays inconclusive.
    min_coverage, max_fpr
        As for ``certify_counts``.
    confidence : float
        Of all verdicts together, in (0, 1).

    Returns
    -------
    dict of str to GroupVerdict
        In the order given.

    Examples
    --------
    >>> verdicts = certify_groups(
    ...     {"easy": GroupCounts(300, 300, 5, 300), "hard": GroupCounts(200, 300, 5, 300)},
    ...     min_coverage=0.9, max_fpr=0.1, confidence=0.95,
    ... )
    >>> [(name, item.certificate.verdict) for name, item in verdicts.items()]
    [('easy', 'certified'), ('hard', 'rejected')]
    >>> verdicts["hard"].p_undercovered < 0.001 < verdicts["easy"].p_undercovered
    True
    """
    if not counts:
        raise InputError("counts must hold at least one group")
    level = 1.0 - (1.0 - validation.share(confidence, "confidence")) / len(counts)
    required = validation.rate(min_coverage, "min_coverage")
    certificates = {
        name: certify_counts(
            item.caught,
            item.n_hallucinated,
            item.false_alarms,
            item.n_faithful,
            required,
            max_fpr,
            level,
        )
        for name, item in counts.items()
    }
    p = [_tail(item.caught, item.n_hallucinated, required) for item in counts.values()]
    adjusted = holm(p)
    return {
        name: GroupVerdict(certificate, float(value))
        for (name, certificate), value in zip(certificates.items(), adjusted, strict=True)
    }


def _tail(count: int, n: int, p: float) -> float:
    """Return P(Binomial(n, p) <= count)."""
    return 1.0 if count == n else float(betaincc(count + 1, n - count, p))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p-values adjusted for their number: Holm's (1979) step-down procedure.

    Rejecting those at most delta makes no error at all but with probability delta, however the
    tests depend on each other. The same as ``statsmodels.stats.multitest.multipletests``, its
    oracle in the tests. Importing that takes 1.1 seconds of processor time, this whole package 0.1.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        In [0, 1], no NaN.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = validation.defined(p_values, "p_values")
    if len(p) and not 0.0 <= p.min() <= p.max() <= 1.0:
        raise InputError("p_values must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    result = np.empty(len(p))
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result[order] = np.minimum(stepped, 1.0)
    return result
