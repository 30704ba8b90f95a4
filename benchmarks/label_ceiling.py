"""The ceiling: labels for only a share of the answers that cannot become the threshold.

The threshold is the k-th smallest score of the hallucinated answers drawn, so what lies above the
k-th smallest found so far, the ceiling, can only be counted. Every answer drawn has a lot, uniform
in [0, 1) whatever its score; it is labelled where its score lies below the ceiling, or its lot
below a share fixed beforehand. The hallucinated answers with a lot below the share are all known.
Drawing ends with the n-th of these, and by then T = n + NegativeBinomial(n, share) hallucinated
answers were drawn, known or not. T is independent of their scores, and the ceiling only falls, so
every one of them that may be the k-th smallest is known: the threshold is the one that labels for
all answers drawn would give. Its rank keeps the promise on average over T:

- ``marginal``: k E[1 / (T + 1)] <= alpha;
- ``pac``: E[BinomCDF(k - 1; T, alpha)] <= delta.

The labels tell what the threshold misses. What it flags of the faithful answers is told by those
alone whose lot lies below the share.

`label_calibrate.py` measures what it saves: too little for a command.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from calibrail.conformal import argument_checks, rank
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.errors import InputError
from calibrail.options import Guarantee
from calibrail.options.fields import one_of

#: Probability of more answers than are summed over, which count as if they were no more.
_REST: Final = 1e-13
#: A sum of probabilities may be rounded by this much, relatively, and is taken as larger.
_ROUNDING: Final = 1e-9


def ceiling_rank(
    n: int,
    share: float,
    alpha: float,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
) -> int:
    """Return the rank of the threshold among all hallucinated answers drawn, 0 where none does.

    At most n, so that as many are known.

    Parameters
    ----------
    n : int
        Hallucinated answers whose lot lies below the share, fixed beforehand: drawing ends with the
        last of them.
    share : float
        In (0, 1]; with 1 all answers are labelled, and this is ``rank``.
    alpha, guarantee, delta
        The promise, as for ``rank``; ``marginal`` or ``pac``.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    Fifteen whose lot lies below 0.3 stand for about fifty:

    >>> ceiling_rank(15, 0.3, 0.05, "pac"), rank(50, 0.05, "pac")
    (1, 1)
    """
    n, part = argument_checks.whole(n, "n"), _share(share)
    one_of(guarantee, ("marginal", "pac"), "guarantee")
    known = rank(n, alpha, guarantee, delta)
    if part == 1.0 or n == 0:
        return known
    total, chance = _drawn(n, part)
    from scipy.stats import binom

    def keeps(k: int) -> bool:
        if guarantee == "marginal":
            return k * float(np.sum(chance / (total + 1.0))) <= alpha * (1.0 - _ROUNDING)
        error = float(np.sum(chance * binom.cdf(k - 1, total, alpha)))
        return error <= delta * (1.0 - _ROUNDING)

    # At least the n known ones were drawn, so their own rank always keeps the promise.
    low, high = known, known + 1
    while high <= n and keeps(high):
        low, high = high, 2 * high
    high = min(high, n + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def ceiling(scores: ArrayLike, k: int) -> float:
    """Return the k-th smallest score of the hallucinated answers found so far.

    Infinite while fewer are found: every answer drawn is labelled then. After the last one it is
    the threshold.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Of all hallucinated answers labelled so far, higher = more likely hallucinated, no NaN.
    k : int
        From ``ceiling_rank``, at least 1.
    """
    found, position = (
        argument_checks.defined(scores, "scores"),
        argument_checks.whole(k, "k", least=1),
    )
    if len(found) < position:
        return float("inf")
    return float(np.partition(found, position - 1)[position - 1])


def to_label(scores: ArrayLike, lots: ArrayLike, share: float, highest: float) -> Bools:
    """Return which answers drawn next are labelled, until another hallucinated one is found.

    Parameters
    ----------
    scores, lots : array-like of float, shape (n,)
        Their scores, and their lots in [0, 1), which depend on nothing but chance.
    share : float
        In (0, 1].
    highest : float
        The present ``ceiling``.

    Examples
    --------
    >>> to_label([0.2, 0.8, 0.9], [0.7, 0.4, 0.1], share=0.3, highest=0.5).tolist()
    [True, False, True]
    """
    values, drawn = argument_checks.defined(scores, "scores"), argument_checks.finite(lots, "lots")
    argument_checks.paired(drawn, len(values), "lots", "answer")
    if not np.all((drawn >= 0.0) & (drawn < 1.0)):
        raise InputError("lots must lie in [0, 1) for every answer")
    if np.isnan(level := argument_checks.number(highest, "highest")):
        raise InputError("highest must be a number; got NaN")
    return np.asarray((values < level) | (drawn < _share(share)))


def _share(share: float) -> float:
    part = argument_checks.number(share, "share")
    if not 0.0 < part <= 1.0:
        raise InputError(f"share must lie in (0, 1]; got {share!r}")
    return part


def _drawn(n: int, share: float) -> tuple[Ints, Floats]:
    """Return how many hallucinated answers may have been drawn, and with which probability.

    The promise is harder to keep with fewer of them, so the rest counts as the most summed over.
    """
    # It takes half a second to import, which no command that reads a guardrail should wait for.
    from scipy.stats import nbinom

    more = int(nbinom.isf(_REST, n, share)) + 1
    unknown = np.arange(more + 1)
    chance = nbinom.pmf(unknown, n, share)
    chance[-1] += nbinom.sf(more, n, share)
    return n + unknown, chance
