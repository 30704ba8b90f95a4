"""Does a frozen guardrail keep its promise on data that it has never seen?"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Unpack

from calibrail.conformal import (
    Bound,
    Certificate,
    Counts,
    GroupVerdict,
    Risk,
    certify_counts,
    certify_groups,
    exact_bound,
    parse_risk,
)
from calibrail.conformal.certificate import Verdict
from calibrail.data.example import Example
from calibrail.data.sources import Source
from calibrail.errors import DataError, InputError
from calibrail.evaluation.sections.measured_risks import risk_bounds, risk_verdict
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail, group_name
from calibrail.record import plain
from calibrail.report.documents.calibrate_findings import risks_reason
from calibrail.report.documents.certify_warnings import certify_warnings
from calibrail.settings import ReadOptions, Requirement
from calibrail.settings.short import collect_requirement
from calibrail.shown import Shown
from calibrail.workflow.arrays import ArraysShort, source_of
from calibrail.workflow.context import Progress
from calibrail.workflow.inherited import inherited
from calibrail.workflow.sources import Fresh, batches, open_source


@dataclass(frozen=True, slots=True, repr=False)
class Certification(Shown):
    """A certificate with the counts behind it.

    Attributes
    ----------
    certificate : Certificate
        Verdict, exact bounds, and how many more examples would settle an inconclusive one.
    by : str or None
        Column of the groups.
    groups : mapping of str to GroupVerdict, or None
        Every group's own verdict; all of them hold together.
    risks : list of dict, or None
        Each risk that the threshold was chosen to keep, with its exact bound; they hold together.
    blocked : Bound or None
        With a review: the share of faithful answers that were flagged, not merely reviewed.
    n_seen_before : int
        Hallucinated calibration examples found in the data and left out.
    n_undefined, n_errors : int
        Answers without a score, and answers on which the detector failed; both were not passed.
    n_quarantined : int
        Rows that could not be read.
    reading : mapping
        How the data was read: columns, options, what labels meant.
    warnings : tuple of str
        What weakens the certificate, in plain words.
    """

    shown_as = "certify"

    certificate: Certificate
    by: str | None
    groups: Mapping[str, GroupVerdict] | None
    risks: list[dict[str, Any]] | None
    blocked: Bound | None
    n_seen_before: int
    n_undefined: int
    n_errors: int
    n_quarantined: int
    reading: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.certificate.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail certify --json`` prints."""
        by_group = None
        if self.groups is not None:
            rows = [{"group": name, **item.to_dict()} for name, item in sorted(self.groups.items())]
            confidence = self.certificate.confidence
            by_group = {"column": self.by, "confidence": confidence, "rows": rows}
        counts = ("n_seen_before", "n_undefined", "n_errors", "n_quarantined")
        return {
            "schema": "calibrail.certificate/1",
            **self.certificate.to_dict(),
            "risks": self.risks,
            "blocked": plain(self.blocked),
            **{name: getattr(self, name) for name in counts},
            "reading": dict(self.reading),
            "warnings": list(self.warnings),
            "by_group": by_group,
        }


