"""Certification of a frozen guardrail on fresh labelled answers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from os import PathLike
from typing import Any, Final, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail import conformal
from calibrail.conformal import ClassCounts, GroupVerdict, Risk
from calibrail.conformal.certificate import Verdict, certify_group_trimming, certify_trimming
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.duplicates import CopyFinder
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sentences import sentence_examples
from calibrail.data.sources import Source
from calibrail.data.splits import FIT, TEST, group_numbers, merge_groups
from calibrail.data.values import group_name
from calibrail.errors import DataError, InputError
from calibrail.evaluation import Sample, sections
from calibrail.evaluation.measures import Outcomes, shuffled
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import Costs, ReadOptions, Requirement, fields
from calibrail.options.data import ReadKeywords, judge_of
from calibrail.options.fields import optional, spell_option
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import (
    calibration_overlap,
    data_reuse,
    independence,
    loading,
    look_overlap,
    run,
)
from calibrail.pipelines.certify_labels import Certification, certify_labels
from calibrail.pipelines.check import tried_out
from calibrail.pipelines.scoring import stand_ins, tie_break_keys
from calibrail.report.documents.calibrate_sections import assumed, possible, risks_reason
from calibrail.report.documents.certify import certify_warnings
from calibrail.report.documents.measures import amount
from calibrail.report.messages import say, spell, spell_reasons
from calibrail.scores.registry import key_of
from calibrail.serialization import plain

#: What is kept of an outcome: passed, stopped for review or by an error, flagged.
_FLAGGED: Final = 2


class DecisionCounts:
    """Counts decisions, one answer of each group and class, in any order of the answers.

    Copies of an answer and all of their groups are one group. Of each the answer with the lowest
    lot counts. No text is kept. Every answer is added; then `finish` is called, and numbers follow.

    Of a guardrail of sentences, a hallucinated answer counts as stopped where no unsupported
    sentence of it is shown, a faithful one where a sentence of it is not; an answer without a score
    is one with a sentence without.

    Parameters
    ----------
    by : str or None
        Column whose values are counted each by itself, too.
    once : bool
        Whether one answer of a group counts, or every answer.
    columns : iterable of str
        Columns that the detector reads.
    share : float, optional
        As of ``ReadOptions.span_share``, where sentences are removed.
    """

    def __init__(
        self,
        by: str | None,
        *,
        once: bool = True,
        columns: Iterable[str] = (),
        share: float | None = None,
    ) -> None:
        self.by, self._once, self._share = by, once, share
        #: Whether sentences are removed.
        self.trims = share is not None
        self._finder = CopyFinder(columns)
        self._rows: list[tuple[str, float, int, int, str | None, str | None]] = []
        self._left: list[tuple[bool, float, bool, bool, bool]] = []
        self._near = np.zeros(0, np.bool_)
        # Where they count at an end: the counts where near copies count once, and which count each.
        self._between: tuple[Self, NDArray[np.bool_], NDArray[np.bool_]] | None = None
        #: All of these answers, whichever count.
        self.looked_at = look_overlap.TestSetFingerprint()
        self.n_undefined = self.n_errors = self.n_undefined_sentences = 0

    @property
    def n_answers(self) -> int:
        """All answers, whichever count."""
        return len(self._rows)

    def add(self, example: Example, decision: Decision) -> None:
        """Count one answer; one that was not passed counts as stopped."""
        outcome, label = decision.outcome, int(example.label or 0)
        score = math.nan if decision.score is None else decision.score
        stopped = (outcome != "pass") + (outcome == "flag")
        self.looked_at.add(example, decision.score, stopped)
        self._finder.add(example)
        name = None if self.by is None else group_name(example.columns.get(self.by))
        self._rows.append((example.told_by, score, label, stopped, example.group, name))
        if self._share is not None:
            self._add_sentences(example, decision, self._share)
        else:
            self.n_errors += outcome == "error"
            self.n_undefined += decision.score is None and outcome != "error"

    def _add_sentences(self, example: Example, decision: Decision, share: float) -> None:
        """Count what of an answer may be shown."""
        # Also where the failure policy made it another outcome.
        self.n_errors += decision.failed or decision.outcome == "error"
        items = (decision.evidence or {}).get("items", ())
        n_undefined = sum(item["value"] is None for item in items)
        self.n_undefined_sentences += n_undefined
        self.n_undefined += n_undefined > 0
        gone = {(item.start, item.end) for item in decision.removed or ()}
        shown, n_supported = [], 0
        sentences = sentence_examples(example, share)
        self.looked_at.mark(sentence.label for sentence in sentences)
        for sentence in sentences:
            start = len(sentence.before or "")
            n_supported += sentence.label == 0
            # Of an answer for review, or on which the detector failed, nothing is shown.
            if decision.text is not None and (start, start + len(sentence.response)) not in gone:
                shown.append(sentence.label)
        kept = shown.count(0) / n_supported if n_supported else math.nan
        withheld = decision.text is None
        emptied = not withheld and not shown
        reviewed = withheld and not decision.failed
        self._left.append((1 not in shown, kept, emptied, decision.failed, reviewed))

    def finish(self, near: Sequence[int]) -> None:
        """Find the copies, once all answers are added, and what is left of every answer.

        ``near`` says of each whether it may be a near copy of one that set the threshold.
        """
        told_by, scores, labels, outcomes, groups, names = zip(*self._rows, strict=True)
        known_by = self.looked_at.known_by
        self.copies = self._finder.finish(known_by.digests, known_by.spelt)
        #: Those of all answers, whichever count; NaN for none.
        self.scores = np.array(scores, np.float64)
        self._labels, self._near = np.array(labels, np.int8), np.array(near, np.bool_)
        self._lots = tie_break_keys(
            known_by.spelt, self._labels, told_by.__getitem__, [self.scores]
        )
        self._outcomes = np.array(outcomes, np.int8)
        self._stopped = self._outcomes > 0
        self._named = group_numbers(groups, self.n_answers)
        self._groups = merge_groups(self._named, self.copies.groups)
        known = known_by.counts(self.copies.together)
        grouped = any(group is not None for group in groups)
        #: Rows of scores that are the same as another one, where groups do not say which are.
        self.n_alike = 0 if grouped or calibration_overlap.told_apart(known) else known["alike"]
        #: Answers that share their group with an earlier one of their class.
        self.n_sharing = self.n_looked_at - len(self._drawn(self._labels))
        if self.by is not None:
            self._names, self._numbers = np.unique(np.array(names, object), return_inverse=True)
        if self._share is not None:
            freed, kept, emptied, self._failed, reviewed = map(
                np.array, zip(*self._left, strict=True)
            )
            self.outcomes = Outcomes(freed, kept, emptied, ~self._stopped, reviewed)
            self._stopped = np.where(self._labels == 1, freed, self._stopped)

    @property
    def n_looked_at(self) -> int:
        """How many answers take part."""
        return int(np.sum(~self._near))

    @property
    def n_near(self) -> int:
        """How many may be near copies, of one another or of those that set the threshold."""
        return self.copies.n_near + int(self._near.sum()) if self._once else 0

    def readings(self, min_kept: float) -> list[Self]:
        """Return the counts where near copies count once, each, at worst, and at best.

        At worst those count about which the decision is wrong: see `independence.extreme`.
        """
        each, wrong = self.each(), self._stopped != (self._labels == 1)
        withheld = self.outcomes.kept < min_kept if self.trims else self._stopped
        ends = [copy(each), copy(each)]
        for end, *apart in zip(ends, (wrong, ~wrong), (withheld, ~withheld), strict=True):
            end._between = self, *apart
        return [self, each, *ends]

    def each(self) -> Self:
        """Return the same counts, in which near copies are answers of their own."""
        other = copy(self)
        other._groups = merge_groups(self._named, self.copies.same)
        other._near = np.zeros_like(self._near)
        return other

    @property
    def among_all(self) -> Self:
        """The same as answers of both classes count together: see `Sample.among_all`."""
        other = copy(self)
        other._between = self._between and (*self._between[:1], *self._between[:0:-1])
        return other

    def counts(self, *, per_class: bool = True) -> ClassCounts:
        """Return what counts of all answers: one of each group and class, or of each group."""
        return self.sample(*([self._labels] if per_class else [])).counts(self._stopped)

    def by_group(self) -> dict[str, ClassCounts]:
        """Return what counts of each value of the column: one of each group and class in it."""
        sample = self.sample(self._labels, self._numbers)
        return {
            name: sample.counts(self._stopped, self._numbers == number)
            for number, name in enumerate(self._names.tolist())
        }

    def n_flagged(self) -> int:
        """Return how many of the faithful answers that count were flagged, not merely reviewed."""
        return self.sample(self._labels).count(self._outcomes == _FLAGGED, TEST, 0)[0]

    def delivered(self, confidence: float) -> dict[str, Any]:
        """Return the measures of what is left of the answers that count: one of each group.

        Of those on which the detector failed nothing is shown: they are freed, and keep nothing.
        """
        rows, every = self._counting(self._labels), self._shuffled()
        hallucinated = rows[self._labels[rows] == 1]
        n_failed = int(np.count_nonzero(self._failed[every]))
        return {
            "delivered": self.outcomes.delivered(hallucinated, every, confidence),
            "failed": conformal.exact_bound(n_failed, len(every), confidence),
            "n_undefined_sentences": self.n_undefined_sentences,
        }

    def curve(self, undefined: str, level: float, ways: Sequence[Self]) -> dict[str, Any] | None:
        """Return what other thresholds would do on the answers that count, in either way."""
        sample, *beside = (way.sample(way._labels) for way in (self, *ways))
        return sections.operating_curve(sample, undefined=undefined, confidence=level, ways=beside)

    def sample(self, *apart: NDArray[Any]) -> Sample:
        """Return all answers, of which those that count are the test part: see `_counting`."""
        counts, every = np.isin(np.arange(self.n_answers), self._counting(*apart)), not self._once
        split, groups, lots = np.where(counts, TEST, FIT).astype(np.int8), self._groups, self._lots
        return Sample(self.scores, self._labels, split, groups, lot=lots, independent=every)

    def cost(self, costs: Costs, confidence: float, *, wrong: bool = True) -> dict[str, Any]:
        """Return what wrong decisions, or right ones, cost on the answers that count."""
        stopped = self._stopped == wrong
        found = sections.expected_cost(self.sample(self._labels), stopped, costs, confidence)
        return found | {"base_rate_is": "of the guardrail"}

    def what_counts(self) -> list[Any]:
        """Return all that verdicts rest on but the counts of all answers."""
        counts = {} if self.by is None else self.by_group()
        groups = {name: asdict(item) for name, item in counts.items()}
        return [self.by, groups, [] if self._share is None else self.kept().tolist()]

    def kept(self) -> NDArray[np.float64]:
        """Return what is kept of each answer that counts and holds a supported sentence."""
        return self.outcomes.shares(self.among_all._shuffled())

    def kept_by_group(self) -> dict[str, tuple[ClassCounts, NDArray[np.float64]]]:
        """Return what counts of each value of the column, and what is kept of its answers."""
        rows, counts = self.among_all._shuffled(self._numbers), self.by_group()
        return {
            name: (counts[name], self.outcomes.shares(rows[self._numbers[rows] == number]))
            for number, name in enumerate(self._names.tolist())
        }

    def _counting(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows that count: of each group, and of each value of the arrays, one."""
        return self._drawn(*apart) if self._once else np.flatnonzero(~self._near)

    def _shuffled(self, *apart: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows that count in an order that has nothing to do with what is left."""
        return shuffled(self._counting(*apart), self._lots)

    def _drawn(self, *apart_by: NDArray[Any]) -> NDArray[np.intp]:
        keys: Sequence[NDArray[Any]] = (self._lots, *apart_by, self._groups)
        order = np.lexsort(keys)
        order = order[~self._near[order]]
        new = np.zeros(len(order), np.bool_)
        new[:1] = True
        for key in keys[1:]:
            new[1:] |= key[order][1:] != key[order][:-1]
        if self._between is None:
            return order[new]
        once, apart, _ = self._between
        return np.union1d(once._drawn(*apart_by), order[new][apart[order[new]]])


@options_from_keywords(requirement=Requirement, reading=ReadOptions)
def certify(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    *,
    by: str | None = None,
    fresh: bool = False,
    reading: ReadOptions | None = None,
    progress: loading.Progress | None = None,
    looks: data_reuse.LooksFile = None,
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
    scores: Any = None,
    labels: Any = None,
    groups: Any = None,
    ids: Any = None,
    judge_column: str | None = None,
    **how: Unpack[ReadKeywords],
) -> Certification:
    """Certify, reject or leave open, on fresh labelled answers.

    The decisions are the guardrail's own, one by one the same as in production. Hallucinated
    answers that set the threshold are recognised by their digest and left out, since a threshold
    cannot be tested on what it was made from. Where groups hold several answers of a class, one
    answer of each counts, which the digest of its content decides. A wrong ``certified``, and a
    wrong ``rejected``, each have at most the stated probability, in all looks that are kept, for
    independent answers or groups like those to come, rightly labelled, and limits fixed before.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        The frozen guardrail, its content, or its file.
    source : path, str or data in memory
        Labelled answers that neither the calibration nor its report has used.
    requirement : Requirement, optional
        Its ``max_false_alarms`` is the share of faithful answers that may be held back. It is
        needed, unless the threshold was chosen to keep risks: those are certified then; or picked
        by what errors cost: then the bound of the cost is certified that the guardrail states. A
        guardrail that removes sentences needs a ``min_kept`` in its place. ``confidence`` is that
        of all bounds together.
    by : str, optional
        Column of groups that get a verdict each, corrected for their number.
    fresh : bool
        Says that none of the answers set the threshold, where that cannot be told from them: rows
        of scores with neither texts nor ids, of which many are alike. The verdict repeats it.
    reading : ReadOptions, optional
        How to read the file; its fields may stand by themselves in its place.
    progress : callable, optional
        Called with the number of answers so far.
    looks : path or False, optional
        File that keeps the looks at this guardrail, whose verdicts share one error: each look
        takes three quarters of what is left, or an equal part of it where ``n_looks`` were
        declared with the first. Left out it is the one beside the guardrail's file, as for the
        command; of a guardrail without a file this process keeps them. False keeps nothing, as a
        simulation does: then the stated error is that of one look alone. On the answers that its
        own report tested nothing is certified; these the guardrail knows by itself.
    max_false_alarms, min_caught : float, optional
        Share of faithful answers that may be flagged, and coverage that is required.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept, n_looks
        Further fields of `Requirement`, by themselves in its place.
    scores, labels, groups, ids : array-like, optional
        For a guardrail on scores of another program: one value per answer each, in place of
        ``source``. ``labels`` alone may be the folder that ``calibrail label`` wrote: its verdict
        is recomputed from the files, and holds at whatever label one looks.
    judge_column : str, optional
        The judge that the folder of labels was begun with: its word is weighed by the labels before
        each and is never counted as one, so that the verdict errs no more often. Any other one is
        refused: it would be chosen after the labels.

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
        for name, value in {"source": source, "by": by, "reading": reading, **arrays}.items():
            if value is not None and name != "labels":
                what = "the data" if name == "source" else name
                raise InputError.on("labels_know_answers", what=what)
        about: Any = {"judge_column": judge_column, "looks": looks, "fresh": fresh}
        return certify_labels(guardrail, labels, requirement, **about)
    if judge_column is not None:
        raise InputError(say("refused.judge_without_labels_beside"))
    guardrail = Guardrail.coerce(guardrail)
    column = guardrail.score.params.get("column") if guardrail.score.name == "column" else None
    fields.column(by, "by")
    source = loading.source_of(source, arrays, column)
    requirement = optional(requirement, Requirement, "requirement")
    frozen_risks = tuple(conformal.parse_risk(risk) for risk in guardrail.config.requirement.risks)
    stated = guardrail.config.headline.cost
    limits = _limits(
        guardrail, requirement, frozen_risks, by_cost=stated is not None and by is None
    )
    reading = run.inherited_reading(reading, guardrail, source, labelled=True)
    file = None if guardrail.origin is None else guardrail.origin.path
    history = data_reuse.DataUseHistory.of_guardrail(file, looks)
    trimming, keep = guardrail.unit == "sentence", () if by is None else (by,)
    examples = loading.open_for(guardrail, source, reading, keep=keep, by_sentence=trimming)
    _refuse_stopped(examples, guardrail)
    independent = requirement.assume_independent
    columns = loading.source_columns([guardrail.score])
    share = reading.span_share if trimming else None
    tally = DecisionCounts(by, once=not independent, columns=columns, share=share)
    seen = calibration_overlap.Fresh(guardrail, with_near=True)
    # All is read before the first answer is scored: what refuses the source costs nothing.
    admitted = tried_out(guardrail, seen.admitted(examples.held()))
    for batch in loading.batches(admitted):
        decisions = guardrail.decide(batch)
        with guardrail.rules():
            for example, decision in zip(batch, decisions, strict=True):
                tally.add(example, decision)
        if progress is not None:
            progress(tally.n_answers)
    counts = _counted(tally, seen, per_class=not frozen_risks)
    look, standing = _begun(history, guardrail, tally, counts, limits)
    asked, limits = limits, standing.strict(limits)
    level, confidence = limits.confidence, asked.confidence
    decided = partial(_decided, risks=frozen_risks, asked=confidence, stated=stated)
    certificate, verdicts, measured, cost = decided(tally, counts, limits)
    near_copies, both = None, list[DecisionCounts]()
    if n_near := tally.n_near:
        readings = tally.readings(limits.min_kept or 0.0)
        both = readings[:2]
        ways = [
            (item, seen_in, *decided(item, seen_in, limits))
            for item in readings
            for seen_in in (item.counts(per_class=not frozen_risks),)
        ]
        certificate, near_copies, place = independence.worse_certificate(
            [way[2] for way in ways], n_near
        )
        tally, counts, _, _, measured, _ = ways[place]
        if cost is not None:
            cost = max((cast(dict[str, Any], way[5]) for way in ways), key=lambda of: of["upper"])
        if by is not None:
            groups = [cast(Mapping[str, GroupVerdict], way[3]) for way in ways]
            verdicts = {
                name: replace(
                    groups[0].get(name, item),
                    certificate=independence.worse_certificate(
                        [(name in way and way[name].certificate) or None for way in groups], n_near
                    )[0],
                )
                for name, item in groups[1].items()
            }
    reviews = guardrail.rule.upper is not None
    certificate = replace(
        certificate, reason=spell(certificate.reason, confidence, reviews=reviews)
    )
    certificate, verdicts = spell_reasons((certificate, verdicts))
    n_assumed = tally.n_sharing if independent else 0
    reason = " ".join(filter(None, (certificate.reason, assumed(n_assumed))))
    certificate = replace(certificate, reason=reason)
    blocked = (
        conformal.exact_bound(tally.n_flagged(), counts.n_faithful, level) if reviews else None
    )
    sha256 = examples.digest()
    n_set_aside = tally.n_looked_at - counts.n_hallucinated - counts.n_faithful
    if n_set_aside > 0:
        # A flip may also change which answer of a group counts, for both classes.
        certificate = replace(certificate, flips=None)
    freshness = seen.freshness(sha256, declared=fresh)
    proven = partial(calibration_overlap.without_proof, freshness=freshness)
    judge = judge_of(examples.how())
    alike = partial(independence.settled, n_alike=tally.n_alike, assumed=independent, judge=judge)
    again = partial(data_reuse.certificate_after_reuse, standing=standing, spends=True)
    for change in (proven, alike, again):
        certificate, verdicts = calibration_overlap.revised(certificate, verdicts, change)
    history.conclude(guardrail.config.digest, look, certificate.verdict)
    alone = independent or not tally.n_alike
    if cost is not None and not (freshness in ("new", "declared") and alone and standing.share):
        cost |= {"upper": None, "beats": False}
    result = Certification(
        certificate=certificate,
        by=by,
        groups=verdicts,
        risks=measured,
        blocked=blocked,
        n_seen_before=seen.n_seen_before,
        n_near_copies=seen.n_near_copies,
        known_as_spelt=seen.as_spelt,
        n_set_aside=n_set_aside,
        assumed_independent=n_assumed,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=examples.n_quarantined,
        reading=examples.how(),
        data={
            **{"source": examples.source, "n_examples": examples.n_examples},
            "stand_ins": stand_ins(guardrail.score, tally.scores),
        },
        freshness=freshness,
        looks=tuple(data_reuse.to_report_rows(standing.earlier)),
        copies=tally.copies.counted(),
        near_copies=near_copies,
        cost=cost,
    )
    if trimming:
        result = replace(result, **tally.delivered(level))
    elif not frozen_risks:
        curve = tally.curve(guardrail.config.policy.undefined, confidence, both)
        shown = {"curve": curve, "score": guardrail.config.score.model_dump()}
        result = replace(result, possible=possible({**certificate.to_dict(), **shown}))
    if history.keeps:
        about = {**standing.to_dict(confidence), "confidence": confidence}
        if standing.following and not frozen_risks and certificate.verdict == "inconclusive":
            next_limits = replace(limits, confidence=1.0 - about["next_level"])
            about["needed"] = dict(decided(tally, counts, next_limits)[0].needed)
        result = replace(result, look=about)
    warnings = certify_warnings(
        result.to_dict(),
        same_file=sha256 is not None and sha256 == guardrail.config.data.sha256,
        policy=guardrail.config.policy.undefined,
    )
    return replace(result, warnings=independence.naming_judge(warnings, guardrail.config, judge))


def _begun(
    history: data_reuse.DataUseHistory,
    guardrail: Guardrail,
    tally: DecisionCounts,
    counts: ClassCounts,
    limits: Requirement,
) -> tuple[look_overlap.DataUse, data_reuse.Standing]:
    """Keep the look at these answers; return it, and what it may err with.

    It is the very same one where the same answers, limits and counts are: the verdict follows.
    """
    config = guardrail.config
    rule = Rule.from_dict(vars(config))
    thresholds = [rule.calibration.threshold, rule.chosen, rule.upper and rule.upper.threshold]
    decides = [config.score.model_dump(), thresholds, rule.groups]
    edge, own = np.array([thresholds[0]]), look_overlap.own_look(config)
    # Of another column's name threshold and scores of the report tell the same guardrail.
    telling = (calibration_overlap.rounded(edge, look_overlap.DIGITS) != edge).all() and own
    spec = {"key": key_of(guardrail.score)} | config.score.model_dump(include={"name", "params"})
    each = tally.each().what_counts() if tally.n_near else []
    look = replace(
        tally.looked_at.look(tally.copies.sketches, assumed=limits.assume_independent),
        detector=look_overlap.digest_of(plain(decides)),
        score=look_overlap.digest_of(plain(spec)),
        question=look_overlap.digest_of(plain([asdict(counts), *tally.what_counts(), *each])),
        limits=look_overlap.limits_of(limits, config.promise.unit),
        given=look_overlap.digest_of(plain([*decides[1:], own[0].values])) if telling else "",
    )
    standing = history.record(config.digest, look, *own, spends=True, n_looks=limits.n_looks)
    return look, standing


def _decided(
    tally: DecisionCounts,
    counts: ClassCounts,
    limits: Requirement,
    *,
    risks: Sequence[Risk],
    asked: float,
    stated: Mapping[str, Any] | None,
) -> tuple[
    conformal.Certificate,
    Mapping[str, GroupVerdict] | None,
    list[dict[str, Any]] | None,
    dict[str, Any] | None,
]:
    """Return the certificate of what counts, those of groups, the risks as measured, and the cost.

    A reason of costs names the confidence ``asked``, which it has with all other looks together.
    """
    certificate: conformal.Certificate
    verdicts: Mapping[str, GroupVerdict] | None = None
    if tally.trims:
        certificate = certify_trimming(counts, tally.kept(), limits)
        if tally.by is not None:
            verdicts = certify_group_trimming(tally.kept_by_group(), limits)
    else:
        certificate = conformal.certify_counts(counts, limits)
        if tally.by is not None:
            verdicts = conformal.certify_groups(tally.by_group(), limits)
    cost = None
    if stated is not None:
        cost = tally.cost(Costs(**stated["costs"]), limits.confidence)
        if limits.max_fpr is None:
            certificate = _by_cost(certificate, tally, cost, stated, asked)
    if not risks:
        return certificate, verdicts, None, cost
    among_all = tally.among_all.counts(per_class=False)
    measured = sections.risk_bounds(risks, counts, among_all, limits.confidence)
    verdict = sections.risk_verdict(measured)
    about: dict[str, Any] = {"reason": risks_reason(verdict, measured), "reason_code": "risks"}
    return replace(certificate, verdict=verdict, flips=None, **about), verdicts, measured, None


#: More labels than this many times those that there are is no advice.
_MOST_TIMES: Final = 15.0


def _by_cost(
    certificate: conformal.Certificate,
    tally: DecisionCounts,
    cost: Mapping[str, Any],
    stated: Mapping[str, Any],
    asked: float,
) -> conformal.Certificate:
    """Return the certificate with the verdict about what a guardrail states of its cost.

    That is its certified bound, or, where none was shown, what the cheaper of flagging and passing
    everything costs. Each of the two bounds that may decide errs with 1 - confidence.
    """
    limit = stated["upper"] or min(cost["flag_all"], cost["pass_all"])

    # What is decided rightly is the rest of all that errors could cost.
    right = tally.cost(Costs(**cost["costs"]), cost["confidence"], wrong=False)["upper"]
    lower, upper = cost["flag_all"] + cost["pass_all"] - right, cost["upper"]
    verdict: Verdict = "certified" if upper <= limit else "inconclusive"
    verdict = "rejected" if lower > limit else verdict
    gap = max(0.0, limit - cost["estimate"])
    more = ((upper - cost["estimate"]) / gap) ** 2 - 1.0 if gap else math.inf
    more = more if verdict == "inconclusive" else 0.0
    sizes = {"hallucinated": certificate.coverage.n, "faithful": certificate.fpr.n}
    needed = {k: round(more * size) if more <= _MOST_TIMES else None for k, size in sizes.items()}
    shown: dict[str, Any] = {
        "upper": amount(upper, upper=True),
        "lower": amount(max(0.0, lower), upper=False),
    }
    shown |= {"limit": amount(limit, upper=True), "asked": asked, "verdict": verdict}
    reason, code = say("certify.cost", cost, shown, stated=bool(stated["upper"])), f"cost_{verdict}"
    return replace(certificate, verdict=verdict, needed=needed, reason=reason, reason_code=code)


def _counted(
    tally: DecisionCounts, seen: calibration_overlap.Fresh, *, per_class: bool
) -> ClassCounts:
    """Return what counts of both classes, or refuse answers that lack one of them.

    Risks are about answers of both classes, so that one answer of a group counts for them.
    """
    counts = ClassCounts(0, 0, 0, 0)
    if tally.n_answers:
        tally.finish(seen.near)
        counts = tally.counts(per_class=per_class)
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if getattr(counts, f"n_{name}") == 0:
            n_seen = seen.n_seen_before if label == 1 else 0
            left_out = f" ({n_seen} were left out as calibration answers)" if n_seen else ""
            raise DataError(say("refused.class_missing_to_certify", name=name, left_out=left_out))
    return counts


def _refuse_stopped(examples: Reading, guardrail: Guardrail) -> None:
    """Refuse labels of a folder that is looked at while it grows: one look is one too many."""
    origin = examples.origin
    if origin is not None and origin.purpose == "watch":
        raise DataError(say("refused.labels_of_a_log", examples=examples))
    if origin is not None and origin.purpose == "certify":
        own = origin.guardrail == guardrail.config.digest
        raise DataError(say("refused.labels_that_stopped", source=examples.source, own=own))


def _limits(
    guardrail: Guardrail, requirement: Requirement, risks: Sequence[Risk], *, by_cost: bool
) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them.

    Where it names neither, and costs picked the threshold, these may decide.
    """
    if requirement.risks:
        raise InputError(say("refused.risks_are_frozen", option=spell_option(Requirement, "risks")))
    requirement.check_unit(guardrail.config.promise)
    if guardrail.unit == "sentence" and requirement.min_kept is None:
        raise InputError(say("refused.min_kept_missing"))
    if by_cost and not requirement.limits:
        return replace(requirement, min_coverage=0.0)
    if not risks:
        if requirement.max_fpr is None and guardrail.unit == "answer":
            limit = guardrail.config.requirement.max_fpr
            raise InputError(say("refused.max_fpr_missing", limit=limit))
        return replace(
            requirement, min_coverage=requirement.stated_coverage(guardrail.config.promise)
        )
    if requirement.max_fpr is not None or requirement.min_coverage is not None:
        raise InputError(say("refused.risks_decide", risks=", ".join(map(str, risks))))
    levels = {risk.name: risk.level for risk in risks}
    return replace(requirement, max_fpr=levels.get("fpr"), min_coverage=levels.get("recall", 0.0))
