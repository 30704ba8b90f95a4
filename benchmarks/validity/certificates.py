"""How often is a certificate wrong, a risk broken, or a released answer hallucinated?

Truth lies just on the other side of what a verdict says, where it errs most. A verdict depends on
two counts; ``certified`` needs both classes and ``rejected`` one, so it is asked for each count of
one class beside counts of the other that leave the decision to the first.

Several risks: the requirements are the true rates of one threshold, so every other one breaks one.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from scipy.special import bdtr
from scipy.stats import binom, norm

from calibrail.conformal import (
    Certificate,
    ClassCounts,
    certify_counts,
    certify_groups,
    clopper_pearson,
    conformal_selection,
    discoveries,
    holm,
    labelled_share,
    p_values,
    rank,
    storey_share,
)
from calibrail.conformal.argument_checks import Bools, Ints
from calibrail.conformal.bounds import interval, proof_level
from calibrail.conformal.risk_control import CandidateSearch, Method, control_risks
from calibrail.options import Requirement

from .check import CONFIDENCE, DELTA, Check, Floats, Observation, Setting, below, draw, quantile

#: Limit on the FPR.
MAX_FPR: Final = 0.2
#: Groups that are certified together.
N_GROUPS: Final = 3
#: Wrong labels of each simulation, and the share of the examples that are false alarms or misses.
FLIPS: Final = (1, 3, 10)
_RARE: Final = 0.05
#: The faithful scores lie this far below the hallucinated ones.
_SHIFT: Final = 1.0
_ERROR: Final = 1.0 - CONFIDENCE
_TAIL: Final = _ERROR / 2.0

_Certify = Callable[[ClassCounts], Certificate]


def wrong_verdicts(at: Setting) -> Iterator[Check]:
    """Certify where a requirement is just broken, reject where both are just met."""
    required = 1.0 - at.alpha
    limits = Requirement(MAX_FPR, required, CONFIDENCE)
    rng, n, runs = at.rng("wrong verdicts"), at.n, at.runs
    caught, alarms = rng.binomial(n, required, runs), rng.binomial(n, MAX_FPR, runs)
    verdicts = _Verdicts(n, lambda counts: certify_counts(counts, limits))
    exact = _Exact(n, required, CONFIDENCE)
    for wrong, probability, design in (
        (verdicts.by_coverage(caught, "certified"), exact.by_coverage, "coverage just too low"),
        (verdicts.by_fpr(alarms, "certified"), exact.by_fpr, "FPR just too high"),
    ):
        yield at.check("wrong certificate", wrong, _ERROR, exact=probability, design=design)
    wrong, design = verdicts.rejected(caught, alarms), "both just met"
    yield at.check("wrong rejection", wrong, 2.0 * _TAIL, exact=exact.rejected, design=design)


def wrong_joint_certificate(at: Setting) -> Iterator[Check]:
    """Certify a ``pac`` threshold that breaks a requirement: ``DELTA`` + (1 - ``CONFIDENCE``) / 2.

    The limit on the FPR is the true FPR of the threshold with a miss rate of exactly alpha, so that
    about half of all thresholds break it.
    """
    rng, n, k = at.rng("joint"), at.n, rank(at.n, at.alpha, "pac", DELTA)
    threshold = np.partition(draw(rng, at.kind, (at.runs, n)), k - 1, axis=1)[:, k - 1]
    limit = 1.0 - float(below(at.kind, quantile(at.kind, at.alpha), -_SHIFT))
    faithful = draw(rng, at.kind, (at.runs, n), -_SHIFT)
    alarms = np.count_nonzero(faithful >= threshold[:, None], axis=1)
    certified = interval(alarms, n, CONFIDENCE)[1] <= limit
    broken = below(at.kind, threshold) > at.alpha
    broken |= 1.0 - below(at.kind, threshold, -_SHIFT) > limit
    yield at.check("wrong joint certificate", certified & broken, DELTA + _TAIL)


def wrong_group_verdicts(at: Setting) -> Iterator[Check]:
    """Certify any of three groups wrongly: at most alpha = 1 - confidence; likewise reject.

    However they depend: where one is the same as the others, or both others are certified.
    """
    required, n, runs = 1.0 - MAX_FPR, at.n, at.runs
    limits = Requirement(MAX_FPR, required, 1.0 - at.alpha)
    open_one, good = ClassCounts(0, 0, 0, 0), ClassCounts(10 * n, 10 * n, 0, 10 * n)
    rng, name = at.rng("group verdicts"), "group certificates, any wrong verdict of a kind"
    caught = rng.binomial(n, required, (runs, N_GROUPS))
    alarms = rng.binomial(n, MAX_FPR, (runs, N_GROUPS))
    for beside, what, part in (
        (open_one, "", 1.0 / N_GROUPS),
        (good, ", the others certified", 1.0),
    ):
        others = {str(other): beside for other in range(1, N_GROUPS)}

        def certify(counts: ClassCounts, others: dict[str, ClassCounts] = others) -> Certificate:
            return certify_groups({"0": counts, **others}, limits)["0"].certificate

        verdicts, exact = _Verdicts(n, certify), _Exact(n, required, 1.0 - at.alpha * part)
        too_low = verdicts.by_coverage(caught[:, 0], "certified")
        yield at.check(
            name, too_low, at.alpha, exact=exact.by_coverage, design=f"coverage too low{what}"
        )
        wrong = verdicts.by_fpr(alarms[:, 2], "certified")
        if beside is open_one:
            wrong |= too_low
            rejected = verdicts.rejected(caught, alarms).any(axis=1)
            yield at.check(name, rejected, at.alpha, design="all just good enough")
        yield at.check(name, wrong, at.alpha, design=f"each wrong in its way{what}")


def holm_family(at: Setting) -> Iterator[Check]:
    """Reject any true hypothesis: at most alpha."""
    rng, required = at.rng("Holm"), 1.0 - MAX_FPR
    coverages = np.array([required, required, required - 0.2])
    caught = rng.binomial(at.n, coverages, (at.runs, len(coverages)))
    p = bdtr(caught.astype(np.float64), at.n, required)
    wrong = [bool((holm(row)[:2] <= at.alpha).any()) for row in p]
    yield at.check("Holm", wrong, at.alpha, design="two groups just good enough, one broken")


def wrong_labels(at: Setting) -> Iterator[Check]:
    """Certify what is just not good enough, and claim to survive the flips that made it look good.

    Whoever flips labels knows all scores, chooses how many of ``FLIPS`` to flip, and flips those
    that help most. A certificate that claims to survive fewer flips promises nothing then.
    """
    for design, wrong in _flipped(at, claimed=True):
        yield at.check("certificate under wrong labels", wrong, _ERROR, design=design)


def wrong_labels_ignored(at: Setting) -> Iterator[Observation]:
    """Certify what is just not good enough, whatever the certificate claims to survive."""
    for design, wrong in _flipped(at, claimed=False):
        what = f"wrong certificate where up to {max(FLIPS)} labels are wrong, its claim ignored"
        yield at.observed(what, wrong, _ERROR, design=design)


def _flipped(at: Setting, *, claimed: bool) -> Iterator[tuple[str, Bools]]:
    n, required = at.n, 1.0 - at.alpha
    rng, other = at.rng("wrong labels"), int(_RARE * at.n)
    caught, alarms = rng.binomial(n, required, at.runs), rng.binomial(n, MAX_FPR, at.runs)
    too_low = _where(caught, lambda x: _can_be_certified((x, other), n, required, claimed))
    too_high = _where(alarms, lambda x: _can_be_certified((n - other, x), n, required, claimed))
    yield from (("coverage just too low", too_low), ("FPR just too high", too_high))


def _can_be_certified(counts: tuple[int, int], n: int, required: float, claimed: bool) -> bool:
    """Return whether some flips make the true counts look certified."""
    caught, alarms = counts
    limits = Requirement(MAX_FPR, required, CONFIDENCE)
    for flips in FLIPS:
        for hidden in range(flips + 1):
            # Missed hallucinations become passed faithful answers, false alarms become catches.
            gained = flips - hidden
            if hidden > n - caught or gained > alarms:
                continue
            positives = caught + gained, n - hidden + gained
            negatives = alarms - gained, n + hidden - gained
            lower = clopper_pearson(*positives, proof_level(CONFIDENCE))[0]
            upper = clopper_pearson(*negatives, proof_level(CONFIDENCE))[1]
            if lower < required or upper > MAX_FPR:
                continue
            survives = certify_counts(ClassCounts(*positives, *negatives), limits).flips
            if survives is not None and (not claimed or survives.flips >= flips):
                return True
    return False


def _where(counts: Ints, decide: Callable[[int], bool]) -> Bools:
    """Return where a count is decided so; each distinct count is decided once."""
    values, place = np.unique(counts, return_inverse=True)
    decided = np.array([decide(int(value)) for value in values])
    return decided[place].reshape(counts.shape)


class _Verdicts(NamedTuple):
    """What counts of one class lead to, on ``n`` of each, beside perfect counts of the other."""

    n: int
    certify: _Certify

    def by_coverage(self, caught: Ints, verdict: str) -> Bools:
        n = self.n
        return _where(caught, lambda x: self.certify(ClassCounts(x, n, 0, n)).verdict == verdict)

    def by_fpr(self, alarms: Ints, verdict: str) -> Bools:
        n = self.n
        return _where(alarms, lambda x: self.certify(ClassCounts(n, n, x, n)).verdict == verdict)

    def rejected(self, caught: Ints, alarms: Ints) -> Bools:
        return self.by_coverage(caught, "rejected") | self.by_fpr(alarms, "rejected")


class _Exact:
    """Exact probabilities of verdicts on n examples of each class, truth at both requirements.

    By definition of Clopper-Pearson bounds a count certifies if so good a one has a probability of
    at most 1 - level at the requirement, and rejects if so bad a one has one below half of that.

    Attributes
    ----------
    by_coverage, by_fpr : float
        That counts of one class certify beside perfect counts of the other.
    rejected : float
        That counts of either class reject.
    """

    def __init__(self, n: int, required: float, level: float) -> None:
        error, counts = 1.0 - level, np.arange(n + 1)
        tail, hits, alarms = error / 2.0, binom(n, required), binom(n, MAX_FPR)
        good, clean = hits.sf(counts - 1) <= error, alarms.cdf(counts) <= error
        self.by_coverage = float(hits.pmf(counts[good]).sum()) * float(clean[0])
        self.by_fpr = float(alarms.pmf(counts[clean]).sum()) * float(good[n])
        few = float(hits.pmf(counts[hits.cdf(counts) < tail]).sum())
        many = float(alarms.pmf(counts[alarms.sf(counts - 1) < tail]).sum())
        self.rejected = 1.0 - (1.0 - few) * (1.0 - many)


#: The faithful scores lie this far below the hallucinated ones; classes are equally frequent.
_CLASSES_APART: Final = 1.5
#: Miss rate of the one threshold that keeps all promises.
_MISSED: Final = 0.25
#: Where precision that rises and falls again reaches its limit for the first time.
_RISING: Final = 0.6
METHODS: Final[tuple[Method, ...]] = ("split_fixed_sequence", "bonferroni_holm", "bonferroni")
PAIRS: Final = (("recall", "fpr"), ("recall", "precision"), ("accuracy", "abstention"))


def several_risks(at: Setting) -> Iterator[Check]:
    """Accept any threshold that breaks any promise: at most alpha = 1 - confidence."""
    required = _true(at, np.array([quantile(at.kind, _MISSED)]))
    at_most = ("fpr", "abstention")
    for pair in PAIRS:
        rng = at.rng(f"risks {pair}")
        signs = {name: "<=" if name in at_most else ">=" for name in pair}
        limits = [f"{name}{signs[name]}{float(required[name][0]):.9f}" for name in pair]
        wrong = np.zeros(at.runs, dtype=bool)
        for run in range(at.runs):
            labels = np.concatenate([[1, 0], rng.integers(2, size=2 * at.n - 2)])
            scores = draw(rng, at.kind, 2 * at.n, np.where(labels == 1, 0.0, -_CLASSES_APART))
            search = CandidateSearch(grid=30, seed=run)
            control = control_risks(scores, labels, limits, 1.0 - at.alpha, search=search)
            true = _true(at, np.array(control.candidates)[list(control.valid)])
            for name in pair:
                worst = 1.0 if name in at_most else -1.0
                wrong[run] |= bool(np.any(worst * (true[name] - required[name]) > 1e-8))
        design = " and ".join(pair)
        yield at.check("several risks, any accepted threshold", wrong, at.alpha, design=design)


def risk_that_turns(at: Setting) -> Iterator[Check]:
    """Accept a threshold that breaks a precision which rises and falls again: at most alpha.

    Some faithful answers score above all others, so that thresholds on both sides break it.
    """

    def precision(thresholds: Floats) -> Floats:
        caught = norm.sf((thresholds - 1.2) / 0.8)
        alarms = 0.85 * norm.sf(thresholds) + 0.15 * norm.sf((thresholds - 3.0) / 0.4)
        return np.asarray(caught / (caught + alarms), dtype=np.float64)

    limit = float(precision(np.array([_RISING]))[0])
    for method in METHODS:
        rng, wrong = at.rng(f"turns {method}"), np.zeros(at.runs, dtype=bool)
        for run in range(at.runs):
            labels = np.concatenate([[1, 0], rng.integers(2, size=2 * at.n - 2)])
            high = rng.random(2 * at.n) < 0.15
            mean = np.where(labels == 1, 1.2, np.where(high, 3.0, 0.0))
            scale = np.where(labels == 1, 0.8, np.where(high, 0.4, 1.0))
            search = CandidateSearch(grid=30, method=method, seed=run)
            promised = [f"precision>={limit:.9f}"]
            scores = rng.normal(mean, scale)
            control = control_risks(scores, labels, promised, 1.0 - at.alpha, search=search)
            accepted = np.array(control.candidates)[list(control.valid)]
            wrong[run] = bool(np.any(precision(accepted) < limit - 1e-8))
        yield at.check("a risk that turns, any accepted threshold", wrong, at.alpha, design=method)


def _true(at: Setting, thresholds: Floats) -> dict[str, Floats]:
    """Return the true rates of thresholds."""
    coverage = 1.0 - below(at.kind, thresholds)
    fpr = 1.0 - below(at.kind, thresholds, -_CLASSES_APART)
    flagged = (coverage + fpr) / 2.0
    return {
        "recall": coverage,
        "fpr": fpr,
        "precision": coverage / 2.0 / flagged,
        "accuracy": (coverage + 1.0 - fpr) / 2.0,
        "abstention": flagged,
    }


#: Batches: size, and share of hallucinated answers.
SELECTED: Final = ((2, 0.5), (50, 0.3), (50, 1.0))
SEARCHED: Final = ((50, 0.3), (50, 1.0))
#: The same where the share of hallucinated answers is estimated.
ESTIMATED: Final = ((20, 0.1), (20, 0.9), (200, 0.05), (200, 0.5))
#: The faithful scores lie this far below the hallucinated ones.
_FAITHFUL_BELOW: Final = 3.0


def false_discovery_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers: on average at most alpha * pi of the released ones.

    A share has no binomial limits, so one of the released answers is drawn at random in each run
    and counted if it is hallucinated: the probability of that is the mean of the share.

    With continuous scores the rate is known exactly where alpha (n + 1) / m is a whole number
    (Marandon, Lei, Mary and Roquain, 2024, Annals of Statistics 52(1)).
    """
    for m, pi in SELECTED:
        rng = at.rng(f"select {m} {pi}")
        wrong = []
        for p, bad in _batches(rng, at, m, pi):
            released = np.flatnonzero(conformal_selection(p, at.alpha).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        promised = at.alpha * round(m * pi) / m
        step = Fraction(repr(at.alpha)) * (at.n + 1) / m
        exact = promised if step.denominator == 1 else None
        name, design = "selection, false discovery rate", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, promised, exact=exact, design=design)


