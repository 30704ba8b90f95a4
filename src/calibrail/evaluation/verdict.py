"""Verdict on held-out answers, overall and by group: certified, rejected or inconclusive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from calibrail import conformal
from calibrail.conformal import certificate as certificates
from calibrail.conformal.certificate import certify_group_trimming, certify_trimming
from calibrail.conformal.group_thresholds import joined, parted
from calibrail.conformal.threshold import decimal
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.evaluation.measures import RemovalOutcome, caught_band, in_order
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats.intervals import Mask
from calibrail.options import Requirement

#: What a verdict rests on: the bounds of the certificate; the same, where the coverage that they
#: leave open is the very one that the threshold aims at; a test part that caught fewer than chance
#: explains; the groups, of which each is decided by itself; the bounds of several risks; an earlier
#: look at the same data.
Reason = Literal[
    "bounds",
    "aims_at_the_requirement",
    "caught_too_few",
    "groups_apart",
    "risks",
    "looked_before",
    "rows_alike",
    "near_copies",
]


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """A verdict, why, and the exact bounds behind it as a JSON-able mapping.

    Beside it what else was decided, as a report has it (``by_group``, ``cost`` and, of several
    risks, how they were ``measured``), and the answers whose sentences are removed.
    """

    verdict: str
    reason: Reason
    certificate: Mapping[str, Any]
    by_group: Mapping[str, Any] | None = None
    measured: Sequence[Mapping[str, Any]] | None = None
    trimmed: RemovalOutcome | None = None
    cost: Mapping[str, Any] | None = None


def decide(rule: Rule, flagged: Mask, sample: Sample, requirement: Requirement) -> VerdictResult:
    """Return the verdict about ``coverage >= min_coverage`` and ``FPR <= max_fpr``.

    A ``pac`` or ``anytime`` threshold brings its coverage along by construction (unless more than
    its target is required), so that its FPR bound may use every faithful example that it never
    saw. For the other guarantees, both rates are bounded on the test part. One answer of each group
    and class counts, unless the sample takes all as independent. Where such a threshold is
    certified although the test part caught fewer than chance explains, the certificate is withheld:
    the samples it combines do not look like one source. Without a test part the construction alone
    speaks of coverage, and all faithful answers of the FPR: a threshold and what it flags only fall
    and grow together, so that the bounds decide about limits that were fixed beforehand, also where
    groups hold answers of both classes.

    Parameters
    ----------
    rule : Rule
        What decides. Where one threshold does not decide about every answer (groups have their
        own), nothing is certified by its construction.
    flagged, sample : ndarray of bool, shape (n,), and Sample
        Decisions about all examples.
    requirement : Requirement
        With a ``min_coverage``; without a ``max_fpr`` nothing can be certified. ``confidence`` is
        that of the certificate, however the coverage is shown.
    """
    calibration, min_coverage = rule.calibration, requirement.min_coverage
    assert min_coverage is not None
    counts = sample.one_per_group(flagged)
    band = caught_band(rule, sample, flagged, requirement.confidence)[1]
    construction = _by_construction(rule, min_coverage, whole=sample.whole)
    if construction:
        least = min_coverage
        if not sample.whole:
            least = min(least, float(1 - decimal(calibration.alpha)))
        joint = _with_unseen(counts, flagged, sample)
        limits = replace(requirement, min_coverage=least)
        certificate = conformal.joint_certificate(calibration, joint, limits)
    else:
        certificate = conformal.certify_counts(counts, requirement)
    few = construction and band is not None and counts.caught < band.lowest
    unsettled = certificate.coverage.lower < certificate.min_coverage
    asked = requirement.max_fpr is not None and calibration.guarantee != "fixed"
    verdict, reason = _withheld(certificate.verdict, rule, min_coverage, few, asked and unsettled)
    content = {**certificate.to_dict(), "verdict": verdict}
    # A flip may also change which answer of a group counts, for both classes.
    if verdict != "certified" or sample.n_set_aside or counts != sample.counts(flagged):
        content["flips"] = None
    return VerdictResult(verdict, reason, content)


def decide_trimming(
    rule: Rule, flagged: Mask, trimmed: RemovalOutcome, requirement: Requirement
) -> VerdictResult:
    """Return the verdict about what is freed, kept and touched where sentences are removed.

    As ``decide`` does, a ``pac`` or ``anytime`` threshold brings along that enough answers are
    freed, so that what it touches is counted on every faithful answer that it never saw; what it
    keeps is measured on the test part, on answers of both classes in the proportion they have
    there.

    Parameters
    ----------
    rule, flagged, requirement
        As for ``decide``: flagged are answers that reach their threshold. Without a ``min_kept``
        nothing can be certified.
    trimmed : Trimmed
        What the rule leaves of the answers.
    """
    calibration, min_coverage = rule.calibration, requirement.min_coverage
    assert min_coverage is not None
    sample, counts = trimmed.sample, trimmed.counts
    coverage, band = caught_band(rule, sample, flagged, requirement.confidence)
    proven = _by_construction(rule, min_coverage)
    if proven:
        counts = _with_unseen(counts, trimmed.stopped, sample)
    kept = trimmed.outcomes.shares(trimmed.everyone)
    certificate = certify_trimming(counts, kept, requirement, calibration if proven else None)
    few = proven and band is not None and coverage.count < band.lowest
    unsettled = requirement.min_kept is not None and certificate.coverage_at_least < min_coverage
    verdict, reason = _withheld(certificate.verdict, rule, min_coverage, few, unsettled)
    content = {**certificate.to_dict(), "verdict": verdict}
    return VerdictResult(verdict, reason, content, trimmed=trimmed)


def _withheld(
    verdict: str, rule: Rule, min_coverage: float, few: bool, unsettled: bool
) -> tuple[str, Reason]:
    """Return a verdict, withheld where the test part caught too few, and what it rests on."""
    if verdict == "certified" and few:
        return "inconclusive", "caught_too_few"
    aims = min_coverage >= 1.0 - rule.calibration.alpha - 1e-12
    if verdict != "inconclusive" or not (unsettled and aims):
        return verdict, "bounds"
    proven = rule.calibration.promise.of_this_threshold
    return verdict, "bounds" if proven else "aims_at_the_requirement"


def _by_construction(rule: Rule, min_coverage: float, *, whole: bool = False) -> bool:
    """Return whether a threshold decides alone whose coverage is proven, and is enough or all."""
    calibration = rule.calibration
    promised = whole or min_coverage <= 1.0 - calibration.alpha + 1e-12
    alone = rule.groups is None and rule.chosen is None
    proven = calibration.promise.of_this_threshold
    return alone and proven and promised and not calibration.flag_all


def _with_unseen(
    counts: conformal.ClassCounts, flagged: Mask, sample: Sample
) -> conformal.ClassCounts:
    """Add the faithful calibration examples, which the threshold never saw.

    None is added where one shares a group with a hallucinated example of the calibration part.
    """
    if sample.whole or _classes_share_groups(sample):
        return counts
    alarms, n = sample.count(flagged, CALIBRATION, 0)
    alarms, n = counts.false_alarms + alarms, counts.n_faithful + n
    return replace(counts, false_alarms=alarms, n_faithful=n)


def _classes_share_groups(sample: Sample) -> bool:
    """Return whether a faithful calibration example shares its group with a hallucinated one."""
    if sample.groups is None:
        return False
    grouped = sample.groups >= 0
    faithful, seen = (sample.groups[sample.rows(CALIBRATION, k) & grouped] for k in (0, 1))
    return bool(np.isin(faithful, seen).any())


def decide_by_groups(
    grouped: conformal.GroupedCalibration | conformal.OverlappingCalibration,
    rows: Sequence[Mapping[str, Any]],
    flagged: Mask,
    sample: Sample,
    requirement: Requirement,
) -> VerdictResult:
    """Return the verdict about all answers where thresholds of groups were made without a test.

    All thresholds keep their promise together. Faithful answers of all groups may be counted
    together where none shares a group of the data with what set a threshold. Else, and where groups
    share a threshold, all answers are certified where all groups are.

    Parameters
    ----------
    grouped, requirement
        As for `by_group`.
    rows : sequence of mapping
        Its rows.
    flagged, sample : ndarray of bool, shape (n,), and Sample
        Decisions about all examples.
    """
    own = all(row["own"] for row in rows)
    proven = certificates.proven_coverage(grouped.fallback)
    proven = proven if own else replace(proven, lower=0.0)
    certificate = certificates.certify_all(proven, sample.one_per_group(flagged), requirement)
    content = {**certificate.to_dict(), "flips": None}
    if (own or certificate.verdict == "rejected") and not _classes_share_groups(sample):
        return VerdictResult(certificate.verdict, "bounds", content)
    every = all(row["verdict"] == "certified" for row in rows)
    left = {
        "verdict": "certified" if every else "inconclusive",
        "coverage_at_least": min(row["coverage_at_least"] for row in rows),
        "fpr_at_most": (at_most := max(row["fpr_at_most"] for row in rows)),
        "region": None,
        # Answers of all groups together refute nothing here: only the ends above decide.
        "coverage": {**content["coverage"], "upper": 1.0},
        "fpr": {**content["fpr"], "lower": 0.0, "upper": at_most},
        **dict.fromkeys(("reason", "reason_code"), "groups_apart"),
    }
    return VerdictResult(left["verdict"], "groups_apart", content | left)


def by_group(
    grouped: conformal.GroupedCalibration,
    names: Sequence[str],
    sample: Sample,
    requirement: Requirement,
    trimmed: RemovalOutcome | None = None,
) -> dict[str, Any]:
    """Return what the thresholds of the groups, and one shared threshold, do in each group.

    Bounds and verdicts are corrected for the number of groups, so that all of them hold together
    with ``confidence``.

    Parameters
    ----------
    grouped : GroupedCalibration
        One threshold per group. The shared one is calibrated by the promise of its fallback.
    names : sequence of str, length n
        Group of each example.
    sample : Sample
        Its test part is looked at.
    requirement : Requirement
        With a ``min_coverage``.
    trimmed : Trimmed, optional
        Where sentences are removed: what the thresholds of the groups leave of the answers.

    Returns
    -------
    dict
        ``min_n``, ``scope``, ``confidence`` and ``rows``, one a group of the test part. Without
        one, ``delta`` is the error of all groups' own thresholds together.
    """
    members = np.asarray(names, dtype=object)
    present = sorted(set(members[sample.rows(CALIBRATION if sample.whole else TEST)].tolist()))
    groups = {name: (members == name, members) for name in present}
    shared, decided = _decided(grouped, names, groups, sample, requirement, trimmed)
    delta, rows = grouped.fallback.delta if sample.whole else None, []
    for name, verdict in decided.items():
        calibration = grouped.of(name)
        rows.append(
            {
                "group": name,
                "own": name in grouped.groups,
                "n_calibration": int(np.sum(sample.rows(CALIBRATION, 1) & (members == name))),
                "threshold": None if calibration.flag_all else calibration.threshold,
                **verdict,
            }
        )
    return {
        "min_n": grouped.min_n,
        "scope": grouped.scope,
        "confidence": requirement.confidence,
        "delta": delta,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "rows": rows,
    }


def _decided(
    grouped: conformal.GroupedCalibration | conformal.OverlappingCalibration,
    names: Sequence[str],
    groups: Mapping[str, tuple[Mask, NDArray[np.object_]]],
    sample: Sample,
    requirement: Requirement,
    trimmed: RemovalOutcome | None,
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return the one threshold for all, and what both do in every group: its verdict, and beside.

    ``groups`` holds the members of each, and the column of names that divides the answers.
    """
    shared = sample.calibrated(replace(grouped.fallback.promise, allow_flag_all=True))
    proven = cast(conformal.GroupedCalibration, grouped).groups if sample.whole else None
    part = CALIBRATION if sample.whole else TEST

    def verdicts(flagged: Mask, proven: Any = None) -> dict[str, conformal.GroupVerdict]:
        counts = {name: sample.counts(flagged, item[0], part) for name, item in groups.items()}
        return conformal.certify_groups(counts, requirement, proven)

    def of_trimmed(left: RemovalOutcome) -> dict[str, conformal.GroupVerdict]:
        parts = {}
        for name, (members, column) in groups.items():
            codes = np.unique(column, return_inverse=True)[1]
            counting = in_order(sample, sample.among_all.drawn(TEST, codes) & members)
            parts[name] = sample.counts(left.stopped, members), left.outcomes.shares(counting)
        return certify_group_trimming(parts, requirement)

    if trimmed is None:
        own = verdicts(grouped.flags(sample.values, names, sample.tolerance), proven)
        beside = verdicts(shared.flags(sample.values, sample.tolerance))
    else:
        own = of_trimmed(trimmed)
        beside = of_trimmed(trimmed.again(np.full(len(sample), shared.threshold)))
    return shared, {
        name: {
            **own[name].to_dict(),
            "shared_coverage": beside[name].certificate.coverage.to_dict(),
            "shared_fpr": beside[name].certificate.fpr.to_dict(),
            "shared_p_undercovered": beside[name].p_undercovered,
        }
        for name in groups
    }