def certify(
    guardrail: Guardrail | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    *,
    by: str | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **short: Unpack[ArraysShort],
) -> Certification:
    """Certify, reject or leave open, on fresh labelled answers.

    The decisions are the guardrail's own, one by one the same as in production. Hallucinated
    answers that set the threshold are recognised by their digest and left out, since a threshold
    cannot be tested on what it was made from.

    Parameters
    ----------
    guardrail : Guardrail or path
        The frozen guardrail, or its file.
    source : path, str or data in memory
        Labelled answers that neither the calibration nor its report has used.
    requirement : Requirement, optional
        Its ``max_fpr`` is the share of faithful answers that may be held back. It is needed, unless
        the threshold was chosen to keep risks: those are certified then. ``confidence`` is that of
        both bounds together.
    by : str, optional
        Column of groups that get a verdict each, corrected for their number.
    reading : ReadOptions, optional
        How to read the file.
    progress : callable, optional
        Called with the number of answers so far.
    **short
        In a short call, fields of the requirement: ``max_fpr``, ``min_coverage``, ``confidence``.
        For a guardrail on scores of another program, ``scores`` and ``labels`` (and ``groups`` and
        ``ids``), one value per answer, in place of ``source``.

    Returns
    -------
    Certification

    Raises
    ------
    DataError
        If a class is missing.
    """
    guardrail, keywords = Guardrail.of(guardrail), dict[str, Any](short)
    column = guardrail.score.params.get("column") if guardrail.score.name == "column" else None
    source = source_of(source, keywords, column)
    requirement = collect_requirement(requirement, keywords)
    risks = tuple(parse_risk(risk) for risk in guardrail.config.requirement.risks)
    limits = _limits(guardrail, requirement, risks)
    columns = guardrail.columns if by is None else (*guardrail.columns, by)
    reading = inherited(reading, guardrail, source, labelled=True)
    examples = open_source(source, reading, keep=columns)
    fresh, tally = Fresh(guardrail), _Tally(by)
    for batch in batches(filter(fresh.admits, examples)):
        for example, decision in zip(batch, guardrail.decide(batch), strict=True):
            tally.add(example, decision)
        if progress is not None:
            progress(sum(tally.n))
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if tally.n[label] == 0:
            seen = fresh.n_seen_before if label == 1 else 0
            left_out = f" ({seen} were left out as calibration examples)" if seen else ""
            raise DataError(
                f"no fresh {name} example to certify on{left_out}; a certificate needs "
                "labelled answers of both classes that the calibration has not seen"
            )
    counts = Counts(tally.stopped[1], tally.n[1], tally.stopped[0], tally.n[0])
    certificate, measured = certify_counts(counts, limits), None
    if risks:
        measured = risk_bounds(risks, counts, requirement.confidence)
        verdict = risk_verdict(measured)
        reason = risks_reason(verdict, measured)
        certificate = replace(certificate, verdict=verdict, reason=reason, flips=None)
    groups = None
    if by is not None:
        by_group = {name: Counts(*cells) for name, cells in sorted(tally.by_group.items())}
        groups = certify_groups(by_group, limits)
    blocked = None
    if guardrail.rule.upper is not None:
        blocked = exact_bound(tally.flagged, tally.n[0], requirement.confidence)
    result = Certification(
        certificate=certificate,
        by=by,
        groups=groups,
        risks=measured,
        blocked=blocked,
        n_seen_before=fresh.n_seen_before,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=examples.n_quarantined,
        reading=examples.how(),
        warnings=(),
    )
    sha256 = examples.digest()
    warnings = certify_warnings(
        result.to_dict(),
        same_file=sha256 is not None and sha256 == guardrail.config.data.sha256,
        n_sharing={"faithful": tally.n_sharing[0], "hallucinated": tally.n_sharing[1]},
        policy=guardrail.config.policy.undefined,
    )
    return replace(result, warnings=tuple(warnings))


def _limits(guardrail: Guardrail, requirement: Requirement, risks: Sequence[Risk]) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them."""
    if requirement.risks:
        raise InputError(
            "the risks that a guardrail keeps are frozen in it, and those are certified; leave out "
            "risks, and calibrate with --risk for others"
        )
    if not risks:
        if requirement.max_fpr is None:
            raise InputError("max_fpr must be given: how many faithful answers may be held back?")
        return replace(requirement, min_coverage=requirement.coverage(guardrail.config.promise))
    if requirement.max_fpr is not None or requirement.min_coverage is not None:
        raise InputError(
            f"this guardrail was chosen to keep {', '.join(map(str, risks))}, and that is what is "
            "certified; leave out max_fpr and min_coverage"
        )
    levels = {risk.name: risk.level for risk in risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)


class _Tally:
    """Counts per class, faithful first; an answer that was not passed counts as stopped."""

    def __init__(self, by: str | None) -> None:
        self._by = by
        self.n, self.stopped, self.n_sharing = [0, 0], [0, 0], [0, 0]
        self.flagged = self.n_undefined = self.n_errors = 0
        self._groups: set[tuple[int, str]] = set()
        #: Caught and all hallucinated answers, false alarms and all faithful ones, by group.
        self.by_group: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer; those flagged only where it is faithful."""
        label, outcome = int(example.label or 0), decision.outcome
        self.n[label] += 1
        self.stopped[label] += outcome != "pass"
        self.flagged += outcome == "flag" and label == 0
        self.n_errors += outcome == "error"
        self.n_undefined += decision.score is None and outcome != "error"
        if self._by is not None:
            counts = self.by_group[group_name(example.columns.get(self._by))]
            counts[2 - 2 * label] += outcome != "pass"
            counts[3 - 2 * label] += 1
        if example.group is not None:
            self.n_sharing[label] += (label, example.group) in self._groups
            self._groups.add((label, example.group))
