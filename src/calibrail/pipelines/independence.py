"""Which answers count: groups, copies, unidentifiable rows.

Equal rows are copies of an answer, or answers that are alike by chance: nothing in them says which.
Taken for independent, six copies of each made 37 of 100 certificates wrong at a stated 12.5.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Certificate
from calibrail.data import example, splits
from calibrail.errors import InputError
from calibrail.evaluation import Report, Sample
from calibrail.evaluation.evaluate import ReportWarning
from calibrail.evaluation.verdict import VerdictResult
from calibrail.options import Promise, Requirement
from calibrail.options.data import judge_of
from calibrail.pipelines import calibration_overlap
from calibrail.pipelines.scoring import Scored
from calibrail.report.messages import say, spell
from calibrail.scores.table import ScoreTable

if TYPE_CHECKING:
    from calibrail.evaluation.compare import Comparison
    from calibrail.guardrail.file import FrozenConfig


def settled(
    certificate: Mapping[str, Any], n_alike: int, *, assumed: bool, judge: str | None = None
) -> dict[str, Any]:
    """Return a certificate in words as rows that are alike, and labels of a judge, leave it.

    Parameters
    ----------
    certificate : mapping
        With ``verdict``, ``reason`` and ``flips``.
    n_alike : int
        Rows that are the same as another one, where they are too many.
    assumed : bool
        Whether the requirement takes all answers as independent.
    judge : str, optional
        What gave the labels, in people's place: a certificate becomes agreement with it.
    """
    if judge is not None and certificate["verdict"] == "certified":
        reason = say("verdict.labels_of_judge", judge=judge)
        return {**certificate, **calibration_overlap.withdrawn_for("labels_of_judge", reason)}
    if not n_alike:
        return dict(certificate)
    if assumed:
        taken = say("verdict.assumed_apart", n=n_alike)
        return {**certificate, "reason": f"{spell(certificate['reason'])} {taken}"}
    if certificate["verdict"] == "inconclusive":
        return dict(certificate)
    reason = say("verdict.rows_alike", n_alike=n_alike)
    return {**certificate, **calibration_overlap.withdrawn_for("rows_alike", reason)}


def naming_judge(
    warnings: Iterable[str], config: "FrozenConfig", judge: str | None
) -> tuple[str, ...]:
    """Return warnings, and before them whose labels set a threshold that people's labels test.

    ``judge`` gave those that test it, in people's place.
    """
    by = judge_of(config.data.reading)
    told = (say("certify.judged_threshold", judge=by),) if by and judge is None else ()
    return *told, *warnings


def settled_report(report: Report) -> Report:
    """Return the report with what rows that are alike leave of its verdicts."""
    n_alike, judge = report.data["n_alike"], judge_of(report.data["reading"])
    n_alike = 0 if report.requirement.assume_independent else n_alike
    if not n_alike and judge is None:
        return report
    withdrawn = None
    if n_alike:
        report = calibration_overlap.without_cost_bound(report)
        withdrawn = None if report.verdict == "inconclusive" else "rows_alike"
    elif report.verdict == "certified":
        withdrawn = "labels_of_judge"
    about = partial(settled, n_alike=n_alike, assumed=False, judge=judge)
    return calibration_overlap.revised_report(report, about, withdrawn)


#: Verdicts, the worse first.
WORSE_FIRST: Final = ("rejected", "inconclusive", "certified")
#: Those that decide: how near copies count at worst may take back the first, at best the second.
DECIDED: Final = ("certified", "rejected")
#: The bounds that a certificate rests on, and which of two is the worse.
_ENDS: Final = {"coverage_at_least": min, "fpr_at_most": max, "kept_at_least": min}


def readings(scored: Scored, requirement: Requirement) -> tuple[Scored, ...]:
    """Return the scores as they count where near copies are copies, and where they are none.

    Nothing tells a reworded answer from another one of the same template, or two answers of one
    number from one that is there twice. So whatever is promised must hold for either.
    """
    table = scored.table
    near = scored.data["n_near_copies"] and not requirement.assume_independent
    each = replace(scored, table=replace(table, copies=table.same, together=table.same))
    return (scored, each) if near else (scored,)


#: Every detector's sample, on the same answers.
Samples: TypeAlias = tuple[Sample, ...]


def extreme(
    ways: Sequence[Samples], apart: NDArray[np.bool_], among_all: NDArray[np.bool_] | None = None
) -> Samples:
    """Return the samples as near copies count at worst, or at best, for one of the detectors.

    At worst each decision counts that is wrong, and of those that are right only what is drawn
    where near copies count once: no way to tell copies counts more wrong ones, or fewer right ones.
    At best it is the reverse (`Sample.between`). Where groups of the data are joined by several
    near copies it is a bound: not every way to join some of them is one to tell copies.

    Parameters
    ----------
    ways : sequence of Samples
        First as near copies count once, then as each of them does.
    apart : ndarray of bool, shape (n,)
        At worst the decisions that are wrong, at best those that are right.
    among_all : ndarray of bool, shape (n,), optional
        The same of what is measured on answers of both classes together: at worst the answers that
        are withheld, or of which too little is kept.
    """
    made = []
    for both in zip(ways[0], ways[1], strict=True):
        sample = both[1].between(both[0], apart)
        if among_all is not None:
            # One of each group counts there, of whichever class.
            once, each = (it.aside(it.rows(splits.TEST) & ~it.drawn(splits.TEST)) for it in both)
            sample = replace(sample, of_all=each.between(once, among_all))
        made.append(sample)
    return tuple(made)


def worse_of(
    ways: Sequence[Mapping[str, Any] | None], n_near: int
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the worse of the first two certificates, and what all leave of it.

    Parameters
    ----------
    ways : sequence of mapping or None
        Where near copies count once, where each counts, and where they count at worst and at best;
        None for one that is not there.
    n_near : int
        How many answers may be near copies.
    """
    known = [item for item in ways if item is not None]
    worse = ways[worse_place(ways)]
    assert worse is not None
    figures = {
        name: item
        and {"verdict": item["verdict"]}
        | {key: [item[key]["count"], item[key]["n"]] for key in ("coverage", "fpr")}
        for name, item in zip(("once", "each", "worst", "best"), ways, strict=False)
    }
    left: dict[str, Any] = {"flips": None, "near_copies": {"n": n_near, **figures}}
    for name, choose in _ENDS.items():
        if name in known[0]:
            left[name] = choose(item[name] for item in known)
    for name in ("coverage", "fpr", "kept"):
        if name in worse:
            left[name] = _hull([item[name] for item in (worse, *known)])
    if all(item.get("region") for item in known):
        regions = [item["region"] for item in known]
        left["region"] = regions[0] | {
            name: _hull([region[name] for region in regions])
            for name in ("coverage", "fpr", "kept")
            if regions[0][name] is not None
        }
        left["reason"] = _reason(known, left["region"]) or worse["reason"]
    against = dict(zip(DECIDED, (ways[2:3], ways[3:]), strict=True)).get(worse["verdict"], ())
    if len({item and item["verdict"] for item in (*ways[:2], *against)}) > 1:
        reason = say("verdict.near_copies", left["near_copies"])
        left |= {"verdict": "inconclusive", "reason": reason, "reason_code": "near_copies"}
    elif against and against[0] is not None:
        # What refutes or proves a limit at its end does so however near copies count.
        left["reason"] = against[0]["reason"]
    return worse, left


