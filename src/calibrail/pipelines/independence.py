"""Which answers count: groups, copies, unidentifiable rows.

Equal rows are copies of an answer, or answers that are alike by chance: nothing in them says which.
Taken for independent, six copies of each made 37 of 100 certificates wrong at a stated 12.5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from struct import pack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data import duplicates, example, splits
from calibrail.errors import InputError
from calibrail.evaluation import Comparison, Report, Sample
from calibrail.evaluation.evaluate import ReportWarning
from calibrail.options import Promise, ReadOptions, Requirement
from calibrail.options.fields import spell_option
from calibrail.pipelines.calibration_overlap import ALIKE, revised_report, withdrawn_for
from calibrail.pipelines.scoring import Scored
from calibrail.report.documents.calibrate_sections import assumed_apart
from calibrail.report.messages import say, spell
from calibrail.scores.table import ScoreTable


def settled(certificate: Mapping[str, Any], n_alike: int, *, assumed: bool) -> dict[str, Any]:
    """Return a certificate in words as rows that are alike leave it.

    Parameters
    ----------
    certificate : mapping
        With ``verdict``, ``reason`` and ``flips``.
    n_alike : int
        Rows that are the same as another one, where they are too many.
    assumed : bool
        Whether the requirement takes all answers as independent.
    """
    if not n_alike:
        return dict(certificate)
    if assumed:
        return {**certificate, "reason": f"{spell(certificate['reason'])} {assumed_apart(n_alike)}"}
    if certificate["verdict"] == "inconclusive":
        return dict(certificate)
    return {
        **certificate,
        **withdrawn_for("rows_alike", say("verdict.rows_alike", n_alike=n_alike)),
    }


def settled_report(report: Report) -> Report:
    """Return the report with what rows that are alike leave of its verdicts."""
    n_alike, assumed = report.data["n_alike"], report.requirement.assume_independent
    if not n_alike or assumed:
        return report
    withdrawn = None if report.verdict == "inconclusive" else "rows_alike"
    return revised_report(report, lambda row: settled(row, n_alike, assumed=False), withdrawn)


#: Verdicts, the worse first.
_WORSE_FIRST: Final = ("rejected", "inconclusive", "certified")
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


def worse_of(
    once: Mapping[str, Any] | None, each: Mapping[str, Any] | None, n_near: int
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the worse of two certificates, and what both leave of it.

    Parameters
    ----------
    once, each : mapping
        Where near copies count once, and where each counts; None for one that is not there.
    n_near : int
        How many answers may be near copies.
    """
    both = {"once": once, "each": each}
    known = [item for item in both.values() if item is not None]
    worse = min(known, key=lambda item: _WORSE_FIRST.index(item["verdict"]))
    figures = {
        name: item
        and {"verdict": item["verdict"]}
        | {key: [item[key]["count"], item[key]["n"]] for key in ("coverage", "fpr")}
        for name, item in both.items()
    }
    left: dict[str, Any] = {"flips": None, "near_copies": {"n": n_near, **figures}}
    for name, choose in _ENDS.items():
        if name in known[0]:
            left[name] = choose(item[name] for item in known)
    if all(item.get("region") for item in known):
        left["region"] = _hull([item["region"] for item in known])
    if len({item and item["verdict"] for item in both.values()}) > 1:
        reason = say("verdict.near_copies", left["near_copies"])
        left |= {"verdict": "inconclusive", "reason": reason, "reason_code": "near_copies"}
    return worse, left


