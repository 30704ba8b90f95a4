"""Conformal selection with FDR.

Either one cut-off is chosen with the false discovery rate under control, or the hallucinations
below every cut-off are bounded at once. For these bounds: m0 hallucinated answers of a batch and n
hallucinated calibration answers are exchangeable, so each order in which their scores may
interleave is equally likely. V_k, the number of the m0 below the k-th smallest calibration score,
then follows one known distribution: a Polya urn (Blanchard, Gazin and Roquain, 2024). From it come
limits B_k with P(V_k <= B_k for all k) >= confidence, computed, not simulated. The unknown m0 is
bounded in the same event: an m0 for which more answers would have to lie above some threshold than
do lie there is impossible.

Benjamini and Hochberg's procedure at level q keeps the false discovery rate at q times the batch's
share of hallucinated answers. Dividing q by an estimate of that share releases more. Two estimates
keep the rate at q in finite samples, with ties and for any detector:

``storey_share``, from the batch. Take one hallucinated answer of the batch, and A, its score among
the n calibration scores. Given A and all other scores each place of it in A is equally likely; its
own p-value and all others can only grow with it, so the number released can only fall. Hence

    rate <= q / m * sum over hallucinated answers of E[1 / estimate, with the score lowest in A]

(Blanchard and Roquain, 2009; Marandon, Lei, Mary and Roquain, 2024). There ``p >= K / (n + 1)``
says that a score reaches the K-th smallest of A; with U the share of hallucinated answers below
that, E[1 / (1 + Binomial(m0 - 1, 1 - U))] <= E[1 / (m0 (1 - U))] = 1 / (m0 (1 - K / (n + 1))),
because 1 - U is Beta(n + 2 - K, K). So each term is at most m / m0, and the rate at most q. Ties
only add answers that reach it. Counting ``p > K / (n + 1)`` loses this proof by one rank.

``labelled_share``, from labels. Given all labels the level q / share is fixed, so the rate is at
most q times E[m0 / m / share]. Among the N labels and that of one answer of the batch M are
hallucinated; it is one of them with probability M / (N + 1), and then share is M / (N + 1): the
product is at most 1. This is Jin and Candes' (2023) selection: with the calibration part as all
that is labelled, p times share is their p-value, (1 + #{hallucinated calibration scores <= S}) /
(N + 1). A split by class leaves the calibration part no random share; all labels together have one.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, gammaln

from calibrail.conformal import argument_checks
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.bounds import controlled_ranks, largest_level, lower_bounds, stays_below
from calibrail.conformal.threshold import decimal
from calibrail.errors import InputError
from calibrail.serialization import Record

#: Ranks of the calibration scores at which the count is controlled; in between, the next one
#: serves.
_MOST: Final = 150
#: A batch larger than this is bounded in two steps, calibration and batch each with half the error.
_EXACT: Final = 20_000
#: Each rung of the ladder of possible m0 is this share of the one above.
_RUNG: Final = 0.96


@dataclass(frozen=True, slots=True)
class Selection(Record):
    """A batch with what may be released of it.

    Attributes
    ----------
    fdr : float
        The bound q of the expected share of hallucinated answers among the released ones.
    share : float
        Share of hallucinated answers that the selection reckons with. At 1, nothing being known of
        it, the expected share is at most q times their share in the batch.
    cutoff : float
        Released are the p-values up to it; 0 where none is.
    released : ndarray of bool, shape (m,)
        Which answers may be released.
    p_values : ndarray of float64, shape (m,)
        Conformal p-values of "this answer is hallucinated"; 1 where a score is undefined.
    """

    fdr: float
    share: float
    cutoff: float
    released: Bools
    p_values: Floats

    @property
    def n_released(self) -> int:
        """How many answers are released."""
        return int(np.count_nonzero(self.released))

    def to_dict(self) -> dict[str, Any]:
        """Return the result, JSON-able."""
        return {"n": len(self.released), "n_released": self.n_released} | Record.to_dict(self)


def conformal_selection(p_values: ArrayLike, fdr: float, share: float = 1.0) -> Selection:
    """Release answers of a batch with the false discovery rate under control.

    Benjamini and Hochberg's (1995) step-up procedure on conformal p-values, at level fdr / share.
    Such p-values share one calibration set and so depend on each other, but positively (PRDS), and
    the procedure stays valid (Bates, Candes, Lei, Romano and Sesia, 2023, Annals of Statistics
    51(1)): over calibration sets and batches, E[hallucinated among released / released] <= fdr *
    (hallucinated / all in the batch). An empty release counts as 0. With a share from
    ``storey_share`` or ``labelled_share`` it is at most ``fdr``.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        In [0, 1], e.g. from ``Calibration.p_value``; NaN where a score is undefined: such an answer
        is not released.
    fdr : float
        In (0, 1).
    share : float
        Estimated share of hallucinated answers in the batch, above 0.

    Returns
    -------
    Selection

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> conformal_selection([0.01, 0.04, 0.02, 0.5, 0.9], fdr=0.1).released.tolist()
    [True, True, True, False, False]
    >>> conformal_selection([0.2, 0.3], fdr=0.1).n_released
    0
    >>> conformal_selection([0.2, 0.3], fdr=0.1, share=0.25).n_released
    2
    """
    q, part = argument_checks.share(fdr, "fdr"), _share(share)
    p = argument_checks.p_values(p_values, zero=True)
    undefined, m = np.isnan(argument_checks.vector(p_values, "p_values")), len(p)
    ordered = np.sort(p[~undefined])
    # A quotient of counts equals its limit in decimal arithmetic more often than in binary.
    limits = q / part * np.arange(1, len(ordered) + 1) / max(1, m) * (1.0 + 1e-12)
    below = np.flatnonzero(ordered <= limits)
    cutoff = float(ordered[below[-1]]) if len(below) else 0.0
    released = (p <= cutoff) & ~undefined if len(below) else np.zeros(m, dtype=bool)
    return Selection(q, part, cutoff, released, p)


def minimum_n_for_selection(fdr: float, m: int, share: float = 1.0) -> int:
    """Return how many calibration examples are needed to release anything of a batch of m.

    The smallest p-value is 1 / (n + 1). All m answers having it would be released if it is at most
    ``fdr / share``, so n >= share / fdr - 1; a single answer among m needs n >= m share / fdr - 1.

    Parameters
    ----------
    fdr : float
        In (0, 1).
    m : int
        1 for the least n with which a whole batch could be released; the size of the batch for the
        n from which a single answer can be.
    share : float
        Estimated share of hallucinated answers in the batch, above 0.

    Examples
    --------
    >>> minimum_n_for_selection(0.1, 1), minimum_n_for_selection(0.1, 50)
    (9, 499)
    """
    answers = argument_checks.whole(m, "m", least=1) * decimal(_share(share))
    return max(1, -int(-(answers / decimal(argument_checks.share(fdr, "fdr")) - 1) // 1))


def _share(value: float) -> float:
    share = argument_checks.number(value, "share")
    if not 0.0 < share < math.inf:
        raise InputError(f"share must be finite and above 0; got {value!r}")
    return share


@dataclass(frozen=True, slots=True)
class Discoveries(Record):
    """For every cut-off of the p-value: what is released, and how much of it may be hallucinated.

    Attributes
    ----------
    cutoffs : ndarray of float64, shape (d,)
        p-values of the batch, ascending, each once: releasing up to it.
    released : ndarray of int64, shape (d,)
        Answers with a p-value up to the cut-off.
    most : ndarray of int64, shape (d,)
        With ``confidence``, at all cut-offs together: at most so many of them are hallucinated.
    proportion : ndarray of float64, shape (d,)
        ``most / released``: the bound of the false discovery proportion.
    most_hallucinated : int
        The bound for the whole batch, in the same event.
    confidence : float
        Of all bounds together.
    """

    cutoffs: Floats
    released: Ints
    most: Ints
    proportion: Floats
    most_hallucinated: int
    confidence: float

    def at(self, cutoff: float) -> tuple[int, int]:
        """Return released answers, and the most hallucinated among them, up to a cut-off."""
        (limit,) = argument_checks.defined([cutoff], "cutoff")
        place = int(np.searchsorted(self.cutoffs, limit, side="right")) - 1
        return (int(self.released[place]), int(self.most[place])) if place >= 0 else (0, 0)


def discoveries(p_values: ArrayLike, n: int, confidence: float = 0.95) -> Discoveries:
    """Bound the hallucinated answers below every cut-off of a batch, all at once.

    So a user may look at the whole table and then choose. The batch's hallucinated answers must be
    exchangeable with the calibration ones (beyond 20,000 answers: independent draws from one
    source); nothing is assumed about the faithful answers.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        Conformal p-values (1 + count) / (n + 1) of the batch; NaN where a score is undefined: such
        an answer is never released.
    n : int
        Calibration examples behind the p-values, at least 1.
    confidence : float
        In (0, 1).

    Returns
    -------
    Discoveries

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> p = [(1 + i) / 100 for i in range(100)] + [0.01] * 300
    >>> table = discoveries(p, 99)
    >>> released, most = table.at(0.05)
    >>> released, most < 20
    (305, True)
    """
    level = argument_checks.share(confidence, "confidence")
    size = argument_checks.whole(n, "n", least=1)
    p = argument_checks.p_values(p_values, zero=False)
    m = len(p)
    cutoffs, repeats = np.unique(p, return_counts=True)
    released = np.cumsum(repeats)
    # The answers with p <= k / (n + 1) are those below the k-th smallest calibration score.
    place = np.rint(cutoffs * (size + 1)).astype(np.int64)
    if (np.abs(cutoffs * (size + 1) - place) > 1e-6).any() or (place < 1).any():
        raise InputError(f"p_values must be multiples of 1 / (n + 1) with n = {size}")
    ranks = _ranks(size)
    # Above cut-off k / (n + 1) lie so many answers; at least m0 - B_k hallucinated ones must.
    up_to = np.searchsorted(place, ranks, side="right")
    above = m - np.append(0, released)[up_to]
    total, limits = _most_hallucinated(m, size, ranks, above, 1.0 - level)
    at = np.append(limits, total)[np.searchsorted(ranks, place)]
    most = np.minimum(released, np.minimum(at, total))
    return Discoveries(cutoffs, released, most, most / released, total, level)


def _most_hallucinated(m: int, n: int, ranks: Ints, above: Ints, error: float) -> tuple[int, Ints]:
    """Return the largest possible m0, and limits B_k that hold with it.

    Limits that hold for g hallucinated answers hold for fewer, too: leaving some out lowers every
    V_k. So a falling ladder of values g serves for every m0 down to the next rung, and the first
    rung that leaves some m0 possible ends the descent, since limits only fall from rung to rung. A
    rung that is impossible by the limits of a higher one is so by its own.
    """
    if m == 0:
        return 0, np.zeros(len(ranks), dtype=np.int64)
    exact = m <= _EXACT
    gamma = shared_level(m, n, error) if exact else 0.0
    limits = _limits(m, n, ranks, gamma) if exact else _two_step(m, n, ranks, error)
    checked = rung = m
    while rung > 0:
        below = min(rung - 1, math.floor(rung * _RUNG))
        most = min(rung, int(np.min(above + limits)))
        if most <= below:
            rung = below
            continue
        # Limits of a higher rung would do; those of this one are tighter, if they hold.
        if rung == checked:
            return most, limits
        checked = rung
        lower = _limits(rung, n, ranks, gamma) if exact else _two_step(rung, n, ranks, error)
        if not exact or (np.all(lower <= limits) and _crossed(lower, rung, n, ranks) <= error):
            limits = lower
    return 0, np.zeros(len(ranks), dtype=np.int64)


def _ranks(n: int) -> Ints:
    """Return the controlled ranks of the calibration scores, ascending."""
    every = controlled_ranks(n)
    if len(every) <= _MOST:
        return every
    # Small p-values decide what is released: half of the ranks go there, evenly in their logarithm.
    near = np.geomspace(1.0, n, _MOST // 2)
    even = np.linspace(1.0, n, _MOST // 2)
    return np.unique(np.rint(np.concatenate([near, even])).astype(np.int64))


def _limits(m0: int, n: int, ranks: Ints, gamma: float) -> Ints:
    """Return about the upper gamma quantiles of V_k, by the beta distribution of its spread."""
    size, mean = m0 * (n + 2.0) / (n + 1.0 + m0), ranks / (n + 1.0)
    upper = betainccinv(mean * size, (1.0 - mean) * size, gamma)
    return np.asarray(np.minimum(np.floor(m0 * upper + 0.5), m0), dtype=np.int64)


@lru_cache(maxsize=256)
def shared_level(m0: int, n: int, error: float) -> float:
    """Return the level of each rank's own bound such that all m0 p-values keep theirs at once."""
    ranks = _ranks(n)

    def crossed(gamma: float) -> float:
        return _crossed(_limits(m0, n, ranks, gamma), m0, n, ranks)

    return largest_level(crossed, error, start=error / 10.0)


