"""Correlation, separation, McNemar, overlap, inverted labels.

scipy has the coefficients (the tests hold ours against them), but no influence of the examples,
which intervals for answers in groups rest on, and no partial correlation.

statsmodels has McNemar's exact test; for answers that share groups it has none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import bdtr, gammaln, ndtr, ndtri

from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.intervals import Estimated, Floats, Ints, Measure, missing
from calibrail.options.fields import share
from calibrail.serialization import Record

#: Why two columns have no correlation.
CONSTANT: Final = "one_is_constant"


def spearman(x: Floats, y: Floats) -> Estimated | None:
    """Return Spearman's rank correlation (midranks) with each example's influence.

    The influence counts that an example also moves the ranks of all others. None where one of the
    two does not vary.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 30.0, 20.0, 40.0])).value
    0.8
    """
    if len(x) < 3:
        return None
    u, v = (_centred_ranks(column) / len(x) for column in (x, y))
    both, var_x, var_y = _covariance(u, v), _covariance(u, u), _covariance(v, v)
    if var_x.value <= 0.0 or var_y.value <= 0.0:
        return None
    root = math.sqrt(var_x.value * var_y.value)
    value = _clip(both.value / root)
    slopes = 1.0 / root, -value / (2.0 * var_x.value), -value / (2.0 * var_y.value)
    return intervals.chained(value, tuple(zip((both, var_x, var_y), slopes, strict=True)))


def partial(xy: Estimated | None, xz: Estimated | None, yz: Estimated | None) -> Estimated | None:
    """Return the correlation of x and y given z, from the three pairwise ones.

    r = (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2)(1 - r_yz^2)). None if z is x or y, or where one of
    the three does not vary.
    """
    if xy is None or xz is None or yz is None:
        return None
    left, right = 1.0 - xz.value**2, 1.0 - yz.value**2
    if min(left, right) < 1e-12:
        return None
    root = math.sqrt(left * right)
    value = _clip((xy.value - xz.value * yz.value) / root)
    xz_slope = -yz.value / root + value * xz.value / left
    yz_slope = -xz.value / root + value * yz.value / right
    return intervals.chained(value, ((xy, 1.0 / root), (xz, xz_slope), (yz, yz_slope)))


def rank_correlation(x: Floats, y: Floats, confidence: float = 0.95) -> Measure:
    """Return Spearman's rank correlation of answers that stand alone, with its interval.

    On Fisher's scale with variance (1 + r^2/2)/(n - 3): Bonett and Wright, "Sample size
    requirements for estimating Pearson, Kendall and Spearman correlations", 2000.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])).estimate
    0.8
    """
    method, n = "spearman, bonett-wright", len(x)
    if n < 3:
        return missing(method, "few_have_both", confidence)
    u, v = _centred_ranks(x), _centred_ranks(y)
    scale = math.sqrt(float(u @ u) * float(v @ v))
    if scale == 0.0:
        return missing(method, CONSTANT, confidence)
    value = _clip(float(u @ v) / scale)
    if n < 4 or abs(value) > 1.0 - 1e-12:
        return Measure(value, None, None, method, confidence)
    half = float(ndtri((1.0 + confidence) / 2.0)) * math.sqrt((1.0 + value**2 / 2.0) / (n - 3))
    lower, upper = (math.tanh(math.atanh(value) + side * half) for side in (-1.0, 1.0))
    return Measure(value, lower, upper, method, confidence)


def _clip(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _centred_ranks(column: Floats) -> Floats:
    from scipy.stats import rankdata  # takes long to import

    return np.asarray(rankdata(column) - (len(column) + 1) / 2.0)


def _covariance(u: Floats, v: Floats) -> Estimated:
    """Return the covariance of two columns of centred ranks, and what each example does to it."""
    n = len(u)
    value = float(u @ v) / n
    above = _above(u, v) + _above(v, u)
    return Estimated(value, (u * v + above - 3.0 * value) / n)


def _above(ranks: Floats, weights: Floats) -> Floats:
    """Return, per example, the mean weight of those ranked above it (ties count half)."""
    order = np.argsort(ranks, kind="stable")
    running = np.append(0.0, np.cumsum(weights[order]))
    low, upto = (running[np.searchsorted(ranks[order], ranks, end)] for end in ("left", "right"))
    return np.asarray((running[-1] - (low + upto) / 2.0) / len(ranks))


#: Up to this many discordant answers in groups the sign-flip test adds up every outcome.
_MOST_FLIPS: Final = 4000


@dataclass(frozen=True, slots=True)
class McNemar(Record):
    """Faithful answers that only one of two thresholds flags.

    Attributes
    ----------
    only_first, only_second : int
        False alarms of one and not the other.
    p_value, p_adjusted : float
        Two-sided, for these thresholds; the second is corrected for the family (Holm).
    method : str
        ``mcnemar-exact``, or ``mcnemar-groups-flipped`` where answers share groups.
    """

    only_first: int
    only_second: int
    p_value: float
    p_adjusted: float
    method: str


def mcnemar(first: intervals.Mask, second: intervals.Mask, groups: Ints) -> McNemar:
    """Test whether two thresholds flag faithful answers equally often.

    Under the null hypothesis, exchanging the two thresholds within a group changes nothing: each
    group's surplus d = (only first) - (only second) is as likely to be -d. The p-value is the
    share of all sign patterns whose sum is at least as far from zero, added up exactly (up to
    4,000 discordant answers in larger groups; beyond, their normal limit with continuity
    correction). With one answer a group this is McNemar's exact test.

    Parameters
    ----------
    first, second : ndarray of bool, shape (n,)
        Decisions about the same faithful answers.
    groups : ndarray of int64, shape (n,)
        What answers share.

    Examples
    --------
    >>> first = np.array([True] * 6 + [False])
    >>> second = np.array([False] * 6 + [True])
    >>> mcnemar(first, second, np.arange(7)).p_value, mcnemar(first, second, np.zeros(7)).p_value
    (0.125, 1.0)
    """
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    _, member = np.unique(groups, return_inverse=True)
    signs = first.astype(np.int64) - second
    surplus = np.bincount(member, weights=signs).astype(np.int64)
    if len(surplus) == len(signs):
        fewer = min(only_first, only_second)
        p = min(1.0, 2.0 * float(bdtr(fewer, only_first + only_second, 0.5)))
        return McNemar(only_first, only_second, p, p, "mcnemar-exact")
    p = min(1.0, _flipped(surplus[surplus != 0]))
    return McNemar(only_first, only_second, p, p, "mcnemar-groups-flipped")


def _flipped(surplus: Ints) -> float:
    """Return the share of sign patterns whose sum is at least as far from zero as the one seen."""
    observed = abs(int(surplus.sum()))
    sizes, repeats = np.unique(np.abs(surplus), return_counts=True)
    total = int(sizes @ repeats)
    if observed == 0:
        return 1.0
    if total > _MOST_FLIPS:
        # Sums lie two greatest common divisors apart; half of that is the continuity correction.
        nearer = observed - float(np.gcd.reduce(sizes))
        return 2.0 * float(ndtr(-nearer / math.sqrt(float(sizes**2 @ repeats))))
    mass = np.ones(1)
    for size, m in zip(sizes.tolist(), repeats.tolist(), strict=True):
        k = np.arange(m + 1)
        log_mass = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1) - m * math.log(2.0)
        spread = np.zeros(size * m + 1)
        spread[::size] = np.exp(log_mass)
        mass = np.convolve(mass, spread)
    sums = 2 * np.arange(total + 1) - total
    return float(mass[np.abs(sums) >= observed].sum())


#: At most this many bins, so that one outlier cannot make the grid outgrow memory.
MAX_BINS = 2048
#: A score with no more distinct values than this is compared value by value, without a grid.
MAX_ATOMS = 32

_METHOD: Final = "upper bound, DKW"


def overlap(hallucinated: Floats, faithful: Floats, *, confidence: float = 0.95) -> Measure:
    """Return the overlapping coefficient, the shared area of the two densities, 0 to 1.

    Both samples are counted on one Freedman-Diaconis grid of the pooled scores (Scott's width
    where the middle half of them is tied; at most ``MAX_BINS`` bins) and the smaller of the two
    shares is summed over the bins. A score of at most ``MAX_ATOMS`` distinct values needs no
    grid: each value is a bin. Undefined scores, as infinite values, have a bin of their own.

    The interval is one-sided. No event differs more in probability between the classes than the
    area that they do not share, so the overlap is at most 1 - sup|F_h - F_f|; the largest distance
    of the two empirical distribution functions is off by more than the bands of both (Dvoretzky,
    Kiefer and Wolfowitz, with Massart's constant, 1990; each at half the error) with probability
    at most 1 - confidence, whatever the distributions. Nothing bounds the overlap from below: two
    samples may come from distributions that share no value at all. The estimate itself lies too
    low where the classes are alike, since on a grid two samples of one distribution differ.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (m,) and (n,)
        Scores per class without NaN (see ``ranked_values``).
    confidence : float
        Level of the upper bound.

    Returns
    -------
    Measure
        With ``lower`` None, and the reason.

    Examples
    --------
    >>> overlap(np.array([1.0, 2.0]), np.array([2.0, 3.0])).estimate
    0.5
    """
    m, n = len(hallucinated), len(faithful)
    if m == 0 or n == 0:
        return missing(_METHOD, "one_class", confidence)
    # In order, each place is found next to the last one: many scores take a tenth of the time.
    ordered = np.sort(hallucinated), np.sort(faithful)
    pooled = np.sort(np.concatenate(ordered), kind="stable")  # which merges what is in order
    atoms = pooled[np.append(True, pooled[1:] != pooled[:-1])]
    counts_h, counts_f = _common_counts(hallucinated, faithful, atoms)
    estimate = _clip_overlap(float(np.minimum(counts_h / m, counts_f / n).sum()))
    one, other = (np.searchsorted(part, pooled, side="right") / len(part) for part in ordered)
    # Each band errs with half of what is allowed, on either side of its distribution function.
    log_error = math.log(4.0 / (1.0 - share(confidence, "confidence")))
    bands = math.sqrt(log_error / (2.0 * m)) + math.sqrt(log_error / (2.0 * n))
    upper = _clip_overlap(1.0 - float(np.abs(one - other).max()) + bands)
    return Measure(
        estimate, None, max(estimate, upper), _METHOD, confidence, "densities_unbounded_below"
    )


def _common_counts(hallucinated: Floats, faithful: Floats, atoms: Floats) -> tuple[Ints, Ints]:
    """Return the two classes' counts per bin of a common grid; infinite values have two bins."""
    pooled = np.concatenate([hallucinated, faithful])
    if len(atoms) <= MAX_ATOMS:
        places, bins = np.searchsorted(atoms, pooled), len(atoms)
    else:
        finite = np.isfinite(pooled)
        inside, n_inside = _grid(pooled[finite])
        places, bins = np.where(pooled > 0.0, n_inside, n_inside + 1), n_inside + 2
        places[finite] = inside
    one, other = np.split(places, [len(hallucinated)])
    return np.bincount(one, minlength=bins), np.bincount(other, minlength=bins)


def _grid(values: Floats) -> tuple[Ints, int]:
    """Return each value's bin on the Freedman-Diaconis grid of all, and the number of bins."""
    scaled = values / float(np.abs(values).max())  # so that no difference can overflow
    lowest, span = float(scaled.min()), float(np.ptp(scaled))
    quarter, three_quarters = np.quantile(scaled, [0.25, 0.75])
    width = 2.0 * float(three_quarters - quarter) / len(scaled) ** (1 / 3)
    if width <= 0.0:
        width = 3.49 * float(np.std(scaled)) / len(scaled) ** (1 / 3)
    bins = max(1, math.ceil(min(span / width, MAX_BINS))) if width > 0.0 else 1
    places = np.floor((scaled - lowest) / (span or 1.0) * bins).astype(np.int64)
    return np.minimum(places, bins - 1), bins


def _clip_overlap(value: float) -> float:
    return min(1.0, max(0.0, value))


#: Scores of what an answer has that its contexts lack: higher where more is made up.
OVERLAPS: Final = ("novelty", "rouge_l")
#: Both must lie below one half with this one-sided confidence, and below ``FAR``.
CONFIDENCE: Final = 0.999
FAR: Final = 0.45


def look_inverted(
    scores: Mapping[str, Floats], labels: intervals.Codes
) -> dict[str, Measure] | None:
    """Return the AUROCs of the overlap scores where both say that labels are inverted, else None.

    The criterion: for `novelty` and for `rouge_l` the AUROC is below 0.45, and its one-sided
    99.9 % confidence bound (DeLong) below 0.5, so that answers called faithful share less with
    their contexts than those called hallucinated. Labels that are right can look like this where
    hallucinated answers copy and faithful ones paraphrase; that is a suspicion, and no proof.

    Parameters
    ----------
    scores : mapping of str to ndarray of float64, shape (n,)
        The scores by name, NaN where undefined; without both of `OVERLAPS` nothing is said.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.

    Examples
    --------
    >>> values = np.linspace(0.0, 1.0, 80)
    >>> sorted(look_inverted({"novelty": values, "rouge_l": values}, values < 0.5))
    ['novelty', 'rouge_l']
    >>> look_inverted({"novelty": values, "rouge_l": values}, values > 0.5) is None
    True
    """
    areas = {}
    for name in OVERLAPS:
        values = scores.get(name)
        if values is None:
            return None
        there = ~np.isnan(values)
        classes = (values[there & (labels == label)] for label in (1, 0))
        area = auroc(*classes, confidence=2.0 * CONFIDENCE - 1.0)
        if area.estimate is None or area.estimate >= FAR or not area.lies_below(0.5):
            return None
        areas[name] = area
    return areas


#: Ways to deal out replies that a test compares with the one that was seen.
_DEALT: Final = 999
#: Numbers held at once.
_HELD: Final = 1_000_000


def changed_replies(replies: Floats, n_before: int) -> float:
    """Return the p-value of "replies of before and of now come from one and the same judge".

    Then all replies to an answer are exchangeable, however much they flicker, so that those of
    before and of now differ as they do when all are dealt out anew. They may differ in their mean
    over all answers (a judge has become stricter), or answer by answer (energy distance); what is
    seen is as rare as the rarer of the two. The p-value is exact, whatever the number of answers
    and replies: it is at most u with probability at most u (Phipson and Smyth, 2010).

    Parameters
    ----------
    replies : ndarray of float64, shape (n, k)
        None undefined. With one of before and one of now the answers tell of the mean alone.
    n_before : int
        The first so many are of before.

    Examples
    --------
    >>> changed_replies(np.tile([0.0, 1.0, 0.0, 1.0], (40, 1)), 2)
    1.0
    >>> changed_replies(np.tile([0.0, 0.0, 1.0, 1.0], (40, 1)), 2)
    0.001
    """
    n, k = replies.shape
    distances = np.abs(replies[:, :, None] - replies[:, None, :])
    rng, statistics, left = np.random.default_rng(0), list[Floats](), _DEALT
    order = np.tile(np.arange(k), (1, n, 1))
    while True:
        weights = np.where(order < n_before, 1.0 / n_before, -1.0 / (k - n_before))
        moved = np.abs((weights * replies).sum(axis=(1, 2)))
        apart = -(weights[:, :, None] @ distances @ weights[..., None]).sum(axis=(1, 2, 3))
        statistics.append(np.stack([moved, apart], axis=1))
        if (size := min(left, max(1, _HELD // distances.size))) == 0:
            break
        order = rng.random((size, n, k)).argsort(axis=2)
        left -= size
    # Sums in another order may differ in their last digits.
    every = np.round(np.concatenate(statistics), 9)
    rarity = [len(every) - np.searchsorted(np.sort(column), column) for column in every.T]
    rarest = np.minimum(*rarity)
    return float(np.mean(rarest <= rarest[0]))
