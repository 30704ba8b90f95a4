"""May a verdict rest on rows of scores, of which many cannot be told from one another?

Equal rows are copies of an answer, or answers that are alike by chance: nothing in them says which.
Taken for independent, six copies of each made 37 of 100 certificates wrong at a stated 12.5.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrail.conformal import Certificate, GroupVerdict
from calibrail.evaluation import Report
from calibrail.report.documents.calibrate_findings import alike, assumed_apart


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
        return {**certificate, "reason": certificate["reason"] + assumed_apart(n_alike)}
    if certificate["verdict"] == "inconclusive":
        return dict(certificate)
    return {**certificate, "verdict": "inconclusive", "reason": alike(n_alike), "flips": None}


def settled_certificates(
    certificate: Certificate,
    groups: Mapping[str, GroupVerdict] | None,
    n_alike: int,
    *,
    assumed: bool,
) -> tuple[Certificate, Mapping[str, GroupVerdict] | None]:
    """Return what rows that are alike leave of a certificate, and of those of groups."""

    def of(item: Certificate) -> Certificate:
        said = {name: getattr(item, name) for name in ("verdict", "reason", "flips")}
        return replace(item, **settled(said, n_alike, assumed=assumed))

    if groups is not None:
        groups = {
            name: replace(item, certificate=of(item.certificate)) for name, item in groups.items()
        }
    return of(certificate), groups


def settled_report(report: Report) -> Report:
    """Return the report with what rows that are alike leave of its verdicts."""
    n_alike, assumed = report.data["n_alike"], report.requirement.assume_independent
    if not n_alike or assumed:
        return report
    if report.by_group is not None:
        rows = [settled(row, n_alike, assumed=False) for row in report.by_group["rows"]]
        report = replace(report, by_group={**report.by_group, "rows": rows})
    if report.verdict == "inconclusive":
        return report
    certificate = {**report.certificate, "verdict": "inconclusive", "flips": None}
    return replace(report, verdict="inconclusive", reason="rows_alike", certificate=certificate)