def worse_certificate(
    ways: Sequence[Certificate | None], n_near: int
) -> tuple[Certificate, dict[str, Any], int]:
    """Return the worse of certificates as all leave it, their figures, and which it is."""
    plain_ways: list[Mapping[str, Any] | None] = [
        None if item is None else item.to_dict() for item in ways
    ]
    worse, left = worse_of(plain_ways, n_near)
    place = next(at for at, item in enumerate(plain_ways) if item is worse)
    figures, certificate = left.pop("near_copies"), cast(Certificate, ways[place])
    for name in {"coverage", "fpr", "kept"} & left.keys():
        left[name] = type(getattr(certificate, name))(**left[name])
    return replace(certificate, **left), figures, place


def worse_place(ways: Sequence[Mapping[str, Any] | None]) -> int:
    """Return which of the first two certificates is the worse."""
    there = [place for place, item in enumerate(ways[:2]) if item is not None]
    return min(there, key=lambda it: WORSE_FIRST.index(cast(Any, ways[it])["verdict"]))


#: Under which name a region has the shares that a reason names.
_SHARES: Final = {"freed": "coverage", "touched": "fpr"}


def _reason(known: Sequence[Mapping[str, Any]], region: Mapping[str, Any]) -> str:
    """Return the code of limits that bounds leave open, with the bounds that all ways leave."""
    limits, first = dict[str, str](), ""
    for code, *sides in (item["reason"].split(":") for item in known):
        if code in ("limits_unsettled", "limit_missed"):
            first = first or f"limits_unsettled:{sides[0]}"
            limits |= {name: limit for name, limit, *_ in (side.split(",") for side in sides[1:])}
    shown = [first]
    for name, limit in limits.items():
        end = region[_SHARES.get(name, name)]
        shown.append(f"{name},{limit},{end['lower']},{end['upper']}")
    return ":".join(shown)


