"""Correlation, separation, McNemar, overlap, inverted labels, two systems on the same questions.

scipy has the coefficients (the tests hold ours against them), but no influence of the examples,
which intervals for answers in groups rest on, and no partial correlation.

statsmodels has McNemar's exact test; for answers that share groups it has none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammaln, ndtr, ndtri, xlog1py, xlogy

from calibrail.conformal import bounds
from calibrail.conformal.threshold import turning_point
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
    estimate = min(1.0, float(np.minimum(counts_h / m, counts_f / n).sum()))
    one, other = (np.searchsorted(part, pooled, side="right") / len(part) for part in ordered)
    # Each band errs with half of what is allowed, on either side of its distribution function.
    log_error = math.log(4.0 / (1.0 - share(confidence, "confidence")))
    bands = math.sqrt(log_error / (2.0 * m)) + math.sqrt(log_error / (2.0 * n))
    upper = min(1.0, 1.0 - float(np.abs(one - other).max()) + bands)
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


class PairedUnits(NamedTuple):
    """Differences of two systems on the same questions, in units that are independent.

    The mean of ``human - w * judge`` over the mean of ``rows`` is the difference D of both rates of
    hallucination, whatever the judge says and whatever w is: ``judge`` has a mean of 0.

    Attributes
    ----------
    human : ndarray of float64, shape (units,)
        Sums of what people say, H_A - H_B, over the chance of a label where that is known.
    judge : ndarray of float64, shape (units,)
        The same sums of what the judge says, less what it says on all questions.
    rows : ndarray of float64, shape (units,)
        Questions that count.
    most : ndarray of float64, shape (3,)
        The largest values that the three can have.
    spread : float
        The mean square of ``human`` where every difference is 1 or -1.
    """

    human: Floats
    judge: Floats
    rows: Floats
    most: Floats
    spread: float

    @property
    def estimate(self) -> float:
        """D, with the weight of the judge that all units call for."""
        weight = self.human @ self.judge / (self.judge @ self.judge + _DOUBT * self.spread)
        left = self.human - np.clip(weight, -1.0, 1.0) * self.judge
        return float(left.sum() / self.rows.sum())


def paired_units(
    human: Floats, judge: Floats, group: NDArray[np.int64], chance: Floats | None = None
) -> PairedUnits:
    """Return the units of questions that came by lot.

    Where labels are a random sample, a unit is a group with labels and as many groups without as
    there are for each: what the judge says there stands for its mean. Where labels were drawn with
    known chances q, every group is one, and a label counts 1 / q.

    Parameters
    ----------
    human : ndarray of float64, shape (n,)
        H_A - H_B, -1 to 1; NaN where people did not label both answers.
    judge : ndarray of float64, shape (n,)
        J_A - J_B, -1 to 1; 0 where the judge says nothing.
    group : ndarray of int64, shape (n,)
        0 to K - 1, numbered in an order that has nothing to do with what they hold.
    chance : ndarray of float64, shape (n,), optional
        Of a label, in (0, 1]; NaN where it is unknown and there is none.
    """
    known, unit, ones = ~np.isnan(human), group, np.ones(len(human))
    if chance is None:
        here = np.bincount(group, known) > 0
        n_here, order = int(here.sum()), np.cumsum(~here) - 1
        dealt = (len(here) - n_here) // n_here * n_here
        unit = np.where(here, np.cumsum(here) - 1, np.where(order < dealt, order % n_here, -1))
        unit = unit[group]
        beside = np.where(here, 1.0, (len(here) - n_here) / max(1, dealt))[group]
        counts, rows = ones * known, ones * known
        # With too few groups without a label for one each the judge is left out.
        left_out = dealt == 0 < len(here) - n_here
        on_judge = np.where(known, 1.0, -known.sum() / max(1, (~known).sum()) * beside)
        on_judge *= not left_out
        most = [counts, np.abs(on_judge), rows]
    else:
        counts, rows = np.where(known, 1.0 / np.where(known, chance, 1.0), 0.0), ones
        on_judge, largest = counts - 1.0, ones / np.nanmin(chance)
        most = [largest, np.maximum(1.0, largest - 1.0), rows]

    def total(values: Floats) -> Floats:
        kept = unit >= 0
        return np.asarray(np.bincount(unit[kept], values[kept]), np.float64)

    sums = (total(counts * np.nan_to_num(human)), total(on_judge * judge), total(rows))
    largest = np.array([total(values).max() for values in most])
    if chance is None:
        # Whichever group the lot had drawn.
        largest = np.maximum(largest, np.bincount(group).max())
    return PairedUnits(*sums, largest, float(total(counts**2).mean()))


#: Limits that bets are inverted at: closer to each other near 0, where most differences lie.
_LATTICE: Final = [
    k / m for m, most in ((4000, 200), (1000, 200), (250, 250)) for k in range(-most, most + 1)
]


#: What a bet aims at beyond what it needs, and the largest one as a share of what loses all.
_AIM, _MOST_BET = 0.8, 0.93


#: How much of what was seen before the first unit the spread, and the judge's weight of 0, are.
_SEEN, _DOUBT = 2, 10.0


def difference_by_bets(units: PairedUnits, confidence: float, *limits: float) -> bounds.Interval:
    """Return the interval of D that bets on the units do not refute; ends are limits or so.

    Whether D is at most m is bet against with 1 + b (human - w judge - m rows), unit by unit, b and
    w known from the units before: the wealth is a supermartingale while it is true, and ever
    reaches 1 / tail with probability at most the tail (Ville, 1939; Waudby-Smith and Ramdas, 2024).
    The number of units is known, so b hedges the option that pays 1 / tail in the end, as of a
    Gaussian walk with the spread seen so far: Voracek and Orabona (2025, "STaR-Bets") aim at the
    same. In simulation that has nearly the power of the test for a known variance, and is exact.
    Limits on a lattice are tried, so that ends are rounded outwards.

    Parameters
    ----------
    units : PairedUnits
        In an order that has nothing to do with what they hold.
    confidence : float
        Two-sided; each end errs with at most half of the rest.
    *limits : float
        Further limits to try, of which a verdict depends.

    Examples
    --------
    >>> human = np.array([0.0, -1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0] * 40)
    >>> units = paired_units(human, np.zeros(320), np.arange(320))
    >>> [round(end, 3) for end in difference_by_bets(units, 0.95)]
    [-0.194, -0.051]
    """
    tried = np.unique([*_LATTICE, *limits])
    tail = (1.0 - confidence) / 2.0
    low = _first_open(units, tried, tail)
    turned = units._replace(human=-units.human, judge=-units.judge)
    high = -_first_open(turned, -tried[::-1], tail)
    # Bets that were won early may refute what later units show.
    return bounds.Interval(min(low, high), max(low, high))


def _first_open(units: PairedUnits, tried: Floats, tail: float) -> float:
    """Return the highest limit below which D is shown not to lie, of those tried, ascending."""
    # Units of a quarter of the largest spread stand for those before the first.
    wealth, spread = np.ones(len(tried)), np.full(len(tried), _SEEN * units.spread / 4.0)
    both, square = 0.0, _DOUBT * units.spread
    steps = zip(units.human.tolist(), units.judge.tolist(), units.rows.tolist(), strict=True)
    worst = units.most[0] + np.maximum(tried, 0.0) * units.most[2]
    left = len(units.human)
    for seen, (human, judge, rows) in enumerate(steps, start=_SEEN):
        weight = min(1.0, max(-1.0, both / square))
        gain = human - weight * judge - tried * rows
        chance = np.clip(_AIM * tail * wealth, 1e-12, _AIM)
        bet = np.exp(-(ndtri(chance) ** 2) / 2.0) / chance
        bet /= np.sqrt(2.0 * math.pi * left * spread / seen)
        bet = np.minimum(bet, _MOST_BET / (worst + abs(weight) * units.most[1]))
        wealth = np.where(wealth * tail < 1.0, wealth * (1.0 + bet * gain), wealth)
        spread += gain**2
        both, square, left = both + human * judge, square + judge**2, left - 1
    open_ = int(np.argmin(np.append(wealth * tail >= 1.0, False)))
    return float(tried[open_ - 1]) if open_ else -1.0


#: Cells that the share of one kind of difference is searched in, and the error that its range has.
CELLS, BEYOND = 256, 1e-3


def binomial_chances(counts: NDArray[np.int64], n: int, shares: Floats) -> Floats:
    """Return the binomial probabilities of counts, at each share."""
    ways = gammaln(n + 1.0) - gammaln(counts + 1.0) - gammaln(n - counts + 1.0)
    logs = ways + xlogy(counts, shares[..., None]) + xlog1py(n - counts, -shares[..., None])
    return cast(Floats, np.exp(logs))


def exact_difference(
    only_first: int, only_second: int, n: int, confidence: float
) -> bounds.Interval:
    """Return the exact interval of D from n questions that were labelled alone.

    The upper end is the largest D at which outcomes that speak no more for a large D than what was
    seen have a probability above the tail, at worst over all shares of questions on which the
    systems differ (Buehler, 1957; Lloyd, 2008). Outcomes are ordered by the upper limit of Bonett
    and Price (2012). That probability falls in the share p of A alone and rises in that of B alone:
    over a cell of the latter no D has a larger one than its ends give. The cells cover the exact
    interval of that share, whose error is taken from the tail (Berger and Boos, 1994).

    Parameters
    ----------
    only_first, only_second : int
        Questions on which A alone, and B alone, hallucinated.
    n : int
        Questions with a label on both answers, independent.
    confidence : float
        Two-sided.

    Examples
    --------
    >>> [round(end, 3) for end in exact_difference(2, 12, 100, 0.95)]
    [-0.181, -0.022]
    """
    tail = (1.0 - confidence) / 2.0
    lower = -_difference_at_most(only_second, only_first, n, tail)
    return bounds.Interval(lower, _difference_at_most(only_first, only_second, n, tail))


def _difference_at_most(first: int, second: int, n: int, tail: float) -> float:
    size, curve = n + 2.0, float(ndtri(tail)) ** 2 / (n + 2.0)
    gap, share = (first - second) / size, (first + second + 2.0) / size
    limit = gap + math.sqrt(curve * (share - gap**2))
    if limit >= 1.0:
        return 1.0
    low, high = bounds.clopper_pearson(second, n, 1.0 - BEYOND * tail)
    edges = np.linspace(low, high, CELLS + 1)
    reach = math.sqrt(n * high) * 7.0 + 20.0
    few = np.arange(max(0, int(n * low - reach)), min(n, int(n * high + reach)) + 1)
    # The most of A alone, beside so many of B alone, up to that limit: a quadratic equation.
    b, beside = 2.0 * limit + curve, (few + 1.0) / size
    inner = b**2 - 4.0 * (1.0 + curve) * (limit**2 - 2.0 * beside * curve)
    root = (b - np.sqrt(np.maximum(inner, 0.0))) / (2.0 * (1.0 + curve))
    most = np.where(inner < 0.0, -1.0, np.floor((root + beside) * size - 1.0 + 1e-9))
    most = np.maximum.accumulate(np.clip(most, -1.0, n - few))
    within = np.maximum(most, 0.0)
    shares = binomial_chances(few, n, edges[1:])

    def likely(difference: float) -> bool:
        of_first = np.clip(edges[:-1] + difference, 0.0, 1.0)
        inside = (edges[1:] + difference >= 0.0) & (2.0 * edges[:-1] + difference <= 1.0)
        given = np.minimum(1.0, of_first / np.maximum(1.0 - edges[1:], 1e-300))[:, None]
        reached = np.where(most >= 0.0, bdtr(within, np.maximum(1, n - few), given), 0.0)
        reached = np.where(most >= n - few, 1.0, reached)
        chance = np.where(inside, (shares * reached).sum(axis=1), 0.0)
        return bool(chance.max() > (1.0 - BEYOND) * tail)

    return turning_point(likely, 18, gap)[1]