def storey_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers where the batch tells their share: at most alpha on average."""
    for m, pi in ESTIMATED:
        rng, wrong = at.rng(f"storey {m} {pi}"), []
        for p, bad in _batches(rng, at, m, pi):
            share = storey_share(p, at.n)
            released = np.flatnonzero(conformal_selection(p, at.alpha, share).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        name, design = "selection by storey, false discovery rate", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, at.alpha, design=design)


def both_classes_rate(at: Setting) -> Iterator[Check]:
    """Release hallucinated answers where labels tell their share: at most alpha on average.

    Labels are drawn, in the batch as among the labelled answers; n of these are hallucinated on
    average, and the half of them that a split by class leaves to calibrate gives the p-values.
    """
    for m, pi in ESTIMATED:
        rng, wrong = at.rng(f"both classes {m} {pi}"), []
        for _ in range(at.runs):
            labelled = round(at.n / pi)
            hallucinated = int(rng.binomial(labelled, pi))
            calibration = np.sort(draw(rng, at.kind, (hallucinated + 1) // 2))
            bad = int(rng.binomial(m, pi))
            batch = np.append(
                draw(rng, at.kind, bad), draw(rng, at.kind, m - bad, -_FAITHFUL_BELOW)
            )
            share = labelled_share(hallucinated, labelled)
            p = p_values(calibration, batch)
            released = np.flatnonzero(conformal_selection(p, at.alpha, share).released)
            wrong.append(len(released) > 0 and rng.choice(released) < bad)
        name, design = "selection by both classes, false discovery rate", f"batch of {m}, pi = {pi}"
        yield at.check(name, wrong, at.alpha, design=design)


def discoveries_everywhere(at: Setting) -> Iterator[Check]:
    """Release more hallucinated answers than the bound at ANY cut-off: at most alpha."""
    for m, pi in SEARCHED:
        wrong = []
        for p, bad in _batches(at.rng(f"discoveries {m} {pi}"), at, m, pi):
            table = discoveries(p, at.n, 1.0 - at.alpha)
            hallucinated = np.searchsorted(np.sort(p[:bad]), table.cutoffs, side="right")
            beyond = np.append(hallucinated > table.most, bad > table.most_hallucinated)
            wrong.append(bool(beyond.any()))
        name, design = "discoveries, bound at any cut-off", f"batch of {m}, pi = {pi:g}"
        yield at.check(name, wrong, at.alpha, design=design)


def _batches(
    rng: np.random.Generator, at: Setting, m: int, pi: float
) -> Iterator[tuple[Floats, int]]:
    """Yield for each run a batch's p-values, hallucinated answers first, and their number."""
    bad = round(m * pi)
    for _ in range(at.runs):
        calibration = np.sort(draw(rng, at.kind, at.n))
        batch = np.append(draw(rng, at.kind, bad), draw(rng, at.kind, m - bad, -_FAITHFUL_BELOW))
        yield p_values(calibration, batch), bad
