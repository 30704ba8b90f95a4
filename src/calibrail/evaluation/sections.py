"""Attainable, baselines, clustering, curve, risks, review."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrail import conformal
from calibrail.conformal import bounds
from calibrail.conformal.certificate import Verdict
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.splits import TEST
from calibrail.evaluation.scored_answers import CLASSES, Sample
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.intervals import Floats, Mask, ranked_values, wilson
from calibrail.evaluation.stats.tests import rank_correlation
from calibrail.options.guarantee import Costs

if TYPE_CHECKING:
    from calibrail.conformal.risk_control import Risk

#: A score with at most this many distinct calibration values has few thresholds to choose from.
FEW_DISTINCT: Final = 20
#: A promise this much above the target is another promise.
GAP: Final = 0.02


def attainable(
    calibration: conformal.Calibration, sample: Sample, confidence: float
) -> dict[str, Any] | None:
    """Return every threshold that the score offers, with its promise and what it does on the test.

    Parameters
    ----------
    calibration : Calibration
        The threshold in use and the calibration scores.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Of the intervals.

    Returns
    -------
    dict or None
        None where any target can be aimed at. Else, all thresholds of a score with few values, or
        those about a gap that ties leave in one with many: ``target``,
        ``is_attainable`` (whether a threshold promises the target and not much more, short of
        flagging everything), and
        ``steps``: ``threshold``, ``promise`` (largest coverage that the guarantee gives it),
        ``coverage`` and ``fpr`` on the test part, ``is_used``.
    """
    distinct, repeats = np.unique(calibration.scores, return_counts=True)
    n_distinct = len(distinct)
    if not n_distinct:
        return None
    # Undefined scores count as caught or missed by the policy, before any threshold.
    missed = calibration.n_undefined if calibration.undefined == "pass" else 0
    below = np.cumsum(repeats) - repeats + missed
    target, slack = 1.0 - calibration.alpha, max(GAP, 2.0 / (calibration.n + 1))
    if n_distinct > FEW_DISTINCT or 2 * n_distinct > len(calibration.scores):
        # Many values, and yet nothing between two of them where most answers share one.
        used_at = int(np.searchsorted(distinct, calibration.threshold))
        # Between two scores of many the answers of a large group leave a gap, too.
        clustered = isinstance(calibration, conformal.ClusteredCalibration)
        if clustered or calibration.flag_all or used_at >= n_distinct:
            return None
        if 1.0 - calibration.least_alpha(int(below[used_at])) - target <= slack:
            return None
        near_it = slice(max(0, used_at - 1), used_at + 2)
        distinct, below = distinct[near_it], below[near_it]
    values = sample.values + sample.tolerance
    undefined = np.isnan(values) & (calibration.undefined != "pass")
    steps, is_attainable = [], False
    for threshold, n_below in zip(distinct.tolist(), below.tolist(), strict=True):
        reached = values >= threshold
        coverage, fpr = sample.bounds(reached | undefined, confidence)
        promise = 1.0 - calibration.least_alpha(n_below)
        is_used = not calibration.flag_all and threshold == calibration.threshold
        # A threshold that no answer stays below keeps any promise, and detects nothing.
        if is_used and promise - target <= slack and not reached[sample.rows(TEST)].all():
            is_attainable = True
        step = {"threshold": threshold, "promise": promise, "is_used": is_used}
        steps.append({**step, "coverage": coverage.to_dict(), "fpr": fpr.to_dict()})
    section = {"target": target, "is_attainable": is_attainable, "n_distinct": n_distinct}
    return {**section, "steps": steps}


def confounds(
    sample: Sample, baselines: Mapping[str, Floats], *, undefined: str, confidence: float
) -> dict[str, Any] | None:
    """Return how closely each baseline goes with the score, and how well it ranks beside it.

    A baseline ranks either way round: one whose AUROC is 0.2 separates the classes as 0.8 does.
    It ranks ``better`` or ``worse`` than the score where DeLong's paired interval of the difference
    of the AUROCs lies on one side of zero, and ``as well`` where it does not.

    Parameters
    ----------
    sample : Sample
        Its test part is looked at.
    baselines : mapping of str to ndarray of float64, shape (n,)
        Trivial scores of the same examples.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict or None
        ``n``, ``auroc``, ``rows`` (``name``, ``n``, ``auroc``, ``reversed``, ``spearman``,
        ``ranks``). None without baselines, or where the test part lacks a class.
    """
    test = sample.rows(TEST)
    if not baselines or len(np.unique(sample.labels[test])) < 2:
        return None
    ranked = ranked_values(sample.values, undefined)
    rows = []
    for name, column in baselines.items():
        other = ranked_values(column, undefined)
        area = sample.auroc(other, confidence)
        turned = area.estimate is not None and area.estimate < 0.5
        difference = sample.auroc_difference((-1.0 if turned else 1.0) * other, ranked, confidence)
        both = ~np.isnan(sample.values) & ~np.isnan(column) & sample.drawn(TEST)
        better = "better" if difference.lies_above(0.0) else "as well"
        spearman = rank_correlation(sample.values[both], column[both], confidence)
        rows.append(
            {
                "name": name,
                "n": int(both.sum()),
                "auroc": area.to_dict(),
                "reversed": turned,
                "spearman": spearman.to_dict(),
                "ranks": "worse" if difference.lies_below(0.0) else better,
            }
        )
    area = sample.auroc(ranked, confidence)
    return {"n": int(test.sum()), "auroc": area.to_dict(), "rows": rows}


def clustering(calibration: conformal.ClusteredCalibration) -> dict[str, Any]:
    """Return how many hallucinated calibration examples hang together in how many groups."""
    return {
        "n": calibration.n,
        "n_clusters": calibration.n_clusters,
        "largest": int(np.bincount(calibration.clusters).max(initial=0)),
    }


#: Answers that a report tells the cost of.
PER: Final = 1000


def expected_cost(sample: Sample, flagged: Mask, costs: Costs, confidence: float) -> dict[str, Any]:
    """Return what wrong decisions cost on average, with an upper bound, beside two simpler ways.

    Parameters
    ----------
    sample, flagged : Sample and ndarray of bool, shape (n,)
        Its test part is looked at, one answer of each group and class; and the decisions.
    costs : Costs
        Of both errors. Without a base rate the data's is taken, each group as heavy as any other.
        Then, and where groups hold both classes, the cost is that of an answer of a new group, and
        bound by bets on groups: errors may be most frequent where a group's answers are
        hallucinated, and the data's base rate is known as roughly as its errors.
    confidence : float
        Of the bound, one-sided.

    Returns
    -------
    dict
        ``costs`` with the base rate; ``base_rate_is``, ``given`` or ``of the data``. For ``per``
        answers: ``estimate``, ``upper``, ``flag_all``, ``pass_all``; ``beats``: whether ``upper``
        lies below both of these; ``by_group``: whether groups of several count with all answers;
        ``rates``: what is missed, and what are false alarms, as they count here.
    """
    given, members = costs.base_rate is not None, sample.members
    weights = misses, alarms = costs.weights(sample.base_rate)
    mixed = len(np.unique(2 * members + sample.labels)) > len(np.unique(members))
    by_group = not (sample.whole or (given and not mixed))
    if not by_group:
        at = sample.one_per_group(flagged)
        sides = (at.n_hallucinated - at.caught, at.n_hallucinated), (at.false_alarms, at.n_faithful)
        rates = [wrong / max(1, n) for wrong, n in sides]
        estimate = float(np.dot(weights, rates))
        upper = bounds.cost_at_most(*sides, weights, confidence)
        beats = upper < min(weights)
    else:
        rates, estimate, upper, beats = _cost_of_groups(sample, flagged, costs, confidence)
    return {
        "costs": replace(costs, base_rate=costs.base_rate if given else sample.base_rate).to_dict(),
        "confidence": confidence,
        "per": PER,
        "estimate": PER * estimate,
        "upper": PER * upper,
        "flag_all": PER * alarms,
        "pass_all": PER * misses,
        "beats": beats,
        "base_rate_is": "given" if given else "of the data",
        "by_group": by_group and len(np.unique(members)) < len(members),
        "rates": rates,
    }


def _cost_of_groups(
    sample: Sample, flagged: Mask, costs: Costs, level: float
) -> tuple[list[float], float, float, bool]:
    """Return both rates, what an answer of a new group costs, at most, and if it beats both ways.

    Of a group one answer of each class is drawn, and weighs as much as the class does in it.
    """
    rows = np.flatnonzero(sample.rows(TEST))
    keys, bad = 2 * sample.members + (sample.labels == 1), sample.labels[rows] == 1
    part = np.bincount(keys)[keys[rows]] / np.bincount(sample.members)[sample.members[rows]]
    part /= np.bincount(keys[rows])[keys[rows]]
    # Bets need an order that has nothing to do with what answers cost.
    member = intervals.numbered_by(sample.lots[rows], sample.members[rows])
    kinds = bad & ~flagged[rows], bad, ~bad & flagged[rows], ~bad
    masses: Floats = np.array([np.bincount(member, part * kind) for kind in kinds])
    misses, hallucinated, alarms, faithful = masses
    sides, each = ((misses, hallucinated), (alarms, faithful)), bounds.part_level(level)
    rates = [float(wrong.sum() / (of.sum() or 1.0)) for wrong, of in sides]
    estimate = float(np.dot(costs.weights(float(hallucinated.mean())), rates))
    if costs.base_rate is not None:
        weights = costs.weights(0.0)
        upper = float(np.dot(weights, [bounds.ratio_at_most(*side, each) for side in sides]))
        return rates, estimate, upper, upper < min(weights)
    missed, raised = prices = costs.weights(1.0)[0], costs.weights(0.0)[1]
    own, most = missed * misses + raised * alarms, max(prices)
    gains = [
        bounds.mean_at_least(np.clip((it - own) / most / 2.0 + 0.5, 0.0, 1.0), level)
        for it in (raised * faithful, missed * hallucinated)
    ]
    upper = most * (1.0 - bounds.mean_at_least(np.clip(1.0 - own / most, 0.0, 1.0), level))
    return rates, estimate, upper, min(gains) > 0.5


#: Thresholds of the curve that a report holds at most.
MOST: Final = 120


def operating_curve(
    sample: Sample,
    *,
    undefined: str,
    confidence: float,
    ways: Sequence[Sample] = (),
    used: float | None = None,
) -> dict[str, Any] | None:
    """Return coverage and FPR at thresholds over the whole range, in bands that hold for all.

    The bands (Berk-Jones, or DKW whichever near copies are copies; each class at half of the
    error) hold together at every threshold with ``confidence``: a reader may look first and choose
    a threshold afterwards, and the bounds at the chosen one stand.

    Parameters
    ----------
    sample : Sample
        Its test part is looked at.
    undefined : {"flag", "review", "pass"}
        Policy for undefined scores.
    confidence : float
        Of both bands together.
    ways : sequence of Sample
        The same answers where near copies count once, and where each does: the bands then hold
        whichever are copies.
    used : float, optional
        The threshold in use: one that flags the same answers is among those of the curve.

    Returns
    -------
    dict or None
        Beside each threshold the next score ``below`` it, from which on others flag the same. None
        where the test part lacks a class or every score in it is undefined.
    """
    ranked = ranked_values(sample.values, undefined)
    classes = [np.sort(part) for part in sample.by_class(ranked)]
    pooled = np.sort(np.concatenate(classes), kind="stable")  # which merges what is in order
    pooled = pooled[np.isfinite(pooled)]
    if not len(pooled) or not all(map(len, classes)):
        return None
    distinct = pooled[np.append(True, pooled[1:] != pooled[:-1])]
    places = np.arange(len(distinct))
    if len(distinct) > MOST:
        # Evenly by rank, so that the curve is drawn evenly whatever the scale of the score.
        places = np.linspace(0, len(distinct) - 1, MOST).round().astype(np.intp)
        if used is not None and used <= distinct[-1]:
            places = np.union1d(places, np.searchsorted(distinct, used))
    below = [None, *distinct[places[1:] - 1].tolist()]
    distinct = distinct[places]
    rates = {}
    level = 1.0 - (1.0 - confidence) / 2.0
    for place, name in enumerate(("coverage", "fpr")):
        scores = [classes[place], *(np.sort(way.by_class(ranked)[place]) for way in ways)]
        reached = [len(part) - np.searchsorted(part, distinct) for part in scores]
        n, *sizes = map(len, scores)
        lower, upper = bounds.simultaneous_bounds(reached[0], n, level)
        if ways:
            # At worst those that reach a threshold count once, and all others each.
            once, each = reached[1:]
            lower = bounds.simultaneous_bounds(once, once + sizes[1] - each, level, "dkw")[0]
            upper = bounds.simultaneous_bounds(each, each + sizes[0] - once, level, "dkw")[1]
        ends = {"estimate": reached[0] / n, "lower": lower, "upper": upper}
        rates[name] = {key: column.tolist() for key, column in ends.items()} | {"n": n}
    about = {"thresholds": distinct.tolist(), "below": below, "confidence": confidence}
    return {**about, "method": "dkw" if ways else "berk-jones", **rates}


def risk_bounds(
    risks: "Sequence[Risk]",
    counts: conformal.ClassCounts,
    of_all: conformal.ClassCounts,
    confidence: float,
) -> list[dict[str, Any]]:
    """Return each risk with its exact bound, and whether it is shown to be kept.

    Parameters
    ----------
    risks : sequence of Risk
        The promises.
    counts, of_all : ClassCounts
        What is flagged, and the same as it counts for abstention.
    confidence : float
        Of the bounds together (Bonferroni), and of the claim that all risks are kept.
    """
    level = 1.0 - (1.0 - confidence) / len(risks)
    measured = []
    for risk in risks:
        at = of_all if risk.name == "abstention" else counts
        caught, alarms = np.array([at.caught, at.false_alarms])
        wrong, trials = map(int, risk.counts(caught, alarms, (at.n_hallucinated, at.n_faithful)))
        share = (trials - wrong if risk.relation == ">=" else wrong), trials
        bound = conformal.exact_bound(*share, level)
        # All risks have to be shown to be kept, so each may take the whole error.
        lower, upper = bounds.interval(*share, bounds.proof_level(confidence))
        state = shown(bound, risk.relation, risk.level, (float(lower), float(upper)))
        measured.append({**risk.to_dict(), "test": bound.to_dict(), "shown": state})
    return measured


def shown(
    bound: conformal.Bound, relation: str, level: float, proof: tuple[float, float] | None = None
) -> str:
    """Return whether a limit is shown to be kept (``within``), ``exceeded``, or ``open``.

    Parameters
    ----------
    bound : Bound
        Its ends show that the limit is broken.
    relation : {">=", "<="}
        Which side of the limit is good.
    level : float
        The limit.
    proof : (float, float), optional
        The interval whose ends show that the limit is kept; that of ``bound`` when left out.
    """
    proof = proof or (bound.lower, bound.upper)
    if (proof[0] >= level) if relation == ">=" else (proof[1] <= level):
        return "within"
    broken = (bound.upper < level) if relation == ">=" else (bound.lower > level)
    return "exceeded" if broken else "open"


def risk_verdict(measured: Sequence[dict[str, Any]]) -> Verdict:
    """Return the verdict about measured risks: all shown to be kept, one broken, or neither."""
    states = {item["shown"] for item in measured}
    if "exceeded" in states:
        return "rejected"
    return "inconclusive" if "open" in states else "certified"


def three_way_review(
    rule: Rule, groups: Sequence[str] | None, sample: Sample, confidence: float
) -> dict[str, Any]:
    """Return the shares of both classes that pass, go to review and are flagged on the test part.

    The shares that the promises are about (hallucinated answers that pass, faithful ones that are
    flagged) have exact bounds; the shares that cost (review) have Wilson intervals, and count one
    answer of each group, whatever its class.

    Parameters
    ----------
    rule : Rule
        With an upper threshold.
    groups : sequence of str or None
        Group of each example, where the rule has groups.
    sample : Sample
        Its test part is looked at.
    confidence : float
        Level of every interval.
    """
    assert rule.upper is not None
    decided = rule.decide(sample.values, groups, sample.tolerance)
    once, code = sample.drawn(TEST), conformal.DECISIONS.index
    counts = {
        name: {it: int(np.sum(part & (decided == code(it)))) for it in conformal.DECISIONS}
        for name, part in zip(CLASSES, (once & (sample.labels == k) for k in (1, 0)), strict=True)
    }
    hallucinated, faithful = counts.values()
    n = int(np.sum(once))
    passed = hallucinated["pass"] + faithful["pass"]
    base_rate = sample.base_rate
    alpha, beta = rule.calibration.alpha, rule.upper.alpha
    missed, blocked = (
        conformal.exact_bound(int(np.sum(part == code(it))), len(part), confidence)
        for it, part in zip(("pass", "flag"), sample.by_class(decided), strict=True)
    )
    threshold = rule.calibration.threshold
    shares = {
        "review": (hallucinated["review"] + faithful["review"], n),
        "released_hallucinated": (hallucinated["pass"], passed),
        "withheld": (n - passed, n),
    }
    return {
        "alpha": alpha,
        "beta": beta,
        "pass_below": None if rule.calibration.flag_all else threshold,
        "flag_above": max(-rule.upper.threshold, threshold),
        "by_group": rule.groups is not None,
        "needs_review": -rule.upper.threshold >= threshold,
        "counts": counts,
        "missed": missed.to_dict(),
        "blocked": blocked.to_dict(),
        **{name: wilson(*share, confidence).to_dict() for name, share in shares.items()},
        "base_rate": base_rate,
        "least_withheld": conformal.least_withheld(base_rate, alpha),
        "shown": {"pass": shown(missed, "<=", alpha), "flag": shown(blocked, "<=", beta)},
    }