def by_overlapping_groups(
    grouped: conformal.OverlappingCalibration,
    names: Sequence[str],
    sample: Sample,
    requirement: Requirement,
    trimmed: RemovalOutcome | None = None,
) -> dict[str, Any]:
    """Return what the thresholds of overlapping groups do in every group of every column.

    Parameters
    ----------
    grouped : OverlappingCalibration
        One threshold per vector of groups.
    names : sequence of str, length n
        The groups of each example, joined.
    sample, requirement, trimmed
        As for ``by_group``.

    Returns
    -------
    dict
        As from ``by_group``, with ``by``, a ``column`` in every row and the lowest and the highest
        threshold of its test answers; ``n_uncovered`` of the hallucinated ones have a group for
        which nothing is promised, ``n_flagged_by_lack`` of all are flagged whatever their score.
    """
    test = sample.rows(TEST)
    parts = np.array([parted(name, len(grouped.columns)) for name in names], dtype=object)
    groups = {
        (column, str(name)): (parts[:, place] == name, parts[:, place])
        for place, column in enumerate(grouped.columns)
        for name in sorted(set(parts[test, place].tolist()))
    }
    named = {joined(key): item for key, item in groups.items()}
    shared, decided = _decided(grouped, names, named, sample, requirement, trimmed)
    thresholds, covered = grouped.thresholds(names), grouped.is_covered(names)
    rows = []
    for (column, name), (members, _) in groups.items():
        used = thresholds[members & test]
        rows.append(
            {
                "column": column,
                "group": name,
                "own": grouped.has_promise(grouped.columns.index(column), name),
                "n_calibration": int(np.sum(sample.rows(CALIBRATION, 1) & members)),
                "threshold": None,
                "thresholds": [
                    float(end) if np.isfinite(end) else None for end in (used.min(), used.max())
                ],
                **decided[joined((column, name))],
            }
        )
    return {
        "by": list(grouped.columns),
        "cuts": None if grouped.cuts is None else list(grouped.cuts),
        "min_n": grouped.min_n,
        "scope": "all groups",
        "confidence": requirement.confidence,
        "shared_threshold": None if shared.flag_all else shared.threshold,
        "n_uncovered": int(np.sum(sample.rows(TEST, 1) & ~covered)),
        "n_flagged_by_lack": int(np.sum(test & (thresholds == -np.inf))),
        "rows": rows,
    }
