"""Is a fixed threshold proven good enough in every group, for all groups together?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc

from calibrail.conformal import validation
from calibrail.conformal.bound import Counts
from calibrail.conformal.certificate import Certificate, certify_counts, checked_limits
from calibrail.conformal.validation import Floats
from calibrail.errors import InputError
from calibrail.settings.requirement import Requirement


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
    counts: Mapping[str, Counts], requirement: Requirement
) -> dict[str, GroupVerdict]:
    """Decide about every group so that no verdict at all is wrong but for 1 - confidence.

    Each group is decided by ``certify_counts`` at the level 1 - (1 - confidence) / G (Bonferroni),
    so the bounds of all G groups hold together. The adjusted p-values use Holm's step-down
    procedure, which finds at least as much.

    Parameters
    ----------
    counts : mapping of str to Counts
        At least one group; a group without examples of a class stays inconclusive.
    requirement : Requirement
        As for ``certify_counts``; ``confidence`` is that of all verdicts together.

    Returns
    -------
    dict of str to GroupVerdict
        In the order given.

    Examples
    --------
    >>> verdicts = certify_groups(
    ...     {"easy": Counts(300, 300, 5, 300), "hard": Counts(200, 300, 5, 300)},
    ...     Requirement(min_coverage=0.9, max_fpr=0.1),
    ... )
    >>> [(name, item.certificate.verdict) for name, item in verdicts.items()]
    [('easy', 'certified'), ('hard', 'rejected')]
    >>> verdicts["hard"].p_undercovered < 0.001 < verdicts["easy"].p_undercovered
    True
    """
    if not counts:
        raise InputError("counts must hold at least one group")
    level = checked_limits(requirement)[2]
    each = replace(requirement, confidence=1.0 - (1.0 - level) / len(counts))
    p = undercovered(tuple(counts.values()), requirement)
    return {
        name: GroupVerdict(certify_counts(item, each), adjusted)
        for (name, item), adjusted in zip(counts.items(), p, strict=True)
    }


def undercovered(counts: Sequence[Counts], requirement: Requirement) -> list[float]:
    """Return each group's p-value of "coverage reaches what is required", adjusted by `holm`."""
    required = checked_limits(requirement)[0]
    # P(Binomial(n, required) <= caught)
    p = [
        1.0 if item.caught == n else float(betaincc(item.caught + 1, n - item.caught, required))
        for item in counts
        for n in [item.n_hallucinated]
    ]
    adjusted: list[float] = holm(p).tolist()
    return adjusted


def holm(p_values: ArrayLike) -> Floats:
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
