"""Certification of a frozen guardrail on fresh labelled answers."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import (
    Bound,
    Certificate,
    ClassCounts,
    GroupVerdict,
    Risk,
    certify_counts,
    certify_groups,
    exact_bound,
    parse_risk,
)
from calibrail.conformal.certificate import certify_group_trimming, certify_trimming
from calibrail.conformal.groups import group_name
from calibrail.data.dataset import Dataset
from calibrail.data.duplicates import CopyFinder, CopyGroups, merge_groups
from calibrail.data.example import Example
from calibrail.data.formats import Source
from calibrail.data.reading import Reading
from calibrail.data.sentences import sentence_examples
from calibrail.data.splits import group_numbers
from calibrail.errors import DataError, InputError
from calibrail.evaluation.removal import Delivered, Outcomes, shuffled
from calibrail.evaluation.sections import risk_bounds, risk_verdict
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import ReadOptions, Requirement, fields
from calibrail.options.fields import cli_or_python, optional, spell_option
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines.calibration_overlap import Fresh, KnownBy, told_apart, without_proof
from calibrail.pipelines.certify_labels import Certification, certify_labels
from calibrail.pipelines.data_reuse import (
    DataUse,
    DataUseHistory,
    TestSetFingerprint,
    group_certificates_after_reuse,
    to_report_rows,
)
from calibrail.pipelines.independence import settled_certificates, tie_break_key
from calibrail.pipelines.loading import Progress, batches, open_for, source_columns, source_of
from calibrail.pipelines.run import inherited_reading
from calibrail.report.documents.calibrate_messages import assumed, risks_reason
from calibrail.report.documents.certify import certify_warnings

#: What is kept of an outcome: passed, stopped for review or by an error, flagged.
_FLAGGED: Final = 2


class DecisionCounts:
    """Counts decisions, one answer of each group and class, in any order of the answers.

    Copies of an answer and all of their groups are one group. Of each the answer with the lowest
    lot counts. About 400 bytes are kept of an answer, and no text.

    Parameters
    ----------
    by : str or None
        Column whose values are counted each by itself, too.
    once : bool
        Whether one answer of a group counts, or every answer.
    columns : iterable of str
        Columns that the detector reads.
    """

    def __init__(self, by: str | None, *, once: bool = True, columns: Iterable[str] = ()) -> None:
        self._by, self._once = by, once
        self._lots, self._labels, self._outcomes = array("Q"), array("b"), array("b")
        self._groups: list[str | None] = []
        self._names: list[str] = []
        self._finder = CopyFinder(columns)
        self._found: CopyGroups | None = None
        #: All of these answers, whichever count.
        self.looked_at = TestSetFingerprint()
        self._known_by = KnownBy()
        self.n_undefined = self.n_errors = 0

    @property
    def n_answers(self) -> int:
        """All answers, whichever count."""
        return len(self._labels)

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer; one that was not passed counts as stopped."""
        outcome, label = decision.outcome, int(example.label or 0)
        score = nan if decision.score is None else decision.score
        self.looked_at.add(example, decision.score)
        self._known_by.add(example)
        self.n_errors += outcome == "error"
        self.n_undefined += self._lacks_a_score(decision)
        self._finder.add(example)
        self._lots.append(tie_break_key(int(example.digest(), 16), score, label))
        self._labels.append(label)
        self._outcomes.append((outcome != "pass") + (outcome == "flag"))
        self._groups.append(example.group)
        if self._by is not None:
            self._names.append(group_name(example.columns.get(self._by)))

    @property
    def copies(self) -> CopyGroups:
        """Which answers are copies of one another."""
        if self._found is None or len(self._found.groups) != self.n_answers:
            self._found = self._finder.finish()
        return self._found

    @property
    def n_alike(self) -> int:
        """Rows of scores that are the same as another one, where groups do not say which are."""
        known = self._known_by.counts(self.looked_at.digests, self.copies.groups)
        grouped = any(group is not None for group in self._groups)
        return 0 if grouped or told_apart(known) else known["alike"]

    @property
    def n_sharing(self) -> int:
        """Answers that share their group with an earlier one of their class."""
        return self.n_answers - len(self._drawn(np.array(self._labels)))

    def counts(self, *, per_class: bool = True) -> ClassCounts:
        """Return what counts of all answers: one of each group and class, or of each group."""
        return self._counts(self._counting(*([np.array(self._labels)] if per_class else [])))

    def by_group(self) -> dict[str, ClassCounts]:
        """Return what counts of each value of the column: one of each group and class in it."""
        names, numbers = np.unique(np.array(self._names, dtype=object), return_inverse=True)
        rows = self._counting(np.array(self._labels), numbers)
        return {
            name: self._counts(rows[numbers[rows] == number])
            for number, name in enumerate(names.tolist())
        }

    def n_flagged(self) -> int:
        """Return how many of the faithful answers that count were flagged, not merely reviewed."""
        labels, outcomes = np.array(self._labels), np.array(self._outcomes)
        rows = self._counting(labels)
        return int(np.count_nonzero((outcomes[rows] == _FLAGGED) & (labels[rows] == 0)))

    def _counting(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows that count: of each group, and of each value of the arrays, one."""
        return self._drawn(*apart) if self._once else np.arange(self.n_answers)

    def _drawn(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        keys: Sequence[NDArray[Any]] = (np.array(self._lots, np.uint64), *apart, self._grouped())
        order = np.lexsort(keys)
        new = np.zeros(len(order), np.bool_)
        new[:1] = True
        for key in keys[1:]:
            new[1:] |= key[order][1:] != key[order][:-1]
        return order[new]

    def _grouped(self) -> NDArray[np.int64]:
        """Return one number per group, copies and all of their groups being one."""
        return merge_groups(group_numbers(self._groups, self.n_answers), self.copies.groups)

    def _lacks_a_score(self, decision: Decision) -> bool:
        """Return whether the detector judged an answer, and its policy for no score decided."""
        return decision.score is None and decision.outcome != "error"

    def _stopped(self) -> NDArray[np.bool_]:
        """Return which answers were not passed, shape (n,)."""
        stopped: NDArray[np.bool_] = np.array(self._outcomes) > 0
        return stopped

    def _counts(self, rows: NDArray[np.intp]) -> ClassCounts:
        hallucinated = np.array(self._labels)[rows] == 1
        stopped = self._stopped()[rows]
        numbers = [(stopped & part, part) for part in (hallucinated, ~hallucinated)]
        return ClassCounts(*(int(np.count_nonzero(item)) for pair in numbers for item in pair))


class SentenceDecisionCounts(DecisionCounts):
    """Counts what a guardrail of sentences leaves, as its decisions say, answer by answer.

    A hallucinated answer counts as stopped where no unsupported sentence of it is shown, a faithful
    one where a sentence of it is not. An answer without a score is one with a sentence without.

    Parameters
    ----------
    by, once, columns
        As of a `Tally`.
    share : float
        As of ``ReadOptions.span_share``.
    """

    def __init__(
        self, by: str | None, *, share: float, once: bool = True, columns: Iterable[str] = ()
    ) -> None:
        super().__init__(by, once=once, columns=columns)
        self._share = share
        self._freed, self._emptied, self._reviewed = array("b"), array("b"), array("b")
        self._failed = array("b")
        self._kept = array("d")
        self.n_undefined_sentences = 0

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer by the sentences that may be shown."""
        super().add(example, decision)
        # Also where the failure policy made it another outcome.
        self.n_errors += decision.failed and decision.outcome != "error"
        self.n_undefined_sentences += _undefined(decision)
        gone = {(item.start, item.end) for item in decision.removed or ()}
        shown, n_supported = [], 0
        sentences = sentence_examples(example, self._share)
        self.looked_at.mark(sentence.label for sentence in sentences)
        for sentence in sentences:
            start = len(sentence.before or "")
            n_supported += sentence.label == 0
            # Of an answer for review, or on which the detector failed, nothing is shown.
            if decision.text is not None and (start, start + len(sentence.response)) not in gone:
                shown.append(sentence.label)
        self._freed.append(1 not in shown)
        self._kept.append(shown.count(0) / n_supported if n_supported else nan)
        self._emptied.append(decision.text is not None and not shown)
        self._failed.append(decision.failed)
        self._reviewed.append(decision.text is None and not decision.failed)

    def _lacks_a_score(self, decision: Decision) -> bool:
        return _undefined(decision) > 0

    def _stopped(self) -> NDArray[np.bool_]:
        hallucinated = np.array(self._labels) == 1
        return np.where(hallucinated, np.array(self._freed, np.bool_), super()._stopped())

    @property
    def outcomes(self) -> Outcomes:
        """What is left of every answer, whichever count."""
        return Outcomes(
            freed=np.array(self._freed, np.bool_),
            kept=np.array(self._kept, np.float64),
            emptied=np.array(self._emptied, np.bool_),
            untouched=~super()._stopped(),
            reviewed=np.array(self._reviewed, np.bool_),
        )

    def delivered(self, confidence: float) -> Delivered:
        """Return the measures of the answers that count: one of each group."""
        labels = np.array(self._labels)
        rows = self._counting(labels)
        hallucinated = rows[labels[rows] == 1]
        return self.outcomes.delivered(hallucinated, self._counted_rows(), confidence)

    def failed(self, confidence: float) -> Bound:
        """Return the share of the answers that count on which the detector failed.

        Nothing of them is shown: they are freed, and keep nothing.
        """
        rows = self._counted_rows()
        return exact_bound(
            int(np.count_nonzero(np.array(self._failed)[rows])), len(rows), confidence
        )

    def kept(self) -> NDArray[np.float64]:
        """Return what is kept of each answer that counts and holds a supported sentence."""
        return self.outcomes.shares(self._counted_rows())

    def kept_by_group(self) -> dict[str, tuple[ClassCounts, NDArray[np.float64]]]:
        """Return what counts of each value of the column, and what is kept of its answers."""
        names, numbers = np.unique(np.array(self._names, dtype=object), return_inverse=True)
        rows, outcomes = self._shuffled(self._counting(numbers)), self.outcomes
        counts = self.by_group()
        return {
            name: (counts[name], outcomes.shares(rows[numbers[rows] == number]))
            for number, name in enumerate(names.tolist())
        }

    def _counted_rows(self) -> NDArray[np.intp]:
        return self._shuffled(self._counting())

    def _shuffled(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return rows in an order that has nothing to do with what is left of them."""
        return shuffled(rows, np.array(self._lots, np.uint64))


def _undefined(decision: Decision) -> int:
    """Return how many sentences of an answer have no score, whatever became of them."""
    items = (decision.evidence or {}).get("items", ())
    return sum(item["value"] is None for item in items)


@options_from_keywords(requirement=Requirement)
def certify(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    *,
    by: str | None = None,
    fresh: bool = False,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    looks: str | PathLike[str] | None = None,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    scores: Any = None,
    labels: Any = None,
    groups: Any = None,
    ids: Any = None,
) -> Certification:
    """Certify, reject or leave open, on fresh labelled answers.

    The decisions are the guardrail's own, one by one the same as in production. Hallucinated
    answers that set the threshold are recognised by their digest and left out, since a threshold
    cannot be tested on what it was made from. Where groups hold several answers of a class, one
    answer of each counts, which the digest of its content decides.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        The frozen guardrail, its content, or its file.
    source : path, str or data in memory
        Labelled answers that neither the calibration nor its report has used.
    requirement : Requirement, optional
        Its ``max_fpr`` is the share of faithful answers that may be held back. It is needed, unless
        the threshold was chosen to keep risks: those are certified then. A guardrail that removes
        sentences needs a ``min_kept`` in its place. ``confidence`` is that of all bounds together.
    by : str, optional
        Column of groups that get a verdict each, corrected for their number.
    fresh : bool
        Says that none of the answers set the threshold, where that cannot be told from them: rows
        of scores with neither texts nor ids, of which many are alike. The verdict repeats it.
    reading : ReadOptions, optional
        How to read the file.
    progress : callable, optional
        Called with the number of answers so far.
    looks : path, optional
        File that keeps at what data this guardrail was looked at. Where a tenth of these answers
        was looked at before, nothing is certified. The command keeps one beside the guardrail; of
        the answers that the guardrail's own report tested, the guardrail knows by itself.
    max_fpr, min_coverage : float, optional
        Share of faithful answers that may be flagged, and coverage that is required.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept
        Further fields of `Requirement`, by themselves in its place.
    scores, labels, groups, ids : array-like, optional
        For a guardrail on scores of another program: one value per answer each, in place of
        ``source``. ``labels`` alone may be the folder that ``calibrail label`` wrote: its verdict
        is recomputed from the files, and holds at whatever label one looks.

    Returns
    -------
    Certification

    Raises
    ------
    DataError
        If a class is missing.
    """
    arrays = {"scores": scores, "labels": labels, "groups": groups, "ids": ids}
    if isinstance(labels, str | PathLike):
        del arrays["labels"]
        _refuse_beside(source=source, by=by, reading=reading, **arrays)
        return certify_labels(guardrail, labels, requirement, looks=looks, fresh=fresh)
    guardrail = Guardrail.coerce(guardrail)
    column = guardrail.score.params.get("column") if guardrail.score.name == "column" else None
    fields.column(by, "by")
    source = source_of(source, arrays, column)
    requirement = optional(requirement, Requirement, "requirement")
    frozen_risks = tuple(parse_risk(risk) for risk in guardrail.config.requirement.risks)
    limits = _limits(guardrail, requirement, frozen_risks)
    reading, history = (
        inherited_reading(reading, guardrail, source, labelled=True),
        DataUseHistory(looks),
    )
    trimming = guardrail.unit == "sentence"
    keep = () if by is None else (by,)
    examples = open_for(guardrail, source, reading, keep=keep, by_sentence=trimming)
    _refuse_stopped(examples, guardrail)
    once, columns = not requirement.assume_independent, source_columns([guardrail.score])
    seen, tally = Fresh(guardrail), DecisionCounts(by, once=once, columns=columns)
    if trimming:
        share = reading.span_share if reading is not None else 0.0
        tally = SentenceDecisionCounts(by, share=share, once=once, columns=columns)
    # All is read before the first answer is scored: what refuses the source costs nothing.
    for batch in batches(filter(seen.admits, Dataset(examples))):
        for example, decision in zip(batch, guardrail.decide(batch), strict=True):
            tally.add(example, decision)
        if progress is not None:
            progress(tally.n_answers)
    # Risks are about answers of both classes, so that one answer of a group counts for them.
    counts = tally.counts(per_class=not frozen_risks)
    for n, label, name in (
        (counts.n_hallucinated, 1, "hallucinated"),
        (counts.n_faithful, 0, "faithful"),
    ):
        if n == 0:
            n_seen = seen.n_seen_before if label == 1 else 0
            left_out = f" ({n_seen} were left out as calibration examples)" if n_seen else ""
            raise DataError(
                f"no fresh {name} example to certify on{left_out}; a certificate needs "
                "labelled answers of both classes that the calibration has not seen"
            )
    certificate, measured = _certified(tally, counts, limits), None
    if frozen_risks:
        measured = risk_bounds(frozen_risks, counts, requirement.confidence)
        verdict = risk_verdict(measured)
        reason = risks_reason(verdict, measured)
        certificate = replace(certificate, verdict=verdict, reason=reason, flips=None)
    n_assumed = tally.n_sharing if requirement.assume_independent else 0
    reason = " ".join(filter(None, (certificate.reason, assumed(n_assumed))))
    certificate = replace(certificate, reason=reason)
    verdicts: Mapping[str, GroupVerdict] | None = None
    if by is not None:
        verdicts = (
            certify_group_trimming(tally.kept_by_group(), limits)
            if isinstance(tally, SentenceDecisionCounts)
            else certify_groups(tally.by_group(), limits)
        )
    blocked = None
    if guardrail.rule.upper is not None:
        blocked = exact_bound(tally.n_flagged(), counts.n_faithful, requirement.confidence)
    sha256 = examples.digest()
    if tally.n_answers > counts.n_hallucinated + counts.n_faithful:
        # A flip may also change which answer of a group counts, for both classes.
        certificate = replace(certificate, flips=None)
    freshness = seen.freshness(sha256, declared=fresh)
    certificate, verdicts = without_proof(certificate, verdicts, freshness)
    certificate, verdicts = settled_certificates(
        certificate, verdicts, tally.n_alike, assumed=requirement.assume_independent
    )
    look = tally.looked_at.look(assumed=requirement.assume_independent)
    own = guardrail.config.data.looked_at
    earlier = history.record(
        guardrail.config.digest,
        replace(look, verdict=certificate.verdict),
        *(() if own is None else (DataUse.from_dict(own),)),
        in_its_place=True,
    )
    certificate, verdicts = group_certificates_after_reuse(certificate, verdicts, earlier)
    result = Certification(
        certificate=certificate,
        by=by,
        groups=verdicts,
        risks=measured,
        blocked=blocked,
        n_seen_before=seen.n_seen_before,
        n_set_aside=tally.n_answers - counts.n_hallucinated - counts.n_faithful,
        assumed_independent=n_assumed,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=examples.n_quarantined,
        reading=examples.how(),
        warnings=(),
        data={"source": examples.source, "n_examples": examples.n_examples},
        freshness=freshness,
        looks=tuple(to_report_rows(earlier)),
        copies=tally.copies.counted(),
    )
    if isinstance(tally, SentenceDecisionCounts):
        result = replace(
            result,
            delivered=tally.delivered(requirement.confidence),
            failed=tally.failed(requirement.confidence),
            n_undefined_sentences=tally.n_undefined_sentences,
        )
    warnings = certify_warnings(
        result.to_dict(),
        same_file=sha256 is not None and sha256 == guardrail.config.data.sha256,
        policy=guardrail.config.policy.undefined,
    )
    return replace(result, warnings=tuple(warnings))


def _certified(tally: DecisionCounts, counts: ClassCounts, limits: Requirement) -> Certificate:
    if isinstance(tally, SentenceDecisionCounts):
        return certify_trimming(counts, tally.kept(), limits)
    return certify_counts(counts, limits)


def _refuse_stopped(examples: Reading, guardrail: Guardrail) -> None:
    """Refuse labels of a folder that is looked at while it grows: one look is one too many."""
    origin = examples.origin
    if origin is not None and origin.purpose == "watch":
        raise DataError(
            f"{examples.source} holds labels of answers that are drawn from a decision log as it "
            "grows; what they show, whenever one looks, is told by `calibrail monitor` with "
            f"{cli_or_python('--labels', 'labels=...')}. A verdict by itself needs answers "
            f"labelled for it"
        )
    if origin is None or origin.purpose != "certify":
        return
    remedy = (
        "their own verdict, valid whenever labelling stopped, is read with "
        f"{cli_or_python('--labels', 'labels=...')}"
        if origin.guardrail == guardrail.config.digest
        else "they were drawn for another guardrail: label new answers for this one"
    )
    raise DataError(
        f"{examples.source} holds labels for a verdict, and labelling stops when that falls; a "
        f"verdict on a number of answers fixed beforehand would be wrong too often: {remedy}"
    )


def _refuse_beside(**given: Any) -> None:
    """Refuse what is for held-out answers, beside a folder of labels."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"leave out {'the data' if name == 'source' else name}: a folder of labels knows "
                "which answers it is about, and how they were read"
            )


def _limits(guardrail: Guardrail, requirement: Requirement, risks: Sequence[Risk]) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them."""
    if requirement.risks:
        raise InputError(
            "the risks that a guardrail keeps are frozen in it, and those are certified; leave out "
            f"risks, and calibrate with {spell_option(Requirement, 'risks')} for others"
        )
    requirement.check_unit(guardrail.config.promise)
    if guardrail.unit == "sentence" and requirement.min_kept is None:
        raise InputError(
            f"{spell_option(Requirement, 'min_kept')} must be given: what share of supported "
            "sentences must be left, on average? A guardrail that removes everything frees every "
            "answer"
        )
    if not risks:
        if requirement.max_fpr is None and guardrail.unit == "answer":
            raise InputError(
                f"{spell_option(Requirement, 'max_fpr')} must be given: how many faithful "
                f"answers may "
                "be held back?"
            )
        return replace(requirement, min_coverage=requirement.coverage(guardrail.config.promise))
    if requirement.max_fpr is not None or requirement.min_coverage is not None:
        raise InputError(
            f"this guardrail was chosen to keep {', '.join(map(str, risks))}, and that is what is "
            "certified; leave out max_fpr and min_coverage"
        )
    levels = {risk.name: risk.level for risk in risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)