def _risks(ways: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return measured risks as wide as in all ways, and what these agree to show."""
    joint = []
    for items in zip(*ways, strict=True):
        shown = {item["shown"] for item in items}
        test = _hull([item["test"] for item in items])
        state = shown.pop() if len(shown) == 1 else "open"
        joint.append({**items[0], "test": test, "shown": state})
    return joint


def _hull(shares: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first share, with an interval as wide as all of them."""
    lower, upper = min(item["lower"] for item in shares), max(item["upper"] for item in shares)
    return {**shares[0], "lower": lower, "upper": upper}


def joint_report(
    ways: Sequence[VerdictResult | Report | None], measured: Callable[[int], Report]
) -> tuple[int, Report]:
    """Return the report of the worse of the first two ways, with what all leave of its verdict.

    The figures stand in its certificate, and, where near copies are many, in a warning. Where a
    way is missing, since too few answers are left, nothing is decided.

    Parameters
    ----------
    ways : sequence of VerdictResult, Report or None
        As for `worse_of`; only one where nothing is a near copy.
    measured : callable
        Takes the place of one of the first two, and returns its report.

    Returns
    -------
    (int, Report)
        Which way it is, and what is left of its report.
    """
    certificates = [None if way is None else way.certificate for way in ways]
    place = worse_place(certificates)
    report = measured(place)
    if len(ways) == 1:
        return place, report
    n_near = report.data["n_near_copies"]
    left = worse_of(certificates, n_near)[1]
    known = [way for way in ways if way is not None]
    rows: dict[Any, list[Mapping[str, Any] | None]] = {}
    for at, way in enumerate(ways):
        for row in ((way and way.by_group) or {"rows": ()})["rows"]:
            named = rows.setdefault((row.get("column"), row["group"]), [None] * len(ways))
            named[at] = row

    def change(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**row, **worse_of(rows[row.get("column"), row["group"]], n_near)[1]}

    report = calibration_overlap.revised_report(report, change, left.get("reason_code"))
    risks = [way.measured for way in known if isinstance(way, VerdictResult) and way.measured]
    if risks:
        report = replace(report, risks={**cast(Any, report.risks), "measured": _risks(risks)})
    costs = [item.cost for item in known if item.cost is not None]
    report = replace(
        report,
        certificate={**report.certificate, **left},
        cost=max(costs, key=lambda cost: float(cost["upper"]), default=None),
    )
    if "reason_code" not in left and n_near > calibration_overlap.ALIKE * report.data["n_examples"]:
        warnings = (*report.warnings, ReportWarning("near_copies", values=left["near_copies"]))
        report = replace(report, warnings=warnings)
    return place, report


#: The verdicts about a detector, and about it as the candidate, at worst and at best.
Ends: TypeAlias = Sequence[tuple[VerdictResult, Mapping[str, Any]]]


def joint_comparison(comparisons: "Sequence[Comparison]", ends: Mapping[str, Ends]) -> "Comparison":
    """Return the first of some comparisons, with what the others leave of its verdicts.

    A winner that is not the same everywhere is none that is certified.

    Parameters
    ----------
    comparisons : sequence of Comparison
        Where near copies count once, and where each of them does.
    ends : mapping of str to Ends
        By detector.
    """
    once, *others = comparisons
    if not others:
        return once
    reports = []
    for name, report in once.detectors:
        if (beside := dict(others[0].detectors).get(name)) is not None:
            both = report, beside
            report = joint_report(
                [*both, *(way for way, _ in ends.get(name, ()))], both.__getitem__
            )[1]
        reports.append((name, report))
    from calibrail.evaluation.winner import against_reference

    winner = once.winner
    if any(item.winner.name != winner.name for item in others):
        winner = winner.without_winner("near_copies")
    if winner.candidate_certificate is not None:
        ways = []
        for other in (item.winner for item in others):
            alike = winner.name in (None, other.name) and winner.candidate == other.candidate
            ways.append(other.candidate_certificate if alike else None)
        ways += [certificate for _, certificate in ends.get(str(winner.candidate), ())]
        n_near = reports[0][1].data["n_near_copies"]
        left = worse_of([winner.candidate_certificate, *ways], n_near)[1]
        certificate = {**winner.candidate_certificate, **left}
        winner = replace(winner, candidate_certificate=certificate)
    if winner.reference is not None and (ways := [item.winner.reference for item in comparisons]):
        known = [way["detectors"] for way in ways if way is not None]
        fpr = {row["name"]: [row["fpr"]] for row in known[0]}
        for row in (row for rows in known[1:] for row in rows):
            fpr.setdefault(row["name"], []).append(row["fpr"])
        each = [item for way in ways if way is not None for item in way["apart"].items()]
        apart = dict(sorted(each, key=lambda item: item[1]))
        name, margin = winner.reference["name"], winner.reference["margin"]
        winner = replace(winner, reference=against_reference(name, margin, fpr, apart))
    return replace(once, detectors=tuple(reports), winner=winner)


def independent(
    scored: Scored,
    promise: Promise,
    requirement: Requirement,
    names: Sequence[str] | None = None,
    *,
    halved: bool = False,
) -> tuple[tuple[Sample, ...], Promise]:
    """Return every detector's sample in which independent answers count, and what is promised.

    Of answers that are copies of one another one of each class counts (with risks, one), on the
    first side that they are on. Where groups hold several answers of a class, these are not
    independent. Then one answer of each group and class counts on the test part and among the
    faithful calibration answers, and the threshold counts each group of the hallucinated ones once.
    Thresholds by a column take one answer of each group, class and value, those by several columns,
    which come of all answers at once, one of each group and class; risks, which are about
    answers of both classes together, one answer of each group. Which answer it is, a hash of its
    content decides.

    Parameters
    ----------
    scored : Scored
        Scores, split and groups.
    promise, requirement : Promise and Requirement
        What was asked for. ``assume_independent`` lets every answer count.
    names : sequence of str, length n, optional
        The values of the promise's ``by``.
    halved : bool
        Whether lots will divide the answers again.

    Returns
    -------
    (tuple of Sample, Promise)
        One sample a detector, on the same answers; the promise with ``clustered`` as it is kept.

    Raises
    ------
    InputError
        If ``clustered`` was asked for and no answer has a group.
    """
    table = scored.table
    samples = tuple(scored.sample(index) for index in range(len(scored.detectors)))
    if promise.clustered and table.groups.null_count == len(table):
        raise InputError(say("refused.clustered_without_groups"))
    paper = promise.guarantee == "paper"
    if halved or scored.answers is not None:
        # Halves, and the order of bets on what is kept of answers, are not those of their rows.
        lots = scored.lots
        samples = tuple(replace(sample, lot=lots) for sample in samples)
    if requirement.assume_independent:
        return tuple(replace(sample, independent=True) for sample in samples), promise
    first, both = samples[0], bool(requirement.risks)
    alike = table.copies is not None and bool((table.copies >= 0).any())
    groups = first.groups
    if not alike and (groups is None or not example.n_repeated(groups)):
        return samples, promise
    drawn = scored.lots if first.lot is None else first.lot
    if alike:
        samples = tuple(_each_once(sample, table, drawn, both=both) for sample in samples)
        first = samples[0]
    used = first.rows(splits.CALIBRATION) | first.rows(splits.TEST)
    # Risks are about answers of both classes, so that one of each in a group are two already.
    pairs = both and groups is not None and len(np.unique(groups[used])) < np.sum(used)
    if not (pairs or first.n_sharing(used)):
        return tuple(replace(sample, lot=drawn) for sample in samples), promise
    hallucinated = first.rows(splits.CALIBRATION, 1)
    rows = (first.rows(splits.TEST) | first.rows(splits.CALIBRATION, 0)) & ~hallucinated
    shared: list[NDArray[Any]] = [first.labels]
    if requirement.risks:
        rows, shared = used, []
    elif names is not None:
        rows = rows | hallucinated
        if not isinstance(promise.by, tuple):
            shared = [first.labels, np.unique(names, return_inverse=True)[1]]
    thinned = tuple(sample.thinned(rows, drawn, *shared) for sample in samples)
    return thinned, replace(promise, clustered=not paper)


def _each_once(
    sample: Sample, table: ScoreTable, drawn: NDArray[np.uint64], *, both: bool
) -> Sample:
    """Return the sample in which of copies one of each class counts, or one of both classes."""
    assert table.copies is not None
    # A user's own split may put copies on two sides: what set a threshold cannot test it.
    again = splits.earliest_split(table.copies, sample.split) != sample.split
    first = sample.aside(again)
    alike = replace(first, groups=table.copies)
    rows = alike.rows(splits.CALIBRATION) | alike.rows(splits.TEST)
    once = alike.thinned(rows, drawn, *([] if both else [sample.labels]))
    return replace(once, groups=sample.groups)
