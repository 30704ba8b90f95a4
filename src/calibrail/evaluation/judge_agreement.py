"""Agreement of judge and human labels, and rates corrected for errors of the judge.

Melding (Fay, Proschan and Brittain, "Combining one-sample confidence procedures for inference in
the two-sample case", 2015): each independent share is drawn from the two beta distributions whose
quantiles are Clopper and Pearson's bounds. Where the rate rises with a share, its lower end takes
the share's lower draws, where it falls, the upper ones. The interval ends at quantiles of what the
draws give. It has a width at 0 and 1, and needs no least number of labels.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import bdtr, expit, gammaln, ndtri, xlogy
from scipy.stats import binomtest, f, fisher_exact

from calibrail.conformal import bounds
from calibrail.data import labels
from calibrail.evaluation.confounds import Division, by_column
from calibrail.evaluation.stats.intervals import Floats, Mask, Measure, missing
from calibrail.evaluation.stats.tests import BEYOND, CELLS, binomial_chances
from calibrail.options.fields import share
from calibrail.serialization import Record

#: Index of "no label" in ``LabelCounts.cells``; 0 is faithful and 1 hallucinated.
NONE: Final = labels.NONE

#: A difference between rows with and without a human label is reported below this p-value. A
#: random sample gives a false alarm in at most 1 of 100 files, over both tests together.
SAMPLE_LEVEL: Final = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """How many rows have which labels: all that the estimates need to know.

    Parameters
    ----------
    cells : ndarray of int64 or float64, shape (3, 3, 2)
        Rows by human label, judge label (0 faithful, 1 hallucinated, 2 none) and flag (0 passed,
        1 flagged); for rates also of how many independent rows they have the weight.
    decided : bool
        Whether the flags mean anything. Without, every row counts as passed.
    """

    cells: NDArray[Any]
    decided: bool = True

    @classmethod
    def weighted(
        cls, places: Sequence[NDArray[np.int64]], unit: NDArray[np.int64], *, decided: bool
    ) -> LabelCounts:
        """Return rows that count once a unit, with the weight of as many independent ones.

        Rows of a unit are taken as wholly alike, and have equal parts of it (Kish, 1965; exact
        bounds of such numbers: Korn and Graubard, 1998).

        Parameters
        ----------
        places : three ndarrays of int64, shape (n,)
            The cell of each row.
        unit : ndarray of int64, shape (n,)
            What rows share: a group, copies.
        decided : bool
            As of the counts.
        """
        cells, people = np.zeros((3, 3, 2)), places[0] < NONE
        if not len(people):
            return cls(cells, decided)
        rows, labelled = np.bincount(unit), np.bincount(unit, people)
        by_unit, here = drawn_by_unit(people, unit), rows[rows > 0]
        each = people / np.maximum(1, labelled if by_unit else rows)[unit]
        of_unit = np.bincount(unit, each)
        alike = float(of_unit.sum() ** 2 / max(1e-300, of_unit @ of_unit))
        if not by_unit:
            # As many as rows drawn singly lead to expect: few of small units may be among them.
            alike = min(alike, float(people.mean() * len(here) ** 2 / (1.0 / here).sum()))
        alone = ~people / rows[unit]
        # All rows together have the weight of their units.
        for part, weight in ((each, alike), (alone, np.count_nonzero(rows) - alike)):
            np.add.at(cells, tuple(places), part * (weight / max(1e-300, part.sum())))
        return cls(cells, decided)

    @property
    def n_human(self) -> int:
        """Rows with a human label."""
        return round(float(self.cells[:NONE].sum()))

    @property
    def n_judge(self) -> int:
        """Rows with a judge label."""
        return round(float(self.cells[:, :NONE].sum()))

    @property
    def n_both(self) -> int:
        """Rows with both."""
        return round(float(self.both.sum()))

    @property
    def both(self) -> NDArray[Any]:
        """Rows with both labels by human label, judge label and flag, shape (2, 2, 2)."""
        return self.cells[:NONE, :NONE]

    @property
    def judge_alone(self) -> NDArray[Any]:
        """Rows with a judge label alone, by judge label and flag, shape (2, 2)."""
        return self.cells[NONE, :NONE]

    def turned(self) -> LabelCounts:
        """Return the same rows with hallucinated and faithful exchanged."""
        order = [1, 0, NONE]
        return LabelCounts(self.cells[order][:, order], self.decided)

    def to_dict(self) -> dict[str, int]:
        """Return the numbers of rows by who labelled them."""
        counts = {name: getattr(self, name) for name in ("n_human", "n_judge", "n_both")}
        counts = {"n": self.n_human + self.n_judge - self.n_both, **counts}
        alone = {f"{name}_alone": counts[name] - self.n_both for name in ("n_human", "n_judge")}
        return counts | alone


def one_of_each(unit: NDArray[np.int64], people: Mask | None = None) -> NDArray[np.int64]:
    """Return a row of each unit, chosen by lot: the one of people where units were drawn for them.

    Of units that were drawn, whatever their size, one is labelled or not.
    """
    order: NDArray[np.int64] = np.random.default_rng(0).permutation(len(unit))
    if people is not None and drawn_by_unit(people, unit):
        order = order[np.argsort(~people[order], kind="stable")]
    return order[np.unique(unit[order], return_index=True)[1]]


def drawn_by_unit(people: Mask, unit: NDArray[np.int64]) -> bool:
    """Return whether units were drawn: of each that was met people labelled one row, or all.

    Rows drawn singly would show that by chance in at most 1 of 100 files.
    """
    rows, labelled = np.bincount(unit), np.bincount(unit, people)
    rows, labelled = rows[rows > 0], labelled[rows > 0]
    share = min(max(float(people.mean()), 1e-9), 1.0 - 1e-9)
    none = rows * math.log1p(-share)
    one = none + np.log1p(rows * share / (1.0 - share))
    whole = np.logaddexp(none, rows * math.log(share))
    ways = (labelled <= 1, one), ((labelled == 0) | (labelled == rows), whole)
    return any(seen.all() and chance.sum() < math.log(SAMPLE_LEVEL) for seen, chance in ways)


def evenly_met(
    people: Mask, unit: NDArray[np.int64], lots: Floats, parts: NDArray[np.int64]
) -> Mask:
    """Return the labelled rows that stay, so that people met each unit as often in each part.

    Where rows are drawn singly, with probability p, a unit of s rows has a label with probability
    1 - (1 - p)^s. It stays with that of the smallest one over its own.

    Parameters
    ----------
    people : ndarray of bool, shape (n,)
        Which rows have a human label.
    unit : ndarray of int64, shape (n,)
        What rows share.
    lots : ndarray of float64, shape (n,)
        In [0, 1), one of each unit.
    parts : ndarray of int64, shape (n,)
        In which part, numbered from 0, a row is: a unit may be in several.

    Examples
    --------
    >>> people, unit = np.arange(60) % 4 < 2, np.repeat(np.arange(40), [1, 2] * 20)
    >>> int(evenly_met(people, unit, unit / 40, 0 * unit).sum())
    23
    """
    even = people.copy()
    for here in np.split(np.argsort(parts), np.cumsum(np.bincount(parts))[:-1]):
        own, labelled = np.unique(unit[here], return_inverse=True)[1], people[here]
        if labelled.any() and not drawn_by_unit(labelled, own):
            share = min(float(labelled.mean()), 1.0 - 1e-9)
            met = -np.expm1(np.log1p(-share) * np.bincount(own))
            even[here] &= lots[here] < (met.min() / met)[own]
    return even


def sample_tests(counts: LabelCounts, level: float = SAMPLE_LEVEL) -> list[dict[str, Any]]:
    """Test whether the rows with a human label look like a random sample of the judged rows.

    The judge's labels and the flags are known on both sides, so their shares can be compared by
    Fisher's exact test (1922). Rows drawn at random pass; that they pass does not prove that they
    were.

    Returns
    -------
    list of dict
        Of the share that the judge calls hallucinated, and with decisions of the share flagged:
        ``share``, ``count`` and ``n`` of ``human_labelled`` and ``others``, ``p_value``, None with
        a ``reason`` where either has no row, and whether it ``differs`` at ``level``.
    """
    sides, tests = {"human_labelled": counts.both.sum(axis=0), "others": counts.judge_alone}, []
    shares = ("called", "flagged") if counts.decided else ("called",)
    level /= len(shares)
    for axis, name in enumerate(shares):
        table = {side: rows.sum(axis=1 - axis) for side, rows in sides.items()}
        empty = next((f"no_{side}" for side, part in table.items() if not part.sum()), None)
        p = None if empty else min(1.0, float(fisher_exact(np.stack([*table.values()])).pvalue))
        sizes = {side: {"count": int(k[1]), "n": int(k.sum())} for side, k in table.items()}
        about = {"p_value": p, "level": level, "differs": p is not None and p < level}
        tests.append({"share": name, **sizes, **about, "reason": empty})
    return tests


def drawing_test(labelled: Mask, chance: Floats, level: float = SAMPLE_LEVEL) -> dict[str, Any]:
    """Test whether as many answers are labelled as the probabilities say.

    Both tails of the exact binomial test at the mean probability, doubled. Where probabilities are
    unequal that bounds the tails of the number labelled (Hoeffding, "On the distribution of the
    number of successes in independent trials", 1956): a false alarm comes with at most ``level``.

    Parameters
    ----------
    labelled : ndarray of bool, shape (n,)
        Which answers are labelled, each drawn by itself.
    chance : ndarray of float64, shape (n,)
        With which probability.
    level : float
        Below which p-value they differ.

    Examples
    --------
    >>> found = drawing_test(np.arange(100) < 60, np.full(100, 0.5))
    >>> round(found["p_value"], 3), found["differs"]
    (0.057, False)
    """
    n, count, mean = len(chance), int(labelled.sum()), min(1.0, float(chance.mean()))
    tails = bdtr(count, n, mean), bdtr(n - count, n, 1.0 - mean)
    p = min(1.0, 2.0 * float(min(tails)))
    about = {"share": "drawn", "count": count, "n": n, "expected": float(chance.sum())}
    return {**about, "p_value": p, "level": level, "differs": p < level}


def errors_by(division: Division, wrong: Mask, rows: Mask) -> dict[str, Any] | None:
    """Test whether a judge errs as often in all strata; None where nothing can differ.

    The statistic is Pearson's, its distribution that of errors dealt to the rows by lot, drawn
    1,999 times: the p-value is exact for independent rows (Phipson and Smyth, 2010).

    Parameters
    ----------
    division : Division
        Which answer is in which stratum.
    wrong, rows : ndarray of bool, shape (n,)
        Where the judge errs, and which answers count.

    Examples
    --------
    >>> strata = Division("lang", "column", np.arange(80) % 2, ("de", "en"), (None, None))
    >>> found = errors_by(strata, np.arange(80) % 4 == 1, np.full(80, True))
    >>> found["strata"][1], found["p_value"]
    ({'name': 'en', 'n': 40, 'n_wrong': 20}, 0.0005)
    """
    rows = rows & (division.members >= 0)
    members, most = division.members, len(division.names)
    sizes, errors = (np.bincount(members[it], minlength=most) for it in (rows, rows & wrong))
    filled = sizes > 0
    if filled.sum() < 2 or errors.sum() in (0, sizes.sum()):
        return None
    expected = sizes[filled] * errors.sum() / sizes.sum()
    rng = np.random.default_rng(0)
    dealt = rng.multivariate_hypergeometric(sizes[filled], int(errors.sum()), size=1999)
    least = ((errors[filled] - expected) ** 2 / expected).sum()
    as_far = ((dealt - expected) ** 2 / expected).sum(axis=1) >= least - 1e-9
    strata: list[dict[str, Any]] = [
        {"name": name, "n": int(n), "n_wrong": int(k)}
        for name, n, k in zip(division.names, sizes, errors, strict=True)
    ]
    by_rate = sorted((it for it in strata if it["n"]), key=lambda it: it["n_wrong"] / it["n"])
    found = {"feature": division.name, "strata": strata, "ends": [by_rate[0], by_rate[-1]]}
    return {**found, "p_value": float((1 + as_far.sum()) / 2000)}


KAPPA_METHOD: Final = "Cohen (1960); profile likelihood or score test, F"

#: The search for the likeliest table of a given kappa: grid, reach of each round, Newton steps.
_STEPS: Final = np.linspace(-1.0, 1.0, 161)
_REACHES: Final = tuple(16.0 * 0.015**zoom for zoom in range(4))
_TURNS: Final = 34


@dataclass(frozen=True, slots=True)
class Asymmetry(Record):
    """Whether the judge says hallucinated more often, or more rarely, than people do.

    Attributes
    ----------
    judge_alone, human_alone : int
        Answers that only the judge, and that only people call hallucinated.
    p_value : float or None
        Exact McNemar test (binomial; McNemar, 1947); None without a row.
    direction : {"too often", "too rarely", "not shown"}
        What is shown at the level 1 - confidence.
    reason : str or None
        Why there is no p-value.
    """

    judge_alone: int
    human_alone: int
    p_value: float | None
    direction: Literal["too often", "too rarely", "not shown"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement(Record):
    """The judge beside people, on the answers that both have labelled.

    Attributes
    ----------
    table : dict
        Answers by ``human_judge`` label, e.g. ``hallucinated_faithful``.
    agreement : Bound
        Share with the same label.
    sensitivity, specificity : Bound
        Share of the answers that people call hallucinated (faithful) where the judge agrees.
    kappa : Measure
        Cohen's kappa.
    asymmetry : Asymmetry
        Which way the judge errs.
    confidence : float
        Level of every interval.
    """

    table: dict[str, int]
    agreement: bounds.Bound
    sensitivity: bounds.Bound
    specificity: bounds.Bound
    kappa: Measure
    asymmetry: Asymmetry
    confidence: float


def agreement(counts: LabelCounts, confidence: float = 0.95) -> Agreement:
    """Compare the judge's labels with people's, where both are there.

    Shares have exact Clopper-Pearson intervals, each at its own level. Rows count as independent.

    Parameters
    ----------
    counts : LabelCounts
        The rows.
    confidence : float
        Level of every interval.

    Examples
    --------
    >>> cells = np.zeros((3, 3, 2), int)
    >>> cells[:2, :2, 0] = [[3, 0], [1, 2]]
    >>> result = agreement(LabelCounts(cells))
    >>> result.agreement.count, result.sensitivity.count, round(result.kappa.estimate, 3)
    (5, 2, 0.667)
    """
    level = share(confidence, "confidence")
    table = counts.both.sum(axis=2)
    names, n = ("faithful", "hallucinated"), int(table.sum())
    hits, faithful = int(table[1, 1]), int(table[0, 0])
    return Agreement(
        table={
            f"{names[human]}_{names[judge]}": int(table[human, judge])
            for human, judge in product((1, 0), repeat=2)
        },
        agreement=bounds.exact_bound(hits + faithful, n, level),
        sensitivity=bounds.exact_bound(hits, int(table[1].sum()), level),
        specificity=bounds.exact_bound(faithful, int(table[0].sum()), level),
        kappa=kappa(table, level),
        asymmetry=asymmetry(int(table[0, 1]), int(table[1, 0]), level),
        confidence=level,
    )


def asymmetry(judge_alone: int, human_alone: int, confidence: float = 0.95) -> Asymmetry:
    """Test whether disagreements go one way, exactly (McNemar, 1947).

    Where judge and people call hallucination equally often, each disagreement goes either way with
    probability 1/2.

    Examples
    --------
    >>> test = asymmetry(9, 1)
    >>> round(test.p_value, 4), test.direction
    (0.0215, 'too often')
    """
    level = 1.0 - share(confidence, "confidence")
    n = judge_alone + human_alone
    if not n:
        return Asymmetry(0, 0, None, "not shown", "no_disagreement")
    p_value = float(binomtest(judge_alone, n, 0.5).pvalue)
    way: Any = "too often" if judge_alone > human_alone else "too rarely"
    return Asymmetry(judge_alone, human_alone, p_value, way if p_value <= level else "not shown")


def kappa(table: NDArray[np.int64], confidence: float = 0.95) -> Measure:
    """Return Cohen's kappa of a 2 x 2 table with its profile-likelihood interval.

    The estimate is Cohen's (1960): agreement beyond what the two label rates give by chance. The
    interval holds every kappa that is not rejected both by the likelihood ratio and by Pearson's
    score statistic of the multinomial table, the two label rates profiled out, against the F
    distribution with 1 and n - 3 degrees of freedom. It stays within [-1, 1] and keeps a width at
    perfect agreement, where the usual large-sample variance (Fleiss, Cohen and Everitt, 1969;
    statsmodels' ``cohens_kappa``) is 0. Either statistic alone errs more with few disagreements:
    against chi-squared, the likelihood ratio interval held the true kappa in 0.88 to 0.92 of tables
    of 10 to 300 answers where it was worst, the score interval in 0.83 to 0.93, and this one in
    0.95.

    Parameters
    ----------
    table : ndarray of integers, shape (2, 2)
        Answers by human and judge label.
    confidence : float
        Level of the interval.

    Returns
    -------
    Measure
        Without an estimate where both always give the same single label: chance agreement is 1.

    Examples
    --------
    >>> measure = kappa(np.array([[70, 0], [0, 30]]))
    >>> measure.estimate, round(measure.lower, 2), measure.upper
    (1.0, 0.91, 1.0)
    """
    level = share(confidence, "confidence")
    counts = np.asarray(table, np.float64)
    n = counts.sum()
    if not n:
        return missing(KAPPA_METHOD, "no_row", level)
    rows, columns = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    chance = float(rows @ columns)
    if math.isclose(chance, 1.0):
        return missing(KAPPA_METHOD, "one_label", level)
    agreed = float(np.trace(counts)) / float(n)
    estimate = (agreed - chance) / (1.0 - chance)
    best = float(np.sum(xlogy(counts, counts / n)))
    # With three answers or fewer any kappa is possible.
    critical = float(f.ppf(level, 1, n - 3)) if n > 3 else math.inf

    @cache
    def drop(value: float) -> float:
        if value == estimate:
            return -math.sqrt(critical)
        likelihood, cells = _profile(counts, value)
        expected = n * cells
        score = float(np.sum((counts.ravel() - expected) ** 2 / expected))
        # The root of the statistic is nearly linear in kappa: fewer evaluations.
        return math.sqrt(max(0.0, min(2.0 * (best - likelihood), score))) - math.sqrt(critical)

    # Cohen's standard error of the estimate, and twice as far as it would reach.
    reach = 2.0 * math.sqrt(critical * agreed * (1.0 - agreed) / n) / (1.0 - chance)
    ends = []
    for edge in (-1.0, 1.0):
        # Next to the edge, where every cell still has a probability.
        last = edge * (1.0 - 1e-9)
        near = estimate + edge * min(reach, 0.9 * abs(last - estimate))
        last = near if near != estimate and drop(near) > 0.0 else last
        inside = abs(estimate - edge) < 1e-8 or drop(last) <= 0.0
        ends.append(edge if inside else float(brentq(drop, estimate, last, xtol=1e-6)))
    return Measure(estimate, ends[0], ends[1], KAPPA_METHOD, level)


def _profile(counts: NDArray[np.float64], value: float) -> tuple[float, NDArray[np.float64]]:
    """Return the largest log-likelihood among all tables with this kappa, and that table.

    With both rates of "hallucinated" given, a (people) and b (judge), kappa fixes every cell, and
    each is linear in b: the likelihood is concave in b, where Newton's steps within a bracket find
    its top. For a, a grid on the logits closes in.
    """
    weights = counts.ravel()
    centre, best, likeliest, likely = 0.0, -math.inf, np.full(4, 0.25), math.nan
    for reach in _REACHES:
        logits = centre + reach * _STEPS
        a = expit(logits)
        at_zero, at_one = _cells(a, 0.0, value), _cells(a, 1.0, value)
        slope = at_one - at_zero
        root = -at_zero / np.where(slope == 0.0, 1.0, slope)
        low = np.maximum(np.max(np.where(slope > 0, root, 0.0), axis=0), 0.0)
        high = np.minimum(np.min(np.where(slope < 0, root, 1.0), axis=0), 1.0)
        possible = low <= high
        # From where the wider grid found the top; at first, and outside, from the middle.
        b = np.where((low < likely) & (likely < high), likely, (low + high) / 2.0)
        for _ in range(_TURNS):
            pull = slope / np.maximum(at_zero + b * slope, 1e-100)
            rise = weights @ pull
            low, high = np.where(rise > 0.0, b, low), np.where(rise > 0.0, high, b)
            there = b + rise / np.maximum(weights @ (pull * pull), 1e-300)
            # Beyond an end that is known: nearly all of the way to it.
            last, b = b, np.clip(there, low + (b - low) / 128.0, high - (high - b) / 128.0)
            if np.max(np.abs(b - last), where=possible, initial=0.0) < 1e-11:
                break
        # Off 0, so that a count of 0 there costs nothing and another one very much.
        cells = np.maximum(at_zero + b * slope, 1e-300)
        logs = weights @ np.log(cells)
        logs[~possible] = -math.inf
        top = int(np.argmax(logs))
        if logs[top] > best:
            best, centre, likeliest = float(logs[top]), float(logits[top]), cells[:, top]
            likely = float(b[top])
    return best, likeliest


def _cells(a: NDArray[np.float64], b: float, value: float) -> NDArray[np.float64]:
    """Return the four cells, faithful_faithful first, of tables with these rates and kappa."""
    excess = value * (a * (1.0 - b) + b * (1.0 - a)) / 2.0
    return np.stack(
        [(1 - a) * (1 - b) + excess, (1 - a) * b - excess, a * (1 - b) - excess, a * b + excess]
    )


#: Draws, the same ones for the same counts.
DRAWS: Final = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Draws of a quantity from the distributions of its lower and of its upper bounds.

    Attributes
    ----------
    low, high : ndarray of float64, shape (draws,)
        Each draw for itself; those of ``low`` are the smaller in distribution.
    """

    low: Floats
    high: Floats

    def turned(self) -> Ends:
        """Return the ends of one minus the quantity."""
        return Ends(1.0 - self.high, 1.0 - self.low)

    def interval(self, level: float) -> bounds.Interval:
        """Return the interval of the quantity, within [0, 1]."""
        tail = (1.0 - level) / 2.0
        ends = np.quantile(self.low, tail), np.quantile(self.high, 1.0 - tail)
        return bounds.Interval(*np.clip(ends, 0.0, 1.0).tolist())


def melded_share(count: float, n: float, rng: np.random.Generator) -> Ends:
    """Return draws of a share from its Clopper-Pearson bounds; without a trial it may be anything.

    Examples
    --------
    >>> ends = melded_share(10, 10, np.random.default_rng(0))
    >>> round(ends.interval(0.95)[0], 2), ends.interval(0.95)[1]
    (0.69, 1.0)
    """
    low = rng.beta(count, n - count + 1, DRAWS) if count > 0 else np.zeros(DRAWS)
    high = rng.beta(count + 1, n - count, DRAWS) if count < n else np.ones(DRAWS)
    return Ends(low, high)


def _mixed(table: NDArray[Any], rows: NDArray[Any], rng: np.random.Generator) -> tuple[float, Ends]:
    """Return the share of label 1 among answers of two judge labels, by human and judge label.

    Where people have labelled a random sample, those among the answers that the judge calls alike
    are one, too, and how many such answers there are is known of all. A judge label that people
    met nowhere has the share of both together.
    """
    labelled, called = table.sum(axis=0), melded_share(rows[1], rows.sum(), rng)
    shares = np.where(labelled > 0, table[1], table[1].sum())
    shares = shares / np.maximum(1, np.where(labelled > 0, labelled, labelled.sum()))
    no, yes = (melded_share(table[1, judge], labelled[judge], rng) for judge in (0, 1))
    if table[1, 1] * labelled[0] < table[1, 0] * labelled[1]:
        called, no, yes = called.turned(), yes, no
    return float(shares @ rows / max(1, rows.sum())), _mix(called, yes, no)


def _mix(v: Ends, yes: Ends, no: Ends) -> Ends:
    """Return a share of both parts of a whole, v being that of the one where it is larger."""
    return Ends(
        v.low * yes.low + (1.0 - v.low) * no.low, v.high * yes.high + (1.0 - v.high) * no.high
    )


def _part(v: Ends, flagged: Ends, passed: Ends) -> Ends:
    """Return the flagged share of a class, from its shares of the flagged and of the passed."""
    return Ends(
        _ratio(v.low * flagged.low, v.low * flagged.low + (1.0 - v.low) * passed.high, 0.0),
        _ratio(v.high * flagged.high, v.high * flagged.high + (1.0 - v.high) * passed.low, 1.0),
    )


def _ratio(above: Floats, below: Floats, unknown: float) -> Floats:
    """Return a quotient, and where its denominator is not above 0 what is not ruled out."""
    return cast(Floats, np.divide(above, below, np.full(len(above), unknown), where=below > 0.0))


RateName = Literal["prevalence", "coverage", "fpr"]
Method = Literal["rogan_gladen", "prediction_powered", "stratified"]
#: A rate by the ways to estimate it.
Rate = Mapping[Method, Measure]

_POWERED: Final = "prediction-powered, by judge label; melded exact bounds (2015)"
_EXACT: Final = "prediction-powered, by judge label; exact (Buehler)"


def _measure(estimate: float, interval: bounds.Interval, method: str, level: float) -> Measure:
    estimate = min(1.0, max(0.0, estimate))
    return Measure(estimate, min(estimate, interval[0]), max(estimate, interval[1]), method, level)


def rogan_gladen(counts: LabelCounts, level: float) -> Measure:
    """Return the share of hallucinated answers by the judge's error rates.

    With the judge's label J, its sensitivity s and e = P(J | faithful), one minus the specificity,
    Rogan and Gladen (1978) give P(hallucinated) = (P(J) - e) / (s - e). That is the same share
    among answers without a human label, mixed with the one among those with a label: independent
    counts, of whose exact bounds the interval is melded. It holds whatever the judge is like and
    whichever class is labelled, as long as the judge errs on answers with a human label as on the
    rest of their class.

    Parameters
    ----------
    counts : LabelCounts
        The rows.
    level : float
        Of the interval.

    Returns
    -------
    Measure
        Without an estimate where the judge calls hallucinated answers hallucinated no more often
        than faithful ones.

    Examples
    --------
    >>> cells = np.zeros((3, 3, 2), int)
    >>> cells[:, :2, 0] = [[60, 10], [8, 42], [620, 350]]
    >>> found = rogan_gladen(LabelCounts(cells), 0.95)
    >>> round(found.estimate, 3), round(found.lower, 3), round(found.upper, 3)
    (0.324, 0.207, 0.427)
    """
    name, table = "Rogan-Gladen (1978); melded exact bounds (2015)", counts.both.sum(axis=2)
    alone, rng = counts.judge_alone.sum(axis=1), np.random.default_rng(0)
    rows, people = table.sum(axis=0) + alone, table.sum(axis=1)
    if not people.all():
        return missing(name, "class_not_judged", level)
    error, sensitivity, called = (k[1] / k.sum() for k in (*table, rows))
    if sensitivity <= error:
        return missing(name, f"judge_uninformative:{sensitivity - error:.2f}", level)
    estimate = float((called - error) / (sensitivity - error))
    e, s, seen = (melded_share(k[1], k.sum(), rng) for k in (*table, alone))
    if not Ends(s.low - e.high, s.high - e.low).interval(level).lower:
        # The judge is not shown to tell classes apart.
        return _measure(estimate, bounds.ANYTHING, name, level)
    low = _ratio(seen.low - e.high, s.high - e.high, 0.0)
    high = _ratio(seen.high - e.low, s.low - e.low, 1.0)
    # Lower ends below 0, and upper ones above 1, stay: cut off they would narrow the mixed one.
    beside = Ends(np.minimum(low, 1.0), np.maximum(high, 0.0))
    if not beside.interval(level).width:
        return missing(name, f"rate_outside:{estimate:.2f}", level)
    known = melded_share(people[1], people.sum(), rng)
    labelled = melded_share(people.sum(), rows.sum(), rng)
    # Where people drew by class the labelled answers may hold less of it than the others.
    if people[1] < estimate * people.sum():
        labelled, known, beside = labelled.turned(), beside, known
    return _measure(estimate, _mix(labelled, known, beside).interval(level), name, level)


def prediction_powered(counts: LabelCounts, level: float, *, flagged: bool) -> Measure:
    """Return the share of hallucinated answers, or the flagged among them, from both labels.

    What people say of the answers that the judge calls alike (and that are flagged alike), weighted
    by how many answers it calls so. Where labels are yes or no that is, but for small terms, the
    power-tuned PPI++ (Angelopoulos, Duchi and Zrnic, 2023), whose normal interval held the truth in
    0.84 to 0.92 of files with 20 to 60 human labels. This one is exact where rows count one
    each and people labelled at most 3,000, and fewer than were left to the judge; else it is melded
    of exact bounds. It needs the answers with a human label to be a random sample, unseen by
    the judge.

    Parameters
    ----------
    counts : LabelCounts
        The rows; ``counts.turned()`` gives the rates of faithful answers.
    level : float
        Of the interval.
    flagged : bool
        Whether it is the share flagged.
    """
    both, rng = counts.both, np.random.default_rng(0)
    hits, n = (both[1, :, 1].sum(), both[1].sum()) if flagged else (both[1].sum(), both.sum())
    if counts.n_both < 2 or not n:
        return missing(_POWERED, "two_needed" if counts.n_both < 2 else "class_not_labelled", level)
    rows, whole = both.sum(axis=0) + counts.judge_alone, np.rint(counts.cells)
    single = n <= _COUNTED and not flagged and bool(np.abs(whole - counts.cells).max() < 1e-6)
    n_alone = counts.judge_alone.sum()
    if not n_alone or (single and n_alone < n):
        # There is nothing to add to what people say, or too little for what it costs.
        ends = bounds.Interval(*map(float, bounds.interval(hits, n, level)))
        return Measure(float(hits / n), *ends, "clopper-pearson", level)
    if not flagged:
        estimate, mixed = _mixed(both.sum(axis=2), rows.sum(axis=1), rng)
        if not single:
            return _measure(estimate, mixed.interval(level), _POWERED, level)
        table, alone = whole[:NONE, :NONE].sum(axis=2), whole[NONE, :NONE].sum(axis=1)
        sides = [_share_at_most(part, alone, (1.0 - level) / 2.0) for part in (table, table[::-1])]
        return _measure(estimate, bounds.Interval(1.0 - sides[1], sides[0]), _EXACT, level)
    v, share = melded_share(rows[:, 1].sum(), rows.sum(), rng), rows[:, 1].sum() / rows.sum()
    passed, caught = (_mixed(both[:, :, k], rows[:, k], rng) for k in (0, 1))
    of_class = share * caught[0] + (1.0 - share) * passed[0]
    if of_class <= 0.0:
        return missing(_POWERED, "class_not_labelled", level)
    interval = _part(v, caught[1], passed[1]).interval(level)
    return _measure(share * caught[0] / of_class, interval, _POWERED, level)


def stratified(segments: Sequence[LabelCounts], level: float) -> Measure:
    """Return the share of hallucinated answers from the prediction-powered ones of segments.

    Each counts with its share of the rows that the judge has labelled, which is known, so that
    segments may be labelled by people at different rates. The interval is melded of all strata.

    Parameters
    ----------
    segments : sequence of LabelCounts
        The rows of each segment.
    level : float
        Of the interval.
    """
    rng, estimate, low, high = np.random.default_rng(0), 0.0, np.zeros(DRAWS), np.zeros(DRAWS)
    for counts in segments:
        if counts.n_both < 2:
            return missing(_POWERED, "segment_not_labelled", level)
        rows = (counts.both.sum(axis=0) + counts.judge_alone).sum(axis=1)
        weight = counts.n_judge / sum(item.n_judge for item in segments)
        share, ends = _mixed(counts.both.sum(axis=2), rows, rng)
        estimate += weight * share
        low, high = low + weight * ends.low, high + weight * ends.high
    return _measure(estimate, Ends(low, high).interval(level), f"{_POWERED}, by segment", level)


def corrected_rates(counts: LabelCounts, confidence: float = 0.95) -> dict[RateName, Rate]:
    """Estimate prevalence, and with decisions coverage and FPR, from both kinds of labels.

    - ``rogan_gladen`` (Rogan and Gladen, 1978), of the prevalence alone, solves P(judge says
      hallucinated) = sensitivity * prevalence + (1 - specificity) * (1 - prevalence) for the truth.
      Coverage and FPR would need judge and detector to err on different answers, which they seldom
      do.
    - ``prediction_powered`` (Angelopoulos et al., 2023) weights what people say within each judge
      label.

    Intervals are melded of exact bounds (see above), so that they hold with few labels and with
    shares near 0 and 1, too, though by simulation and not by proof; the prediction-powered one of
    the prevalence is exact where rows count one each.

    Rows count as independent: see `LabelCounts.weighted`.

    Parameters
    ----------
    counts : LabelCounts
        The rows; those without a judge label have no part.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict of str to dict of str to Measure
        ``prevalence``, and with decisions ``coverage`` and ``fpr``.
    """
    level = share(confidence, "confidence")
    rates: dict[RateName, Rate] = {
        "prevalence": {
            "rogan_gladen": rogan_gladen(counts, level),
            "prediction_powered": prediction_powered(counts, level, flagged=False),
        }
    }
    if counts.decided:
        # False alarms are to faithful answers what coverage is to hallucinated ones.
        for name, of in (("coverage", counts), ("fpr", counts.turned())):
            powered = prediction_powered(of, level, flagged=True)
            rates[cast(RateName, name)] = {"prediction_powered": powered}
    return rates


#: Points that the share called, and those within judge labels, are searched at; most labels.
_CALLED, _WITHIN, _COUNTED = 32, 24, 3000
#: From one labelled answer in so many on the number of those that are there is narrower.
_WORTH: Final = 20


def _arcs(low: Any, high: Any, points: int) -> Floats:
    """Return shares from one to the other, as many standard errors apart everywhere."""
    first, last = np.arcsin(np.sqrt(np.clip([low, high], 0.0, 1.0)))
    return cast(Floats, np.sin(np.linspace(first, last, points, axis=-1)) ** 2)


def _share_at_most(table: NDArray[Any], alone: NDArray[Any], tail: float) -> float:
    """Return the exact upper end of the share of label 1, by what a judge says of all answers.

    Given how many of the labelled answers the judge calls what, three counts are independent and
    binomial: of label 1 within each judge label, and of those called 1 where the judge alone has
    labelled. The end is the largest share at which outcomes that speak no more for a large one than
    what was seen have a probability above the tail, at worst over the three shares behind it
    (Buehler, 1957; Lloyd, 2008), each within its exact interval, whose error is taken from the tail
    (Berger and Boos, 1994). Outcomes are ordered by an upper limit that is composed of Wilson's
    (Zou and Donner, 2008), which is convex in the share called. Along the shares the probability is
    smooth and, as that limit is studentized, nearly flat: eight times as many points have the same
    top, and a hundredth of the tail is left for what lies between them.

    Parameters
    ----------
    table : ndarray of integers, shape (2, 2)
        Answers by human and judge label.
    alone : ndarray of integers, shape (2,)
        Answers that the judge alone has labelled, by its label.
    tail : float
        Probability that the end is below the share, at most.

    Examples
    --------
    >>> round(_share_at_most(np.array([[243, 27], [3, 27]]), np.array([1400, 300]), 0.025), 3)
    0.129
    """
    z, near, within = -float(ndtri(tail)), list[Any](), list[Any]()
    shares, squares = list[Any](), list[Any]()
    seen, sizes = np.array([*table[1], alone[1]], int), [*table.sum(axis=0), alone.sum()]
    for k, size in zip(seen.tolist(), map(int, sizes), strict=True):
        reach = 8.0 * math.sqrt((k + 1.0) * (size - k + 1.0) / (size + 2.0)) + 20.0
        counts = np.arange(max(0, int(k - reach)), min(size, int(k + reach)) + 1)
        wide = z * np.sqrt(counts * (size - counts) / max(1, size) + z * z / 4.0)
        near.append(counts)
        within.append(bounds.clopper_pearson(k, size, 1.0 - 2.0 * BEYOND * tail))
        # Of no answers all may have label 1.
        shares.append(counts / size if size else np.ones(1))
        squares.append(((counts + z * z / 2.0 + wide) / (size + z * z) - shares[-1]) ** 2)
    (x0, x1, called), (n0, n1, n) = near, map(int, sizes)
    (q0, q1), (a0, a1) = (shares[0], shares[1][:, None]), (squares[0], squares[1][:, None])
    gap, met = q1 - q0, (n1 + 1.0) / (n0 + n1 + 2.0)
    beside = met * (1.0 - met) * (z * gap) ** 2 / n

    def limit(called: Any) -> Any:
        spread = called**2 * a1 + (1.0 - called) ** 2 * a0 + beside
        return q0 + called * gap + np.sqrt(spread)

    here, part = tuple((seen - [k[0] for k in near])[1::-1]), seen[2] / n
    most, share = limit(part)[here] + 1e-12, (q0 + part * gap)[here]
    # An outcome counts between two shares called: a quadratic equation, without cancellation.
    square, left = a0 + a1 - gap**2, most - q0
    linear, constant = 2.0 * (gap * left - a0), a0 + beside - left**2
    half = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
    half = -(linear + np.copysign(half, linear)) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([half / square, constant / half])
        roots = np.where(limit(roots) <= most + 1e-9, roots, np.nan)
    # An end that counts is one, too; without another one all do, and without any none.
    low, high = limit(0.0) <= most, limit(1.0) <= most
    first, last = np.fmin(roots[0], roots[1]), np.fmax(roots[0], roots[1])
    none = np.isnan(first)
    first = np.where(low | (none & high), 0.0, np.where(none, 2.0, first))
    last = np.where(high | (none & low), 1.0, np.where(none, -1.0, last))
    ends = np.ceil(n * first - 1e-6), np.floor(n * last + 1e-6) + 1.0
    ends_at = [np.clip(end - called[0], 0, len(called)).astype(np.int64) for end in ends]

    def both(share: float, v: Any) -> tuple[Any, Any]:
        low, high = ((share - (1.0 - v) * end) / v for end in within[0][::-1])
        return np.maximum(low, within[1][0]), np.minimum(high, within[1][1])

    def excess(share: float) -> float:
        # The worst chance has bends where both others are at ends; among them the shares called lie
        # beside which both can be within their intervals.
        bends = [(share - a) / ((b - a) or 1e-12) for a, b in product(*within[:2])]
        v = np.clip(np.clip([*bends, *within[2]], *within[2]), 1e-9, 1.0 - 1e-9)
        low, high = both(share, v)
        v = v[low <= high + 1e-9]
        if not len(v):
            return -1.0
        v = np.append(v, _arcs(v.min(), v.max(), _CALLED)[1:-1])
        (low, high), v = both(share, v), v[:, None]
        below = np.hstack([0.0 * v, bdtr(called[:-1], n, v), 0.0 * v + 1.0])
        reached = np.maximum(0.0, below[:, ends_at[1]] - below[:, ends_at[0]])
        p1 = _arcs(low, np.maximum(low, high), _WITHIN)
        p0 = np.clip((share - v * p1) / (1.0 - v), 0.0, 1.0)
        chance = (binomial_chances(x1, n1, p1) @ reached * binomial_chances(x0, n0, p0)).sum(
            axis=-1
        )
        return math.log(max(1e-9, chance.max()) / tail / (1.0 - 16.0 * BEYOND))

    # From the top down: the first share that is not refuted, and between it and the one above.
    room = float(most - share)
    tried = [1.0, *(share + room * np.array([8.0, 5.0, 3.0, 2.0, 1.6, 1.3, 1.0, 0.7, 0.4]))]
    above, *others = sorted({min(1.0, float(end)) for end in tried}, reverse=True)
    if excess(above) > 0.0:
        return above
    for end in others:
        if excess(end) > 0.0:
            return min(1.0, float(brentq(excess, end, above, xtol=1e-3 * room)) + 1e-3 * room)
        above = end
    return 1.0


def hallucinated_among(counts: LabelCounts, confidence: float) -> dict[str, Any] | None:
    """Return the exact interval of how many of just these answers are hallucinated.

    People labelled a random sample of them, drawn one by one without replacement. So those that are
    hallucinated within each judge label are hypergeometric, for a judge that has not seen these
    labels. What people labelled is known, and the interval is a number where that is all.

    Parameters
    ----------
    counts : LabelCounts
        The rows, one each; those without a judge label have no part.
    confidence : float
        Two-sided; each end errs with at most half of the rest.

    Returns
    -------
    dict or None
        ``lower`` and ``upper`` of ``n``; None where people labelled less than a twentieth, so that
        it is about as wide as that of the share.

    Examples
    --------
    >>> cells = np.zeros((3, 3, 2), int)
    >>> cells[:, :2, 0] = [[243, 27], [3, 27], [1400, 300]]
    >>> found = hallucinated_among(LabelCounts(cells), 0.95)
    >>> found["lower"], found["upper"], found["n"]
    (149, 248, 2000)
    """
    cells = np.rint(counts.cells[:, :NONE].sum(axis=2)).astype(np.int64)
    table, alone, n, tail = cells[:NONE], cells[NONE], int(cells.sum()), (1.0 - confidence) / 2.0
    if _WORTH * table.sum() < n:
        return None
    upper, others = (_among_at_most(part, alone, tail) for part in (table, table[::-1]))
    return {"n": n, "lower": n - others, "upper": upper, "confidence": confidence}


def _dealt(counts: NDArray[np.int64], n: int, of: Any, logs: Floats) -> Floats:
    """Return the hypergeometric probabilities of counts among n drawn.

    ``of`` answers of all are counted; ``logs`` are the logarithms of the factorials of 0 to the
    number of all, and infinity.
    """
    size = len(logs) - 2
    found = logs[n] + logs[size - n] - logs[size]
    for many, k in ((of, counts), (size - of, n - counts)):
        found = found + logs[many] - logs[k] - logs[np.maximum(many - k, -1)]
    return cast(Floats, np.exp(found))


def _among_at_most(table: NDArray[np.int64], alone: NDArray[np.int64], tail: float) -> int:
    """Return the exact upper end of how many answers have label 1.

    As `_share_at_most` does, with two hypergeometric counts: how many the judge calls what is
    known. Their probability falls in the answers of label 1 that there are within either judge
    label, and outcomes count up to one within the one for each within the other: over a cell no
    pair of numbers has a larger one than its lowest corner.
    """
    seen, n = table[1], table.sum(axis=0)
    size = n + alone
    square = ndtri(tail) ** 2 * alone / np.maximum(1, size - 1)
    logs = [np.append(gammaln(np.arange(many + 1.0) + 1.0), np.inf) for many in size]

    def most(k: int, judge: int) -> int:
        def refuted(of: int) -> bool:
            chance = _dealt(np.arange(k + 1), n[judge], of + 1, logs[judge]).sum()
            return bool(chance <= BEYOND * tail)

        return k + bisect_left(range(k, k + int(alone[judge])), True, key=refuted)

    def limit(*counts: Any) -> Any:
        share, beyond = 0.0, 0.0
        for x, labelled, many, z in zip(counts, n, size, square, strict=True):
            # Wilson's, of a finite number; of no answers all may have label 1.
            wide = np.sqrt(z * x * (1.0 - x / max(1, labelled)) + z * z / 4.0)
            end = (x + z / 2.0 + wide) / (labelled + z) if labelled else 1.0
            share = share + many * (x / max(1, labelled))
            beyond = beyond + (many * (end - x / max(1, labelled))) ** 2
        return share + np.sqrt(beyond)

    near, ends = list[Any](), list[Any]()
    for judge, (k, labelled) in enumerate(zip(seen.tolist(), n.tolist(), strict=True)):
        away = 10.0 * math.sqrt((k + 1.0) * (labelled - k + 1.0) / (labelled + 2.0)) + 20.0
        near.append(np.arange(max(0, int(k - away)), min(labelled, int(k + away)) + 1))
        ends.append((int(size[judge]) - most(labelled - k, judge), most(k, judge)))
    (x0, x1), ((low0, high0), (low1, high1)) = near, ends
    up_to = (limit(x0[:, None], x1) <= limit(*seen) + 1e-9).sum(axis=0)

    def refuted(of: int) -> bool:
        first, last = max(low1, of + 1 - high0), min(high1, of + 1 - low0)
        edges = np.linspace(first, last + 1, min(CELLS, last - first + 1) + 1).astype(np.int64)
        least1, least0 = edges[:-1, None], np.maximum(low0, of + 2 - edges[1:, None])
        below = np.cumsum(_dealt(x0, n[0], least0, logs[0]), axis=1)
        below = np.hstack([0.0 * least0, below])[:, up_to]
        chance = (_dealt(x1, n[1], least1, logs[1]) * below).sum(axis=1)
        return bool(chance.max() <= (1.0 - 4.0 * BEYOND) * tail)

    least: int = low0 + low1
    return least + bisect_left(range(least, high0 + high1), True, key=refuted)


def author_of(judge: str, generator: object) -> str:
    """Say whether a judge wrote an answer itself, as far as its name tells.

    >>> author_of("judge-4", "Judge 4 (2024)"), author_of("judge-4", "model-b")
    ('the judge', 'others')
    """
    names = ["".join(filter(str.isalnum, str(name).lower())) for name in (judge, generator)]
    shorter, longer = sorted(names, key=len)
    return "the judge" if shorter and shorter in longer else "others"


def drawing_tests(people: Sequence[int], unit: NDArray[np.int64], chance: Floats) -> list[Any]:
    """Test, on one row of each unit, whether as many are labelled as the probabilities say.

    That must hold of the likelier half, too.
    """
    alone, level = one_of_each(unit), SAMPLE_LEVEL / 2.0
    halves = alone, alone[chance[alone] > chance[alone].mean()]
    return [drawing_test(np.isin(it, people), chance[it], level) for it in halves if len(it)]


def segment_test(segments: Any, people: Mask, unit: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Test on one row of each unit whether people labelled as much of each segment: `errors_by`.

    Returns
    -------
    list of dict
        A test as of `sample_tests`, with the two ``ends`` that differ most; empty of one segment.
    """
    alone, level = one_of_each(unit, people), SAMPLE_LEVEL / 2.0
    division = by_column("segment", segments[alone].tolist())
    found = division and errors_by(division, people[alone], np.full(len(alone), True))
    if not found:
        return []
    ends = [{"name": it["name"], "count": it["n_wrong"], "n": it["n"]} for it in found["ends"]]
    about = {"p_value": found["p_value"], "level": level, "differs": found["p_value"] < level}
    return [{"share": "segment", "ends": ends, **about}]


def best_edge(values: Floats, labels: NDArray[np.int8], limits: Any = None) -> float | None:
    """Return the threshold of ratings that keeps both limits best; None without a class.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Ratings, higher = more likely hallucinated.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    limits : (float, float), optional
        Share of hallucinated answers to call so at least, and of faithful ones at most; without
        them, both shares are to lie far apart.
    """
    parts, edges = [np.sort(values[labels == label]) for label in (1, 0)], np.unique(values)
    if not all(map(len, parts)):
        return None
    caught, alarms = (1.0 - np.searchsorted(part, edges) / len(part) for part in parts)
    slack = caught - alarms
    if limits is not None:
        slack = np.minimum(caught - limits[0], limits[1] - alarms)
    return float(edges[int(np.argmax(slack))])
