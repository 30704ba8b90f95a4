"""Does a frozen guardrail keep its promise on data that it has never seen?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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
from calibrail.errors import DataError, InputError
from calibrail.evaluation.sections.measured_risks import risk_bounds, risk_verdict
from calibrail.guardrail.runtime import Guardrail, group_name
from calibrail.report.documents.calibrate_findings import risks_reason
from calibrail.settings import ReadOptions, Requirement
from calibrail.settings.short import Limits, collect_requirement
from calibrail.workflow.context import Progress
from calibrail.workflow.sources import Source, open_source

BLOCK = 256


@dataclass(frozen=True, slots=True)
class Certification:
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
    warnings : tuple of str
        What weakens the certificate, in plain words.
    """

    certificate: Certificate
    by: str | None
    groups: Mapping[str, GroupVerdict] | None
    risks: list[dict[str, Any]] | None
    blocked: Bound | None
    n_seen_before: int
    n_undefined: int
    n_errors: int
    n_quarantined: int
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.certificate.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail certify --json`` prints."""
        return {
            "schema": "calibrail.certificate/1",
            **self.certificate.to_dict(),
            "risks": self.risks,
            "blocked": None if self.blocked is None else self.blocked.to_dict(),
            "n_seen_before": self.n_seen_before,
            "n_undefined": self.n_undefined,
            "n_errors": self.n_errors,
            "n_quarantined": self.n_quarantined,
            "warnings": list(self.warnings),
            "by_group": None
            if self.groups is None
            else {
                "column": self.by,
                "confidence": self.certificate.confidence,
                "rows": [
                    {"group": name, **item.to_dict()} for name, item in sorted(self.groups.items())
                ],
            },
        }


def certify(
    guardrail: Guardrail,
    source: Source,
    requirement: Requirement | None = None,
    *,
    by: str | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **short: Unpack[Limits],
) -> Certification:
    """Certify, reject or leave open, on fresh labelled answers.

    The decisions are the guardrail's own, one by one the same as in production. Hallucinated
    answers that set the threshold are recognised by their digest and left out, since a threshold
    cannot be tested on what it was made from.

    Parameters
    ----------
    guardrail : Guardrail
        The frozen guardrail.
    source : path, str or iterable of Example
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

    Returns
    -------
    Certification

    Raises
    ------
    DataError
        If a class is missing.
    """
    requirement = collect_requirement(requirement, short)
    risks = tuple(parse_risk(risk) for risk in guardrail.config.requirement.risks)
    limits = _limits(guardrail, requirement, risks)
    columns = (*guardrail.columns, *(() if by is None or by in guardrail.columns else (by,)))
    examples, opened = open_source(source, reading or ReadOptions(), require=(), keep=columns)
    seen = set(guardrail.config.data.calibration_examples)
    tally = _Tally()
    for batch in _batches(examples):
        fresh = [example for example in batch if example.digest() not in seen]
        tally.n_seen_before += len(batch) - len(fresh)
        for example, decision in zip(fresh, guardrail.decide(fresh), strict=True):
            tally.add(example, decision.outcome, decision.score is None, by)
        if progress is not None:
            progress(tally.n[0] + tally.n[1])
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if tally.n[label] == 0:
            left_out = f" ({tally.n_seen_before} were left out as calibration examples)"
            raise DataError(
                f"no fresh {name} example to certify on"
                f"{left_out if tally.n_seen_before and label == 1 else ''}; a certificate needs "
                "labelled answers of both classes that the calibration has not seen"
            )
    counts = Counts(tally.stopped[1], tally.n[1], tally.stopped[0], tally.n[0])
    certificate = certify_counts(counts, limits)
    measured = None
    if risks:
        measured = risk_bounds(risks, counts, requirement.confidence)
        verdict = risk_verdict(measured)
        reason = risks_reason(verdict, measured)
        certificate = replace(certificate, verdict=verdict, reason=reason, flips=None)
    verdicts = None
    if by is not None:
        verdicts = certify_groups(tally.counts(), limits)
    return Certification(
        certificate=certificate,
        by=by,
        groups=verdicts,
        risks=measured,
        blocked=tally.blocked(guardrail, requirement.confidence),
        n_seen_before=tally.n_seen_before,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=opened.n_quarantined if opened is not None else 0,
        warnings=(
            *tally.warnings(guardrail, opened.digest() if opened else None),
            *_rejected_groups(verdicts, certificate.verdict),
        ),
    )


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
    """Counts per class; an answer that was not passed counts as stopped."""

    def __init__(self) -> None:
        self.n = [0, 0]
        self.stopped = [0, 0]
        self.flagged = [0, 0]
        self.n_seen_before = 0
        self.n_undefined = 0
        self.n_errors = 0
        self.groups: tuple[set[str], set[str]] = (set(), set())
        self.shared_groups = [0, 0]
        self.by_group: dict[str, list[int]] = {}

    def add(self, example: Example, outcome: str, undefined: bool, by: str | None) -> None:
        label = int(example.label or 0)
        self.n[label] += 1
        if by is not None:
            counts = self.by_group.setdefault(group_name(example.columns.get(by)), [0, 0, 0, 0])
            counts[3 - 2 * label] += 1
            counts[2 - 2 * label] += outcome != "pass"
        self.stopped[label] += outcome != "pass"
        self.flagged[label] += outcome == "flag"
        self.n_errors += outcome == "error"
        self.n_undefined += undefined and outcome != "error"
        if example.group is not None:
            self.shared_groups[label] += example.group in self.groups[label]
            self.groups[label].add(example.group)

    def counts(self) -> dict[str, Counts]:
        """Return each group's counts: caught of hallucinated, false alarms of faithful."""
        return {name: Counts(*found) for name, found in sorted(self.by_group.items())}

    def blocked(self, guardrail: Guardrail, confidence: float) -> Bound | None:
        """Return the share of faithful answers that a guardrail with a review flags."""
        if guardrail.rule.upper is None:
            return None
        return exact_bound(self.flagged[0], self.n[0], confidence)

    def warnings(self, guardrail: Guardrail, sha256: str | None) -> Iterator[str]:
        if self.n_seen_before:
            yield (
                f"{self.n_seen_before} answers set the threshold and were left out; "
                "certify on data that the calibration has not seen"
            )
        if sha256 is not None and sha256 == guardrail.config.data.sha256:
            yield (
                "this is the very file that the guardrail was calibrated on: its test half has "
                "been looked at, and its faithful answers share questions with the calibration "
                "half; a certificate needs fresh data"
            )
        for label, name in ((1, "hallucinated"), (0, "faithful")):
            if self.shared_groups[label]:
                yield (
                    f"{self.shared_groups[label]} of {self.n[label]} {name} answers share a group "
                    "(a question, a source) with another one; the bounds take answers as "
                    "independent, so they are somewhat too narrow"
                )
        if self.n_errors:
            yield f"the detector failed on {self.n_errors} answers; they count as not passed"
        if self.n_undefined:
            policy = guardrail.config.policy.undefined
            yield f"{self.n_undefined} answers have no score; the guardrail's policy is {policy}"


def _rejected_groups(verdicts: Mapping[str, GroupVerdict] | None, overall: str) -> Iterator[str]:
    """Name the groups that are rejected although the verdict about all answers together is not."""
    bad = [
        name for name, item in (verdicts or {}).items() if item.certificate.verdict == "rejected"
    ]
    if bad and overall != "rejected":
        yield (f"the verdict is about all answers together; rejected by itself: {', '.join(bad)}")


def _batches(examples: Iterator[Example]) -> Iterator[list[Example]]:
    while batch := list(islice(examples, BLOCK)):
        yield batch