def _crossed(limits: Ints, m0: int, n: int, ranks: Ints) -> float:
    """Return P(V_k > B_k for some controlled k).

    The numbers of hallucinated answers in the n + 1 gaps between calibration scores are uniform
    over all ways to sum to m0: those of independent geometric numbers, given their sum.
    """
    stay = (n + 1.0) / (n + 1.0 + m0)
    steps = np.diff(ranks, prepend=0)
    left = n + 1 - int(ranks[-1])
    growth = (_growth(int(step), stay, m0) for step in steps)
    joint = stays_below(
        limits.tolist(), growth, lambda counts: _negative_binomial(m0 - counts, left, stay)
    )
    total = float(_negative_binomial(np.array([m0]), n + 1, stay)[0])
    return 1.0 - min(1.0, joint / total)


def _growth(gaps: int, stay: float, most: int) -> tuple[int, Floats]:
    mean = gaps * (1.0 - stay) / stay
    reach = 12.0 * math.sqrt(mean / stay) + 40.0 / stay
    values = np.arange(max(0, int(mean - reach)), min(most, int(mean + reach)) + 1)
    return int(values[0]), _negative_binomial(values, gaps, stay)


def _negative_binomial(values: Ints, gaps: int, stay: float) -> Floats:
    """Return the probabilities of a sum of ``gaps`` geometric numbers, 0 for negative values."""
    x = np.maximum(values, 0).astype(np.float64)
    log = gammaln(x + gaps) - gammaln(x + 1.0) - gammaln(gaps)
    masses = np.exp(log + gaps * math.log(stay) + x * math.log1p(-stay))
    return np.where(values >= 0, masses, 0.0)


