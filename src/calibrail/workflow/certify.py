"""Does a frozen guardrail keep its promise on data that it has never seen?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from calibrail.conformal import (
    Certificate,
    GroupCounts,
    GroupVerdict,
    certify_counts,
    certify_groups,
)
from calibrail.data.example import Example
from calibrail.errors import DataError
from calibrail.guardrail.runtime import Guardrail, group_name
from calibrail.workflow.scoring import Progress, ReadOptions, Source, open_source

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
    n_seen_before: int
    n_undefined: int
    n_errors: int
    n_quarantined: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail certify --json`` prints."""
        return {
            "schema": "calibrail.certificate/1",
            **self.certificate.to_dict(),
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
    *,
    max_fpr: float,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    by: str | None = None,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
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
    max_fpr : float
        The share of faithful answers that may be flagged.
    min_coverage : float, optional
        The share of hallucinations that must be caught; 1 - alpha when left out.
    confidence : float
        Joint confidence of both bounds.
    by : str, optional
        Column of groups that get a verdict each, corrected for their number.

    Returns
    -------
    Certification

    Raises
    ------
    DataError
        If a class is missing.
    """
    required = 1.0 - guardrail.calibration.alpha if min_coverage is None else min_coverage
    columns = (*guardrail.columns, *(() if by is None or by in guardrail.columns else (by,)))
    examples, opened = open_source(source, reading or ReadOptions(), require=(), keep=columns)
    seen = set(guardrail.config.data.calibration_examples)
    tally = _Tally()
    for batch in _batches(examples):
        fresh = [
            example for example in batch if not (example.label == 1 and example.digest() in seen)
        ]
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
    certificate = certify_counts(
        tally.stopped[1],
        tally.n[1],
        tally.stopped[0],
        tally.n[0],
        required,
        max_fpr,
        confidence,
    )
    verdicts = None
    if by is not None:
        verdicts = certify_groups(tally.counts(), required, max_fpr, confidence)
    return Certification(
        certificate=certificate,
        by=by,
        groups=verdicts,
        n_seen_before=tally.n_seen_before,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=opened.n_quarantined if opened is not None else 0,
        warnings=tuple(tally.warnings(guardrail, opened.digest() if opened else None)),
    )


class _Tally:
    """Counts per class; an answer that was not passed counts as stopped."""

    def __init__(self) -> None:
        self.n = [0, 0]
        self.stopped = [0, 0]
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
        self.n_errors += outcome == "error"
        self.n_undefined += undefined and outcome != "error"
        if example.group is not None:
            self.shared_groups[label] += example.group in self.groups[label]
            self.groups[label].add(example.group)

    def counts(self) -> dict[str, GroupCounts]:
        """Return each group's counts: caught of hallucinated, false alarms of faithful."""
        return {name: GroupCounts(*found) for name, found in sorted(self.by_group.items())}

    def warnings(self, guardrail: Guardrail, sha256: str | None) -> Iterator[str]:
        if self.n_seen_before:
            yield (
                f"{self.n_seen_before} hallucinated answers set the threshold and were left out; "
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


def _batches(examples: Iterator[Example]) -> Iterator[list[Example]]:
    while batch := list(islice(examples, BLOCK)):
        yield batch
