"""What did fresh labelled answers show about a frozen guardrail?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrail.conformal import Bound, Certificate, GroupVerdict
from calibrail.conformal.certificate import Verdict
from calibrail.evaluation.trimmed import Delivered
from calibrail.record import plain
from calibrail.shown import Shown
from calibrail.workflow.freshness import Freshness


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
    n_set_aside : int
        Answers that did not count, since another one of their group and class did.
    assumed_independent : int
        Answers that share their group with an earlier one of their class, and that counted
        nevertheless, since the requirement takes all answers as independent.
    n_undefined, n_errors : int
        Answers without a score (of a guardrail of sentences: with a sentence without one), and
        answers on which the detector failed, which were not passed.
    n_quarantined : int
        Rows that could not be read.
    reading : mapping
        How the data was read: columns, options, what labels meant.
    warnings : tuple of str
        What weakens the certificate, in plain words.
    data : mapping
        What the data is called, and how many answers were read.
    freshness : {"new", "calibration data", "unknown", "declared"}
        Whether the answers are other ones than those that set the threshold: as seen, or as the
        user says where that cannot be seen.
    copies : mapping
        Answers that were taken for copies, word for word or nearly, as ``n``, their groups, the
        ``largest`` of these, and how many were known by their scores alone, as ``n_by_scores``.
    looks : tuple of mapping
        Earlier looks at this guardrail on answers of this data, its own report's among them, with
        the share of the answers that each was the first to look at; from a tenth of them together
        nothing is certified.
    sequential : mapping or None
        Of a verdict from a folder of labels, which holds at any time: the e-processes, what was
        drawn and labelled, how two people agree, and how many more labels to expect.
    torn : tuple of str
        Files of labels whose last line a crash had torn, and which is cut off now; not part of
        ``to_dict``, which is the same ever after.
    delivered : Delivered or None
        Of a guardrail of sentences: what is freed, kept, emptied, left whole and reviewed.
    failed : Bound or None
        Of a guardrail of sentences: answers on which the detector failed. Nothing of them is shown,
        so that they count as freed and keep nothing; they are not among the reviewed ones.
    n_undefined_sentences : int
        Of a guardrail of sentences: those without a score.
    """

    shown_as = "certify"

    certificate: Certificate
    by: str | None
    groups: Mapping[str, GroupVerdict] | None
    risks: list[dict[str, Any]] | None
    blocked: Bound | None
    n_seen_before: int
    n_set_aside: int
    assumed_independent: int
    n_undefined: int
    n_errors: int
    n_quarantined: int
    reading: Mapping[str, Any]
    warnings: tuple[str, ...]
    data: Mapping[str, Any]
    freshness: Freshness = "new"
    looks: tuple[Mapping[str, Any], ...] = ()
    copies: Mapping[str, int] = field(default_factory=dict)
    sequential: Mapping[str, Any] | None = None
    torn: tuple[str, ...] = ()
    delivered: Delivered | None = None
    failed: Bound | None = None
    n_undefined_sentences: int = 0

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
        counts = (
            "n_seen_before",
            "n_set_aside",
            "assumed_independent",
            "n_undefined",
            "n_errors",
            "n_quarantined",
        )
        sequential = {} if self.sequential is None else {"sequential": dict(self.sequential)}
        trimming = {}
        if self.delivered is not None:
            trimming = {
                "unit": "sentence",
                **self.delivered.to_dict(),
                "failed": plain(self.failed),
                "n_undefined_sentences": self.n_undefined_sentences,
            }
        return {
            "schema": "calibrail.certificate/1",
            **self.certificate.to_dict(),
            **trimming,
            "risks": self.risks,
            "blocked": plain(self.blocked),
            **{name: getattr(self, name) for name in counts},
            "copies": dict(self.copies),
            "reading": dict(self.reading),
            "warnings": list(self.warnings),
            "data": dict(self.data),
            "freshness": self.freshness,
            "looks": [dict(look) for look in self.looks],
            "by_group": by_group,
            **sequential,
        }