def _two_step(m0: int, n: int, ranks: Ints, error: float) -> Ints:
    """Return limits for a large batch: true shares below the ranks, then counts given the shares.

    The shares have a simultaneous band, the counts keep within DKW's margin of them; each may err
    with half of the error.
    """
    shares = 1.0 - lower_bounds(n + 1 - ranks, n, error / 2.0)
    margin = math.sqrt(m0 * math.log(2.0 / error) / 2.0)
    return np.minimum(np.floor(m0 * shares + margin), m0).astype(np.int64)


def storey_share(p_values: ArrayLike, n: int) -> float:
    """Estimate the share of hallucinated answers of a batch from its p-values.

    Storey's estimate (2002; Storey, Taylor and Siegmund, 2004) for conformal p-values, (1 + #{p >=
    lambda}) / (m (1 - lambda)), with lambda the first multiple of 1 / (n + 1) from one half on. It
    errs upwards: faithful answers that look hallucinated count, too, and it may exceed 1.

    Parameters
    ----------
    p_values : array-like of float, shape (m,)
        Conformal p-values (1 + count) / (n + 1); NaN where a score is undefined.
    n : int
        Calibration examples behind the p-values, at least 1.

    Returns
    -------
    float
        Above 0; 1 for an empty batch.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> storey_share([0.1] * 8 + [0.6, 1.0], 9)
    0.6
    """
    size = argument_checks.whole(n, "n", least=1)
    p = argument_checks.p_values(p_values, zero=True)
    if not len(p):
        return 1.0
    k = (size + 2) // 2
    # A p-value is a quotient of whole numbers: half a step below serves as well.
    high = int(np.count_nonzero(p * (size + 1) >= k - 0.5))
    return (1 + high) * (size + 1) / (len(p) * (size + 1 - k))


def labelled_share(n_hallucinated: int, n: int) -> float:
    """Estimate the share of hallucinated answers of a batch from labels of answers like its own.

    Parameters
    ----------
    n_hallucinated, n : int
        Hallucinated answers among n labelled ones. Labelled answers and batch must be exchangeable,
        their labels included: neither may have been chosen by class.

    Returns
    -------
    float
        (n_hallucinated + 1) / (n + 1).

    Examples
    --------
    >>> labelled_share(9, 99)
    0.1
    """
    part, total = argument_checks.counts(n_hallucinated, n, ("n_hallucinated", "n"))
    return (part + 1) / (total + 1)