def _hull(regions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first region, as wide as all of them."""
    hull = dict(regions[0])
    for name in ("coverage", "fpr", "kept"):
        if ends := [region[name] for region in regions if region[name] is not None]:
            lower, upper = min(end["lower"] for end in ends), max(end["upper"] for end in ends)
            hull[name] = {**ends[0], "lower": lower, "upper": upper}
    return hull


def joint_report(reports: Sequence[Report]) -> tuple[int, Report]:
    """Return the worse of the reports where near copies count once and where each of them does.

    Both figures stand in its certificate, and, where near copies are many, in a warning. Without
    the first report, since too few answers are left, nothing is decided.

    Returns
    -------
    (int, Report)
        Which of the reports it is, and what is left of it.
    """
    each, n_near = reports[-1], reports[-1].data["n_near_copies"]
    once = reports[0].certificate if len(reports) > 1 else None
    worse, left = worse_of(once, each.certificate, n_near)
    place = next(i for i, item in enumerate(reports) if item.certificate is worse)
    rows: dict[Any, list[Mapping[str, Any]]] = {}
    for report in reports:
        for row in (report.by_group or {"rows": ()})["rows"]:
            rows.setdefault((row.get("column"), row["group"]), []).append(row)

    def change(row: Mapping[str, Any]) -> Mapping[str, Any]:
        pair = rows[row.get("column"), row["group"]]
        return {**row, **worse_of(pair[0] if len(pair) > 1 else None, pair[-1], n_near)[1]}

    report = revised_report(reports[place], change, left.get("reason_code"))
    report = replace(report, certificate={**report.certificate, **left})
    if "reason_code" not in left and n_near > ALIKE * each.data["n_examples"]:
        warnings = (*report.warnings, ReportWarning("near_copies", values=left["near_copies"]))
        report = replace(report, warnings=warnings)
    return place, report


def joint_comparison(once: Comparison, each: Comparison) -> Comparison:
    """Return a comparison where near copies count once, with what is left where each of them does.

    A winner that is not the same in both is none that is certified.
    """
    others = dict(each.detectors)
    reports = [
        (name, joint_report([report, others[name]])[1] if name in others else report)
        for name, report in once.detectors
    ]
    winner = once.winner
    if winner.certificate is not None:
        beside = each.winner.certificate if each.winner.name == winner.name else None
        left = worse_of(winner.certificate, beside, reports[0][1].data["n_near_copies"])[1]
        winner = replace(winner, certificate={**winner.certificate, **left})
    return replace(once, detectors=tuple(reports), winner=winner)


def tie_break_keys(
    digests: NDArray[np.uint64],
    labels: NDArray[np.int8],
    told_by: Callable[[int], str],
    scores: Sequence[NDArray[np.float64]],
    seed: int = 0,
) -> NDArray[np.uint64]:
    """Return the lot of every answer, shape (n,): the lowest of its group counts.

    It follows from the answer's content, its label and the seed, never from its place in a file or
    from a score, so that every detector counts the same answers. What has the same texts and label
    is told apart by its id, or by what else its row holds; where neither is known, by the bits of
    all scores, in any order of these, which favour neither high values nor low ones. Where all is
    the same but the label, either class may come first.

    Parameters
    ----------
    digests : ndarray of uint64, shape (n,)
        Of the answers' contents.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated, 0 = faithful.
    told_by : callable
        Takes a row, and returns its id or what it holds (`Example.told_by`).
    scores : sequence of ndarrays of float64, shape (n,)
        What every detector says of them.
    seed : int
        Of the split.
    """

    def lot(content: bytes, label: int) -> int:
        drawn = blake2b(content, digest_size=7).digest()
        return int.from_bytes(drawn, "big") << 1 | label ^ (drawn[0] & 1)

    ends = pack("<Q", seed % 2**64)
    pairs = zip(digests.tolist(), labels.tolist(), strict=True)
    drawn = (lot(pack("<Q", digest) + ends, label) for digest, label in pairs)
    lots = np.fromiter(drawn, np.uint64, len(digests))
    _, member, sizes = np.unique(lots, return_inverse=True, return_counts=True)
    for row in np.flatnonzero(sizes[member] > 1).tolist():
        told = told_by(row).encode("utf-8", "surrogatepass")
        told = told or b"".join(sorted(pack("<d", values[row]) for values in scores))
        lots[row] = lot(pack("<Q", int(digests[row])) + ends + told, int(labels[row]))
    return lots


def lots_of(scored: Scored) -> NDArray[np.uint64]:
    """Return the lots of a table's answers by the seed of its split."""
    table, seed = scored.table, scored.data["split"]["seed"] or 0
    scores, answers = [table.columns[key] for key in scored.keys], scored.answers
    # Rows of scores alone have the same digest where all that they hold is the same.
    told_by = (lambda row: "") if answers is None else lambda row: answers[row].told_by
    return tie_break_keys(table.digests, table.labels, told_by, scores, seed)


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
        raise InputError(
            "clustered needs groups, and no answer has one; name their column "
            f"({spell_option(ReadOptions, 'group_column')})"
        )
    paper = promise.guarantee == "paper"
    if halved or scored.answers is not None:
        # Halves, and the order of bets on what is kept of answers, are not those of their rows.
        lots = lots_of(scored)
        samples = tuple(replace(sample, lot=lots) for sample in samples)
    if requirement.assume_independent:
        return tuple(replace(sample, independent=True) for sample in samples), promise
    first, both = samples[0], bool(requirement.risks)
    alike = table.copies is not None and bool((table.copies >= 0).any())
    groups = first.groups
    if not alike and (groups is None or not example.n_repeated(groups)):
        return samples, promise
    drawn = lots_of(scored) if first.lot is None else first.lot
    if alike:
        samples = tuple(_each_once(sample, table, drawn, both=both) for sample in samples)
        first = samples[0]
    used = first.rows(splits.CALIBRATION) | first.rows(splits.TEST)
    # Risks are about answers of both classes, so that one of each in a group are two already.
    pairs = both and groups is not None and len(np.unique(groups[used])) < np.sum(used)
    if not (pairs or first.n_sharing(used)):
        return samples, promise
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
    again = duplicates.earliest_split(table.copies, sample.split) != sample.split
    first = sample.aside(again)
    alike = replace(first, groups=table.copies)
    rows = alike.rows(splits.CALIBRATION) | alike.rows(splits.TEST)
    once = alike.thinned(rows, drawn, *([] if both else [sample.labels]))
    return replace(once, groups=sample.groups)
